package trial

import (
	"fmt"
	"math"
)

// small is a difference that is called none.
const small = 0.03

// verdict compares an arm's cycles of a shape with the control's.
func (r *Results) verdict(s *ShapeResults, arm int) Verdict {
	control := r.Spec.control()
	a, b := s.Cells[arm], s.Cells[control]
	i := compare(&a.Closed, &b.Closed)
	v := Verdict{Arm: r.Spec.Arms[arm].Name, Against: r.Spec.Arms[control].Name, Sessions: i.n}
	if a.Closed[0].N > 0 && b.Closed[0].N > 0 {
		v.Ratio = math.Exp(i.difference)
	}
	if !math.IsInf(i.half, 1) {
		v.Low = math.Exp(i.low())
		if high := math.Exp(i.high()); !math.IsInf(high, 1) {
			v.High = &high
		}
	}
	v.Words = v.words(a.Closed[0].N, b.Closed[0].N, unit(r.Spec.Assignment))
	if reason := r.Arms[arm].StoppedReason; reason != "" && v.High == nil {
		v.Words = fmt.Sprintf("%s was stopped: %s", v.Arm, reason)
	}
	return v
}

// unit is what an observation is of.
func unit(assignment string) string {
	if assignment == AssignRandom {
		return "session"
	}
	return assignment
}

func (v *Verdict) words(arm, control int64, unit string) string {
	if v.High == nil {
		return fmt.Sprintf("too few %ss to tell: %d of %s, %d of %s count so far; six or more of each are needed", unit, arm, v.Arm, control, v.Against)
	}
	low, high := v.Low-1, *v.High-1
	switch {
	case high < 0:
		return fmt.Sprintf("%s's cycles take %s less time than %s's", v.Arm, percents(-high, -low), v.Against)
	case low > 0:
		return fmt.Sprintf("%s's cycles take %s more time than %s's", v.Arm, percents(low, high), v.Against)
	case high < small && low > -small:
		return fmt.Sprintf("%s's cycles take as long as %s's: at most %s less or %s more", v.Arm, v.Against, percent(-low), percent(high))
	}
	return fmt.Sprintf("no difference shown yet: between %s less and %s more time than %s's", percent(-low), percent(high), v.Against)
}

func percent(x float64) string {
	if x < 0.1 {
		return fmt.Sprintf("%.1f %%", 100*x)
	}
	return fmt.Sprintf("%.0f %%", 100*x)
}

// percents is a range, both ends written alike.
func percents(from, to float64) string {
	if from < 0.1 || math.Round(100*from) == math.Round(100*to) {
		return fmt.Sprintf("%.1f to %.1f %%", 100*from, 100*to)
	}
	return fmt.Sprintf("%.0f to %.0f %%", 100*from, 100*to)
}

// harm says why an arm is to be stopped, or "": with confidence its cycles, of one shape or all, take longer than the guardrail allows, or
// its statements fail oftener than the control's.
func (r *Results) harm(s *ShapeResults, arm int) string {
	control := r.Spec.control()
	if i := compare(&s.Cells[arm].Closed, &s.Cells[control].Closed); i.low() > math.Log1p(r.Spec.Guardrail) {
		what := "cycles"
		if s.Shape != "" {
			what = "cycles of one shape"
		}
		return fmt.Sprintf("its %s take %s more time than %s's", what, percents(math.Expm1(i.low()), math.Expm1(i.high())), r.Spec.Arms[control].Name)
	}
	return ""
}

// failing says whether an arm's statements fail oftener than the control's, or "". Shares of errors are mostly the same for all sessions,
// namely none, so that their variance is underestimated: each arm gets two more observations, one that always fails and one that never
// does (Agresti and Caffo, "Simple and effective confidence intervals for proportions", The American Statistician 54, 2000).
func (r *Results) failing(arm int) string {
	control := r.Spec.control()
	a, b := r.Arms[arm].Failing, r.Arms[control].Failing
	shareA, shareB := a[0].Mean, b[0].Mean
	for l := range closings {
		for _, m := range []*moments{&a[l], &b[l]} {
			if m.N > 0 {
				m.add(0)
				m.add(1)
			}
		}
	}
	if i := compare(&a, &b); i.low() > 0 {
		return fmt.Sprintf("%.2f %% of its statements fail, %.2f %% of %s's", 100*shareA, 100*shareB, r.Spec.Arms[control].Name)
	}
	return ""
}
