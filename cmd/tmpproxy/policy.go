package main

import (
	"fmt"

	"tmpproxy/config"
	"tmpproxy/rewrite"
	"tmpproxy/session"
)

var strategies = map[string]session.Strategy{
	"innodb": session.StrategyInnoDB,
	"keep":   session.StrategyKeep,
	"native": session.StrategyNative,
	"auto":   session.StrategyAuto,
	// nothing is done, but see Policy.Observe
	"observe": session.StrategyNative,
}

var routines = map[string]session.Routines{
	"visible": session.RoutinesVisible,
	"scan":    session.RoutinesScan,
	"none":    session.RoutinesNone,
}

var hazards = map[string]session.OnHazard{
	"count":  session.HazardCount,
	"native": session.HazardNative,
}

// newPolicy turns the settings of section rewrite into what sessions obey.
func newPolicy(c *config.Config) (*session.Policy, error) {
	r := &c.Rewrite
	convert, err := rewrite.ParseEngineSet(r.Convert)
	if err != nil {
		return nil, fmt.Errorf("rewrite.convert: %w", err)
	}
	p := &session.Policy{
		Convert:       convert,
		Strict:        r.Fidelity == "strict",
		Deletes:       r.Reset == "auto",
		Measure:       r.Strategy == "auto",
		Preserve:      r.OnRollback == "preserve",
		ConvertSelect: r.ConvertSelect,
		CacheLike:     r.CacheLike,
		MaxStatement:  r.MaxStatement,
		MaxCreate:     r.MaxCreate,
		MaxParked:     r.MaxParked,
		ParkTTL:       r.ParkTTL.Nanoseconds(),
		MaxAge:        r.MaxAge.Nanoseconds(),
	}
	var known [3]bool
	p.Strategy, known[0] = strategies[r.Strategy]
	p.Routines, known[1] = routines[r.Routines]
	p.OnHazard, known[2] = hazards[r.OnHazard]
	if known != [3]bool{true, true, true} {
		return nil, fmt.Errorf("rewrite: no such setting among %s, %s, %s", r.Strategy, r.Routines, r.OnHazard)
	}
	if r.Strategy == "observe" {
		// What is looked for is what strategy innodb would do, hazards included, whatever they would lead to.
		would := *p
		would.Strategy, would.OnHazard, would.Preserve = session.StrategyInnoDB, session.HazardCount, false
		p.Observe = &would
	}
	return p, nil
}
