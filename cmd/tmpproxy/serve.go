package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"tmpproxy/admin"
	"tmpproxy/config"
	"tmpproxy/proxy"
	"tmpproxy/session"
	"tmpproxy/trial"
)

// collectAt is GOGC unless it is set. Little is allocated but for logins: the heap need not be as much larger than what it holds as
// Go's default lets it be, which would be most of what a session costs.
const collectAt = 50

func newServe() *cobra.Command {
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy",
		Long: `serve runs the proxy until SIGTERM or SIGINT, or tmpproxy quit. The first one has /readyz say no; after shutdown.delay it stops
accepting clients, lets transactions end for up to shutdown.grace and closes sessions between statements; the second one ends
the process at once. When their file changes, and on SIGHUP, the settings are read again: those that cannot change while
running are named in the log and wait for the next start.`,
		Args: noArguments,
	}
	load := settings(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		signals := make(chan os.Signal, 4)
		signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer signal.Stop(signals)
		signal.Ignore(syscall.SIGPIPE) // whoever reads the log may leave; clients are served all the same
		c, err := load()
		if err != nil {
			return err
		}
		level := zap.NewAtomicLevelAt(levelOf(c.Log.Level))
		if err := keepPrivate(); err != nil {
			return err
		}
		// A crash ends by SIGABRT and not, as is Go's way, with 2, by which service managers know faults in the settings and start nothing
		// again.
		debug.SetTraceback("crash")
		log := newLogger(command.ErrOrStderr(), c.Log.Format, level)
		defer log.Sync() // standard error needs none, a file does
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(collectAt)
		}
		inherited, err := inheritSockets()
		if err != nil {
			return err
		}
		s, err := newService(c, log, level, inherited)
		if err != nil {
			return err
		}
		s.load = load
		s.manager = newManager(log)
		return s.run(signals)
	}
	return command
}

// signalError says that a signal ended the process, as it should.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return "ended by signal: " + e.signal.String() }

// relay is what serve asks of a proxy.Server.
type relay interface {
	Serve(context.Context) error
	Counts() *proxy.Counts
	Alive(context.Context) error
	SetPolicy(*session.Policy)
	SetBackends([]string)
	SetLimits(proxy.Limits)
	SetTrial(proxy.Trial)
}

// service is a running proxy with what belongs to it. Its fields do not change once it runs, or are safe for concurrent use, but for
// those that say otherwise.
type service struct {
	log     *zap.Logger
	level   zap.AtomicLevel
	load    func() (*config.Config, error)
	started *config.Config // the settings at the start: those that are not live stay as they were
	relay   relay
	control *control
	trials  *trial.Trials
	secrets *secrets
	records *recordings
	slow    *statementLogs // used with mu held
	admin   *admin.Server  // nil when there is none

	sharesAdmin bool // its address, with the process that takes over
	manager     *manager

	draining atomic.Bool   // read by requests for /readyz
	quit     chan struct{} // holds the first request to quit

	mu         sync.Mutex     // held while settings are reloaded, and for what follows
	running    *config.Config // the settings that were read last
	lastReload *reloadStatus  // nil: none yet
	watch      watch
	reloads    *reloadMetrics
}

// newService opens all listeners that are not inherited. Nothing is served yet.
func newService(c *config.Config, log *zap.Logger, level zap.AtomicLevel, inherited sockets) (*service, error) {
	if err := checkIdentity(c, os.Geteuid(), owner); err != nil {
		return nil, err
	}
	policy, err := newPolicy(c)
	if err != nil {
		return nil, err
	}
	if _, err := trialOf(c); err != nil {
		return nil, err
	}
	secrets := &secrets{log: log}
	enforce, err := secrets.load(c)
	if err != nil {
		return nil, err
	}
	enforce()
	security, err := secrets.settings(c)
	if err != nil {
		return nil, err
	}
	monitor, err := newMonitor(c)
	if err != nil {
		return nil, err
	}
	if monitor.User == "" {
		monitor = nil
	}
	token, err := c.AdminToken()
	if err != nil {
		return nil, err
	}
	if monitor != nil {
		monitor.Client = security.Client // which reloads change
	}
	server, err := proxy.NewServer(log, proxy.Options{
		Listen:         c.Listen.Addresses,
		Listeners:      inherited.clients,
		Share:          c.Listen.ReusePort,
		ProxyNetworks:  proxyNetworks(c),
		ProxyUnix:      slices.Contains(c.Listen.ProxyNetworks, "unix"),
		ProxyProtocol:  c.Backend.ProxyProtocol == "v2",
		Backends:       c.Backend.Addresses,
		Check:          checksOf(c),
		ConnectTimeout: c.Backend.ConnectTimeout,
		ShutdownFinish: c.Shutdown.Finish,
		ShutdownGrace:  c.Shutdown.Grace,
		Limits:         limitsOf(c),
		Driver:         driver(c),
		Loops:          c.Relay.Loops,
		Bundle:         c.Relay.IOURing,
		TLS:            security,
		Policy:         policy,
		Monitor:        monitor,
	})
	if err != nil {
		return nil, err
	}
	s := &service{log: log, level: level, started: c, running: c, relay: server, quit: make(chan struct{}, 1), control: newControl(log, server, policy, c.Rewrite.Strategy)}
	s.secrets = secrets
	s.records = &recordings{log: log, server: server}
	s.slow = &statementLogs{log: log, server: server}
	began := time.Now()
	registry := newRegistry()
	s.reloads = newReloadMetrics(registry, began)
	registry.MustRegister(newStrategyMetric(s.control.Status))
	s.watch.accept(c)
	registry.MustRegister(server.Collectors()...)
	registry.MustRegister(s.records.collectors()...)
	registry.MustRegister(s.slow.collectors()...)

	if err := server.Listen(); err != nil {
		return nil, err
	}
	if s.trials, err = trial.New(log, trial.Options{
		Dir: c.Trial.Dir, Guardrail: c.Trial.Guardrail,
		Native:  func() bool { return s.control.Status().InForce == "native" },
		Changed: func(running bool) { s.enforce(running) },
	}); err != nil {
		return nil, err
	}
	registry.MustRegister(s.trials.Collector())
	s.enforce(s.trials.Running())
	s.beginTrial(c)
	adminAddress := "none"
	adminListener := inherited.admin
	if adminListener == nil && c.Admin.Address != "" && c.Listen.ReusePort {
		if adminListener, err = proxy.Listen(c.Admin.Address); err != nil {
			return nil, fmt.Errorf("admin: %w", err)
		}
		s.sharesAdmin = true
	}
	if adminListener != nil || c.Admin.Address != "" {
		network, address := config.Network(c.Admin.Address), c.Admin.Address
		if inherited.admin != nil {
			network, address = inherited.admin.Addr().Network(), inherited.admin.Addr().String()
		}
		s.admin = admin.New(log, admin.Options{
			Network: network, Address: address, Listener: adminListener, Hosts: c.Admin.Hosts, PProf: c.Admin.PProf,
			Metrics: registry,
			Alive:   server.Alive,
			Ready: func(ctx context.Context) error {
				if s.draining.Load() {
					return errors.New("shutting down")
				}
				return server.Ready(ctx)
			},
			Pages: map[string]func() any{
				"/api/sessions":     func() any { return append([]proxy.SessionInfo{}, server.Sessions()...) }, // none is [], not null
				"/api/shapes":       func() any { return server.Shapes() },
				"/api/advice":       func() any { return server.Advice() },
				"/api/config":       func() any { return s.configuration() },
				"/api/version":      func() any { return thisBuild() },
				"/api/trial":        func() any { return s.trials.Report() },
				"/api/trial/export": func() any { return s.trials.Results() },
				"/api/record":       func() any { return s.records.Status() },
				"/api/status": func() any {
					running := ""
					if s.trials.Running() {
						running = s.trials.Name()
					}
					return status{
						Trial: running, Version: thisBuild().Version, Started: began, Uptime: time.Since(began).Seconds(), Draining: s.draining.Load(),
						Sessions: len(server.Sessions()), Strategy: s.control.Status(), Changes: s.admin.Changes(), Totals: total(server.Shapes()), IOURing: server.IOURing(),
					}
				},
			},
			Actions: map[string]admin.Action{
				"/api/strategy":     s.control.switchTo,
				"/api/trial/start":  s.startTrial,
				"/api/trial/change": s.changeTrial,
				"/api/trial/stop":   s.stopTrial,
				"/api/record":       s.records.act,
				"/api/reload":       s.requestReload,
			},
			Token:     token,
			Quit:      s.requestQuit,
			QuitLocal: c.Shutdown.QuitQuitQuit,
		})
		if err := s.admin.Listen(); err != nil {
			return nil, err
		}
		adminAddress = s.admin.Addr().String()
	}
	slow, err := s.slow.open(c)
	if err != nil {
		return nil, err
	}
	if err := s.records.configure(c); err != nil {
		return nil, err
	}
	s.slow.put(c, slow)
	for _, warning := range c.Warnings() {
		log.Warn(warning)
	}
	log.Info("serving", zap.Strings("listen", texts(server.Addresses())), zap.Strings("backend", c.Backend.Addresses),
		zap.String("strategy", c.Rewrite.Strategy), zap.String("admin", adminAddress), zap.String("version", thisBuild().Version))
	return s, nil
}

// driver returns the name of the driver asked for, or "" where there are no event loops.
func driver(c *config.Config) string {
	if c.Relay.Driver == "loop" && runtime.GOOS != "linux" {
		return ""
	}
	return c.Relay.Driver
}

// proxyNetworks returns the networks from which a PROXY protocol header is expected.
func proxyNetworks(c *config.Config) (list []netip.Prefix) {
	for _, n := range c.Listen.ProxyNetworks {
		if p, err := netip.ParsePrefix(n); err == nil { // all but the word unix
			list = append(list, p)
		}
	}
	return list
}

// limitsOf returns the limits for clients.
func limitsOf(c *config.Config) proxy.Limits {
	l := &c.Limits
	return proxy.Limits{
		MaxSessions: l.MaxSessions, MaxHostSessions: l.MaxHostSessions, MaxUserSessions: l.MaxUserSessions, MaxHandshakes: l.MaxHandshakes, MaxBuffered: l.MaxBuffered,
		HandshakeTimeout: l.HandshakeTimeout, IdleTimeout: l.IdleTimeout,
	}
}

// checksOf returns the settings of the backends' checks.
func checksOf(c *config.Config) proxy.Check {
	return proxy.Check{Interval: c.Backend.Check.Interval, Timeout: c.Backend.Check.Timeout, Fall: c.Backend.Check.Fall, Rise: c.Backend.Check.Rise}
}

func texts(addresses []net.Addr) []string {
	list := make([]string, len(addresses))
	for i, a := range addresses {
		list[i] = a.String()
	}
	return list
}

// adminFarewell bounds how long the process waits for requests under way when it ends.
const adminFarewell = time.Second

// run serves until a signal or a failure ends it. After a first signal it ends when all sessions have; after a second one the
// caller must end the process, whatever still runs.
func (s *service) run(signals <-chan os.Signal) error {
	ctx, drain := context.WithCancel(context.Background())
	defer drain()
	defer func() {
		if err := s.trials.Close(); err != nil {
			s.log.Error("results of the trial not stored", zap.Error(err))
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- s.relay.Serve(ctx) }()
	go s.watchFiles(ctx)
	s.manager.tell("READY=1", "STATUS=serving")
	watched, unwatch := context.WithCancel(context.Background()) // for as long as there are sessions
	defer unwatch()
	go s.manager.watch(watched, s.log, s.relay.Alive)
	if s.admin != nil {
		go func() {
			if err := s.admin.Serve(); err != nil {
				s.log.Error("admin server ended", zap.Error(err)) // clients are served all the same
			}
		}()
	}

	shutdown := shutdown{service: s, drain: drain}
	for {
		select {
		case err := <-ended:
			s.records.close()
			s.mu.Lock()
			s.slow.close()
			s.mu.Unlock()
			if s.admin != nil {
				ctx, cancel := context.WithTimeout(context.Background(), adminFarewell)
				defer cancel()
				_ = s.admin.Shutdown(ctx) // who still reads is cut off
			}
			if err != nil {
				return err
			}
			return shutdown.outcome()
		case <-s.quit:
			shutdown.begin(nil)
		case <-shutdown.delayed:
			shutdown.stopAccepting()
		case received := <-signals:
			sig := received.(syscall.Signal)
			switch {
			case sig == syscall.SIGHUP:
				_, _ = s.reload("signal") // told in the log
			case !shutdown.begun:
				shutdown.begin(&signalError{sig})
			default:
				s.log.Warn("ended at once by a signal while shutting down", zap.String("signal", sig.String()))
				return &signalError{sig}
			}
		}
	}
}
