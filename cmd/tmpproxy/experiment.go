package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"go.uber.org/zap"

	"tmpproxy/admin"
	"tmpproxy/config"
	"tmpproxy/proxy"
	"tmpproxy/trial"
)

// participants makes a trial what the proxy asks of one.
type participants struct{ trials *trial.Trials }

func (p participants) Enrol(user, schema, host string, now int64) proxy.Participant {
	if one := p.trials.Enrol(user, schema, host, now); one != nil {
		return one
	}
	return nil
}

// enforce has sessions take part in the trial that runs, or in none.
func (s *service) enforce(running bool) {
	if running {
		s.relay.SetTrial(participants{s.trials})
	} else {
		s.relay.SetTrial(nil)
	}
}

// trialOf returns the trial that the settings start; nil: none.
func trialOf(c *config.Config) (*trial.Spec, error) {
	if len(c.Trial.Arms) == 0 {
		return nil, nil
	}
	arms, err := trial.ParseArms(c.Trial.Arms)
	if err != nil {
		return nil, fmt.Errorf("trial.arms: %w", err)
	}
	s := &trial.Spec{Name: c.Trial.Name, Arms: arms, Assignment: c.Trial.Assignment, Guardrail: c.Trial.Guardrail}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("trial: %w", err)
	}
	return s, nil
}

// beginTrial starts the trial of the settings, unless its results are there already: it goes on then, or has been stopped.
func (s *service) beginTrial(c *config.Config) {
	spec, _ := trialOf(c)
	s.trials.SetGuardrail(c.Trial.Guardrail, spec)
	if spec == nil || s.trials.Has(spec) {
		return
	}
	if name := s.trials.Name(); s.trials.Running() {
		s.log.Warn("the settings have another trial than the one that was running: it ends", zap.String("trial", name))
		if err := s.trials.Stop(); err != nil {
			s.log.Error("trial not stopped", zap.String("trial", name), zap.Error(err))
		}
	}
	if err := s.trials.Start(*spec); err != nil {
		s.log.Error("the trial of the settings not started", zap.String("trial", spec.Name), zap.Error(err))
	}
}

// continueTrial takes over what a reload changes of the trial: one that is the same goes on, and so does one that was started over HTTP.
func (s *service) continueTrial(before, next *config.Config) {
	old, _ := trialOf(before)
	spec, _ := trialOf(next)
	if old != nil {
		old.Guardrail = next.Trial.Guardrail // which can change while it runs
	}
	s.trials.SetGuardrail(next.Trial.Guardrail, spec)
	switch {
	case reflect.DeepEqual(old, spec):
	case spec != nil:
		s.beginTrial(next)
	case s.trials.Running() && s.trials.Has(old):
		if err := s.trials.Stop(); err != nil {
			s.log.Error("trial not stopped", zap.String("trial", old.Name), zap.Error(err))
		}
	}
}

// conflict is an error about what runs at present.
func conflict(err error) error { return &admin.StatusError{Status: http.StatusConflict, Err: err} }

// startTrial is the action of /api/trial/start.
func (s *service) startTrial(_ context.Context, body json.RawMessage) (any, error) {
	var spec trial.Spec
	if err := json.Unmarshal(body, &spec); err != nil {
		return nil, fmt.Errorf(`{"name": .., "arms": [{"strategy": ..}, ..]} is wanted: %w`, err)
	}
	err := s.trials.Start(spec)
	var busy *trial.BusyError
	switch {
	case errors.As(err, &busy):
		return nil, conflict(err)
	case err != nil:
		return nil, err
	}
	return s.trials.Report(), nil
}

// changeTrial is the action of /api/trial/change.
func (s *service) changeTrial(_ context.Context, body json.RawMessage) (any, error) {
	var change trial.Change
	if err := json.Unmarshal(body, &change); err != nil {
		return nil, fmt.Errorf(`{"weights": {"innodb": 2}} is wanted: %w`, err)
	}
	if !s.trials.Running() {
		return nil, conflict(errors.New("no trial is running"))
	}
	if err := s.trials.Change(change); err != nil {
		return nil, err
	}
	return s.trials.Report(), nil
}

// stopTrial is the action of /api/trial/stop.
func (s *service) stopTrial(context.Context, json.RawMessage) (any, error) {
	if !s.trials.Running() {
		return nil, conflict(errors.New("no trial is running"))
	}
	if err := s.trials.Stop(); err != nil {
		return nil, err
	}
	return s.trials.Report(), nil
}
