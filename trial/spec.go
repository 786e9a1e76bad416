package trial

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tmpproxy/session"
)

const (
	maxArms   = 8
	maxWeight = 1e6
)

var strategies = map[string]session.Strategy{
	"native": session.StrategyNative, "keep": session.StrategyKeep, "innodb": session.StrategyInnoDB, "auto": session.StrategyAuto,
}

var assignments = []string{AssignRandom, AssignUser, AssignSchema, AssignHost}

// plain is what names of trials and arms are made of: they name files and stand in metrics.
var plain = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// ParseArm reads an arm as the settings give it: [NAME=]STRATEGY[/RESET][*WEIGHT].
func ParseArm(text string) (ArmSpec, error) {
	a := ArmSpec{Strategy: strings.TrimSpace(text)}
	var err error
	if rest, weight, found := strings.Cut(a.Strategy, "*"); found {
		a.Strategy = rest
		if a.Weight, err = strconv.ParseFloat(weight, 64); err != nil || !(a.Weight > 0) {
			return a, fmt.Errorf("the weight %q is no number above 0", weight)
		}
	}
	if name, rest, found := strings.Cut(a.Strategy, "="); found {
		a.Name, a.Strategy = name, rest
	}
	a.Strategy, a.Reset, _ = strings.Cut(a.Strategy, "/")
	if a.Name == "" {
		a.Name = a.Strategy
		if a.Reset != "" {
			a.Name += "-" + a.Reset
		}
	}
	return a, a.check()
}

// ParseArms reads a list of arms.
func ParseArms(list []string) ([]ArmSpec, error) {
	var arms []ArmSpec
	for _, text := range list {
		a, err := ParseArm(text)
		if err != nil {
			return nil, fmt.Errorf("arm %q: %w", text, err)
		}
		arms = append(arms, a)
	}
	s := Spec{Name: "x", Arms: arms}
	return arms, s.Check()
}

func (a *ArmSpec) check() error {
	switch _, known := strategies[a.Strategy]; {
	case !known:
		return fmt.Errorf("strategy is native, keep, innodb or auto, not %q", a.Strategy)
	case a.Reset != "" && a.Reset != "truncate" && a.Reset != "auto":
		return fmt.Errorf("reset is truncate or auto, not %q", a.Reset)
	case !plain.MatchString(a.Name):
		return fmt.Errorf("%q is no name: letters, digits, '-' and '_', 40 at most", a.Name)
	case !(a.Weight >= 0 && a.Weight <= maxWeight):
		return fmt.Errorf("the weight %v is none", a.Weight)
	}
	return nil
}

// Check fills in what was left out and says what is wrong.
func (s *Spec) Check() error {
	if !plain.MatchString(s.Name) {
		return fmt.Errorf("%q is no name for a trial: letters, digits, '-' and '_', 40 at most", s.Name)
	}
	if len(s.Arms) < 2 || len(s.Arms) > maxArms {
		return fmt.Errorf("a trial has 2 to %d arms", maxArms)
	}
	for i := range s.Arms {
		a := &s.Arms[i]
		if a.Name == "" {
			a.Name = a.Strategy
		}
		if a.Weight == 0 {
			a.Weight = 1
		}
		if err := a.check(); err != nil {
			return fmt.Errorf("arm %q: %w", a.Name, err)
		}
		if slices.ContainsFunc(s.Arms[:i], func(b ArmSpec) bool { return b.Name == a.Name }) {
			return fmt.Errorf("two arms are called %q", a.Name)
		}
	}
	if s.Assignment == "" {
		s.Assignment = AssignRandom
	}
	if !slices.Contains(assignments, s.Assignment) {
		return fmt.Errorf("assignment is %s, not %q", strings.Join(assignments, ", "), s.Assignment)
	}
	if math.IsNaN(s.Guardrail) || s.Guardrail < 0 || s.Guardrail > 100 {
		return errors.New("guardrail is a share like 0.2, at most 100")
	}
	return nil
}

// control is the index of the arm that the others are compared with.
func (s *Spec) control() int {
	return max(0, slices.IndexFunc(s.Arms, func(a ArmSpec) bool { return a.Strategy == "native" }))
}

// equal says whether two trials are the same, whatever their guardrails.
func (s *Spec) equal(o *Spec) bool {
	return s.Name == o.Name && s.Assignment == o.Assignment && slices.Equal(s.Arms, o.Arms)
}
