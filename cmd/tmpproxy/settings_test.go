package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tmpproxy/config"
	"tmpproxy/proxy"
	"tmpproxy/rewrite"
	"tmpproxy/session"
	"tmpproxy/trial"
)

// configured returns the settings of these flags.
func configured(t *testing.T, args ...string) *config.Config {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load("", flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPolicy(t *testing.T) {
	defaults, err := newPolicy(configured(t))
	if err != nil {
		t.Fatal(err)
	}
	engines, err := rewrite.ParseEngineSet([]string{"MEMORY", "HEAP", "MyISAM"})
	if err != nil {
		t.Fatal(err)
	}
	if !engines.Has(rewrite.EngineMemory) || !engines.Has(rewrite.EngineMyISAM) || engines.Has(rewrite.EngineInnoDB) {
		t.Errorf("engines %b", engines)
	}
	if want := (session.Policy{Strategy: session.StrategyInnoDB, Convert: engines, Routines: session.RoutinesVisible, OnHazard: session.HazardCount,
		MaxStatement: 64 << 10, MaxCreate: 16 << 10, MaxParked: 64, ParkTTL: int64(10 * time.Minute), MaxAge: int64(time.Hour)}); *defaults != want {
		t.Errorf("by default %+v, want %+v", *defaults, want)
	}
	other, err := newPolicy(configured(t, "--rewrite.strategy=keep", "--rewrite.convert=", "--rewrite.fidelity=strict", "--rewrite.routines=scan", "--backend.monitor.user=m",
		"--rewrite.on_hazard=native", "--rewrite.max_statement=1MiB", "--rewrite.max_create=8KiB", "--rewrite.max_parked=3", "--rewrite.park_ttl=1s", "--rewrite.max_age=2s"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (session.Policy{Strategy: session.StrategyKeep, Strict: true, Routines: session.RoutinesScan, OnHazard: session.HazardNative,
		MaxStatement: 1 << 20, MaxCreate: 8 << 10, MaxParked: 3, ParkTTL: int64(time.Second), MaxAge: int64(2 * time.Second)}); *other != want {
		t.Errorf("got %+v, want %+v", *other, want)
	}

	// Observing is to leave everything alone, and to find out what innodb would do, whatever it would lead to.
	observe, err := newPolicy(configured(t, "--rewrite.strategy=observe", "--rewrite.on_hazard=native", "--rewrite.on_rollback=preserve"))
	if err != nil {
		t.Fatal(err)
	}
	if observe.Strategy != session.StrategyNative || observe.Observe == nil || *observe.Observe != *defaults {
		t.Errorf("got %+v, which observes %+v", *observe, observe.Observe)
	}
	for _, strategy := range []string{"innodb", "keep", "native", "auto"} {
		if p, err := newPolicy(configured(t, "--rewrite.strategy="+strategy)); err != nil || p.Observe != nil {
			t.Errorf("%s observes: %+v, %v", strategy, p, err)
		}
	}
}

// noRecorder takes no recorder.
type noRecorder struct{}

func (noRecorder) SetRecorder(proxy.Recorder) {}

// noStatements takes no log of statements.
type noStatements struct{}

func (noStatements) SetStatementLogs(...proxy.StatementLog) {}

// TestWords compares the words that the configuration admits with those that are understood here.
func TestWords(t *testing.T) {
	for key, words := range map[string][]string{
		"rewrite.strategy":    {"innodb", "keep", "native", "auto", "observe"},
		"rewrite.reset":       {"truncate", "auto"},
		"rewrite.on_rollback": {"ignore", "preserve"},
		"rewrite.routines":    {"visible", "scan", "none"},
		"rewrite.on_hazard":   {"count", "native"},
		"rewrite.convert":     {"MEMORY", "HEAP", "MyISAM", "Aria"},
		"rewrite.fidelity":    {"standard", "strict"},
		"log.level":           {"debug", "info", "warn", "error"},
	} {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		config.AddFlags(flags)
		if err := flags.Parse([]string{"--" + key + "=?"}); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load("", flags)
		if err == nil || !strings.HasSuffix(err.Error(), "is none of "+strings.Join(words, ", ")) {
			t.Errorf("%s admits other words: %v", key, err)
		}
		for _, word := range words {
			c := configured(t, "--"+key+"="+word, "--backend.monitor.user=m")
			if _, err := newPolicy(c); err != nil {
				t.Errorf("%s=%s: %v", key, word, err)
			}
			if level, err := zapcore.ParseLevel(c.Log.Level); err != nil || level != levelOf(c.Log.Level) {
				t.Errorf("%s=%s: %v %v", key, word, level, err)
			}
		}
	}
}

func TestIdentity(t *testing.T) {
	const socket = "--backend.address=/run/mysqld/mysqld.sock"
	for _, test := range []struct {
		name  string
		args  []string
		euid  int
		owner int // -1: not known
		want  string
	}{
		{"TCP as root", nil, 0, 0, ""},
		{"socket as another user", []string{socket}, 1000, 27, ""},
		{"socket that is not there", []string{socket}, 1000, -1, ""},
		{"socket as root", []string{socket}, 0, 27, "every client would reach the server as root"},
		{"socket as root, owner not known", []string{socket}, 0, -1, "as root"},
		{"socket as the server's user", []string{socket}, 27, 27, "as the user it runs as (uid 27)"},
		{"socket behind another server", []string{"--backend.address=127.0.0.1:3306,/run/mysqld/mysqld.sock"}, 0, 27, "as root"},
		{"allowed", []string{socket, "--backend.allow_peer_identity"}, 0, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := checkIdentity(configured(t, test.args...), test.euid, func(path string) (int, bool) {
				if path != "/run/mysqld/mysqld.sock" {
					t.Errorf("asked for the owner of %s", path)
				}
				return test.owner, test.owner >= 0
			})
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var faults *config.Error
			if !errors.As(err, &faults) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestLogger(t *testing.T) {
	for _, format := range []string{"json", "console"} {
		var out bytes.Buffer
		level := zap.NewAtomicLevelAt(levelOf("warn"))
		log := newLogger(&out, format, level)
		log.Info("not this")
		log.Warn("this", zap.Duration("duration", 1500*time.Millisecond))
		level.SetLevel(levelOf("info"))
		log.Info("and that")
		text := out.String()
		if strings.Contains(text, "not this") || !strings.Contains(text, "and that") || strings.Count(text, "\n") != 2 {
			t.Errorf("%s: %s", format, text)
		}
		if format == "json" {
			var record struct {
				Level, Time, Message string
				Duration             float64
			}
			if err := json.Unmarshal(bytes.SplitN(out.Bytes(), []byte("\n"), 2)[0], &record); err != nil {
				t.Fatal(err)
			}
			if _, err := time.Parse(time.RFC3339Nano, record.Time); err != nil || record.Level != "warn" || record.Message != "this" || record.Duration != 1.5 {
				t.Errorf("%+v %v", record, err)
			}
		}
	}
}

// policies remembers what a reload put into force.
type policies struct {
	relay
	list     []*session.Policy
	trials   []bool
	backends []string
	limits   proxy.Limits
}

func (p *policies) SetPolicy(policy *session.Policy) { p.list = append(p.list, policy) }
func (p *policies) Alive(context.Context) error      { return nil }
func (p *policies) SetLimits(l proxy.Limits)         { p.limits = l }
func (p *policies) SetBackends(list []string)        { p.backends = list }
func (p *policies) Counts() *proxy.Counts            { return new(proxy.Counts) }
func (p *policies) SetTrial(t proxy.Trial)           { p.trials = append(p.trials, t != nil) }

func TestApply(t *testing.T) {
	var taken policies
	var next *config.Config
	var fault error
	start := configured(t)
	s := service{secrets: new(secrets), level: zap.NewAtomicLevel(), started: start, running: start, relay: &taken, records: &recordings{log: zap.NewNop(), server: noRecorder{}}, slow: &statementLogs{server: noStatements{}},
		control: newControl(zap.NewNop(), &taken, &session.Policy{}, "innodb"), load: func() (*config.Config, error) { return next, fault }}
	trials, err := trial.New(zap.NewNop(), trial.Options{Changed: func(running bool) { s.enforce(running) }})
	if err != nil {
		t.Fatal(err)
	}
	defer trials.Close()
	s.log, s.trials = zap.NewNop(), trials
	for _, step := range []struct {
		name             string
		args             []string
		fault            error
		applied, waiting []string
		strategy         session.Strategy
		level            zapcore.Level
		wantErr          string
	}{
		{"nothing new", nil, nil, nil, nil, session.StrategyInnoDB, zap.InfoLevel, ""},
		{"strategy and a listener", []string{"--rewrite.strategy=native", "--listen.addresses=:1"}, nil, []string{"rewrite.strategy"}, []string{"listen.addresses"}, session.StrategyNative, zap.InfoLevel, ""},
		{"the same again", []string{"--rewrite.strategy=native", "--listen.addresses=:1"}, nil, nil, []string{"listen.addresses"}, session.StrategyNative, zap.InfoLevel, ""},
		{"a fault", nil, errors.New("rewrite.max_age: has no unit"), nil, nil, session.StrategyNative, zap.InfoLevel, "has no unit"},
		{"bodies without the account", []string{"--rewrite.strategy=keep", "--log.level=debug", "--rewrite.routines=scan", "--backend.monitor.user=m"}, nil, nil, nil, session.StrategyNative, zap.InfoLevel,
			"rewrite.routines: scan needs the monitor account, which takes a restart"},
		{"level, and the listener as it was", []string{"--rewrite.strategy=native", "--log.level=debug"}, nil, []string{"log.level"}, nil, session.StrategyNative, zap.DebugLevel, ""},
		{"a trial", []string{"--rewrite.strategy=keep", "--trial.arms=native,keep"}, nil, []string{"rewrite.strategy", "trial.arms", "log.level"}, nil, session.StrategyKeep, zap.InfoLevel, ""},
		{"the trial goes on", []string{"--rewrite.strategy=keep", "--trial.arms=native,keep", "--log.level=warn"}, nil, []string{"log.level"}, nil, session.StrategyKeep, zap.WarnLevel, ""},
		{"another guardrail", []string{"--rewrite.strategy=keep", "--trial.arms=native,keep", "--log.level=warn", "--trial.guardrail=0.5"}, nil, []string{"trial.guardrail"}, nil, session.StrategyKeep, zap.WarnLevel, ""},
		{"no such arm", []string{"--trial.arms=native,fast"}, nil, nil, nil, session.StrategyKeep, zap.WarnLevel, `trial.arms: arm "fast"`},
		{"another trial", []string{"--rewrite.strategy=keep", "--trial.arms=native,innodb"}, nil, []string{"trial.arms", "trial.guardrail", "log.level"}, nil, session.StrategyKeep, zap.InfoLevel, ""},
		{"no trial", []string{"--rewrite.strategy=native"}, nil, []string{"rewrite.strategy", "trial.arms"}, nil, session.StrategyNative, zap.InfoLevel, ""},
		{"other limits", []string{"--rewrite.strategy=native", "--limits.max_user_sessions=7"}, nil, []string{"limits.max_user_sessions"}, nil, session.StrategyNative, zap.InfoLevel, ""},
		{"other backends", []string{"--rewrite.strategy=native", "--backend.address=a:1,b:2"}, nil, []string{"backend.address", "limits.max_user_sessions"}, nil, session.StrategyNative, zap.InfoLevel, ""},
		{"no backend", []string{"--backend.address=a:1"}, errors.New("backend.address: no"), nil, nil, session.StrategyNative, zap.InfoLevel, "backend.address: no"},
		{"all as at the start", nil, nil, []string{"backend.address", "rewrite.strategy"}, nil, session.StrategyInnoDB, zap.InfoLevel, ""},
	} {
		t.Run(step.name, func(t *testing.T) {
			next, fault = configured(t, step.args...), step.fault
			before := s.running
			applied, waiting, err := s.apply()
			if step.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), step.wantErr) || s.running != before {
					t.Errorf("got %v", err)
				}
			} else if err != nil {
				t.Error(err)
			}
			if !slices.Equal(applied, step.applied) || !slices.Equal(waiting, step.waiting) {
				t.Errorf("applied %v, waiting %v", applied, waiting)
			}
			if !slices.Equal(taken.backends, s.running.Backend.Addresses) {
				t.Errorf("backends in force: %v", taken.backends)
			}
			if taken.limits != limitsOf(s.running) {
				t.Errorf("limits in force: %+v", taken.limits)
			}
			if last := taken.list[len(taken.list)-1]; last.Strategy != step.strategy || s.level.Level() != step.level {
				t.Errorf("in force: strategy %v, level %v", last.Strategy, s.level.Level())
			}
		})
	}
	if !slices.Equal(taken.backends, []string{"127.0.0.1:3306"}) {
		t.Errorf("backends in force: %v", taken.backends)
	}
	if want := []bool{true, false, true, false}; !slices.Equal(taken.trials, want) {
		t.Errorf("trials in force: %v, want %v", taken.trials, want)
	}
}
