package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"tmpproxy/config"
)

// reloadStatus says how a reload went.
type reloadStatus struct {
	Time    time.Time `json:"time"`
	By      string    `json:"by"`              // signal, file or request
	Error   string    `json:"error,omitempty"` // then nothing was changed
	Applied []string  `json:"applied"`         // keys that were put into force
	Waiting []string  `json:"waiting"`         // keys whose values wait for the next start
}

// settings returns those that were read last.
func (s *service) settings() *config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// reload reads the settings again and puts into force what can change while running: all of it, or nothing when there is a fault.
func (s *service) reload(by string) (reloadStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.manager.tell("RELOADING=1", monotonic())
	s.watch.accept(s.running) // before they are read: what changes meanwhile is seen by the next look
	applied, waiting, err := s.apply()
	s.reloads.note(now, err)
	status := reloadStatus{Time: now, By: by, Applied: append([]string{}, applied...), Waiting: append([]string{}, waiting...)}
	if err != nil {
		status.Error = err.Error()
	}
	s.lastReload = &status
	if err != nil {
		s.log.Error("settings not reloaded: the old ones stay in force", zap.String("by", by), zap.Error(err))
		s.manager.tell("READY=1", "STATUS=serving; settings not reloaded: "+err.Error())
		return status, err
	}
	s.manager.tell("READY=1", "STATUS=serving")
	strategy := s.control.Status()
	s.log.Info("settings reloaded", zap.String("by", by), zap.Strings("applied", applied), zap.String("strategy", strategy.InForce))
	if strategy.Switched {
		s.log.Warn("the strategy stays native, as an operator has switched it", zap.String("configured", strategy.Configured))
	}
	if len(waiting) > 0 {
		s.log.Warn("settings that take a restart were changed", zap.Strings("keys", waiting))
	}
	return status, nil
}

// apply returns the keys that it put into force and those whose values differ from the ones at the start and wait for the next. The
// lock is held.
func (s *service) apply() (applied, waiting []string, err error) {
	next, err := s.load()
	if err != nil {
		return nil, nil, err
	}
	if next.Rewrite.Routines != "visible" && s.started.Backend.Monitor.User == "" {
		return nil, nil, fmt.Errorf("rewrite.routines: %s needs the monitor account, which takes a restart", next.Rewrite.Routines)
	}
	policy, err := newPolicy(next)
	if err != nil {
		return nil, nil, err
	}
	if _, err := trialOf(next); err != nil {
		return nil, nil, err
	}
	if err := checkIdentity(next, os.Geteuid(), owner); err != nil {
		return nil, nil, err
	}
	token, err := next.AdminToken()
	if err != nil {
		return nil, nil, err
	}
	enforce, err := s.secrets.load(next)
	if err != nil {
		return nil, nil, err
	}
	slow, err := s.slow.open(next)
	if err != nil {
		return nil, nil, err
	}
	if err := s.records.configure(next); err != nil {
		s.slow.drop(slow)
		return nil, nil, err
	}
	s.relay.SetBackends(next.Backend.Addresses)
	s.relay.SetLimits(limitsOf(next))
	s.slow.put(next, slow)
	enforce()
	s.control.configure(policy, next.Rewrite.Strategy)
	if s.admin != nil {
		s.admin.SetToken(token)
	}
	s.level.SetLevel(levelOf(next.Log.Level))
	for _, k := range s.running.Changed(next) {
		if k.Live {
			applied = append(applied, k.Name)
		}
	}
	for _, k := range s.started.Changed(next) {
		if !k.Live {
			waiting = append(waiting, k.Name)
		}
	}
	s.continueTrial(s.running, next)
	if next.Admin.TokenFile != s.running.Admin.TokenFile {
		s.watch.accepted[1] = printOf(next.Admin.TokenFile)
	}
	if !slices.Equal(next.TLSFiles(), s.running.TLSFiles()) {
		s.watch.accepted[2] = printOf(next.TLSFiles()...)
	}
	if next.Tracing.HeadersFile != s.running.Tracing.HeadersFile {
		s.watch.accepted[3] = printOf(next.Tracing.HeadersFile)
	}
	s.running = next
	return applied, waiting, nil
}

// requestReload is the action of /api/reload.
func (s *service) requestReload(context.Context, json.RawMessage) (any, error) {
	status, err := s.reload("request")
	if err != nil {
		return nil, err
	}
	return status, nil
}

// configuration is what /api/config shows.
type configuration struct {
	File       string        `json:"file,omitempty"`
	LastReload *reloadStatus `json:"last_reload"` // null: none since the start
	Settings   []setting     `json:"settings"`
}

// setting is one of them. No value is a secret: see config.Key.Value.
type setting struct {
	Name    string `json:"name"`
	Value   any    `json:"value"` // in force
	Source  string `json:"source"`
	Live    bool   `json:"live"`              // can be changed by a reload
	Waiting any    `json:"waiting,omitempty"` // the value that the next start brings, if it is another
}

func (s *service) configuration() configuration {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := configuration{File: s.running.File(), LastReload: s.lastReload}
	waiting := make(map[string]bool)
	for _, k := range s.started.Changed(s.running) {
		waiting[k.Name] = !k.Live
	}
	for _, k := range config.Keys() {
		inForce := s.running
		if !k.Live {
			inForce = s.started
		}
		one := setting{Name: k.Name, Value: k.Value(inForce), Source: inForce.Source(k), Live: k.Live}
		if waiting[k.Name] {
			one.Waiting = k.Value(s.running)
		}
		c.Settings = append(c.Settings, one)
	}
	return c
}

// watch notices that the files of the settings have changed. It goes by what is in them: a ConfigMap's file becomes another one by a
// symbolic link two folders above it, which no notice of the file itself tells.
type watch struct {
	accepted prints // what was put into force, or refused
	seen     prints // at the last look
}

// prints are of the contents of the files that a reload reads: that of the settings, that of the token, those of TLS, and
// that of the collector's headers.
type prints [4][sha256.Size]byte

// accept takes what is in the files of c for known.
func (w *watch) accept(c *config.Config) { w.accepted = printsOf(c) }

// look says whether the files of c hold something new that has not changed since the last look: it may be half written.
func (w *watch) look(c *config.Config) bool {
	now := printsOf(c)
	settled := now == w.seen
	w.seen = now
	return settled && now != w.accepted
}

func printsOf(c *config.Config) prints {
	return prints{printOf(c.File()), printOf(c.Admin.TokenFile), printOf(c.TLSFiles()...), printOf(c.Tracing.HeadersFile)}
}

// printOf is of what is in files, or of why one cannot be read.
func printOf(paths ...string) [sha256.Size]byte {
	if len(paths) == 0 || paths[0] == "" {
		return [sha256.Size]byte{}
	}
	sum := sha256.New()
	for _, path := range paths {
		file, err := os.Open(path)
		if err == nil {
			_, err = io.Copy(sum, file)
			file.Close()
		}
		if err != nil {
			fmt.Fprint(sum, err)
		}
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// watchFiles reloads when files have changed, until ctx is done.
func (s *service) watchFiles(ctx context.Context) {
	every := s.started.Reload.Watch
	if every == 0 || printsOf(s.started) == (prints{}) {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.mu.Lock()
			changed := s.watch.look(s.running)
			s.mu.Unlock()
			if changed {
				_, _ = s.reload("file") // told in the log
			}
		}
	}
}
