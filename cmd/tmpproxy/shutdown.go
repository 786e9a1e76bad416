package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
)

// shutdown is how far a service is on its way out. It belongs to the goroutine of service.run.
type shutdown struct {
	service *service
	drain   func()

	begun   bool
	signal  *signalError     // that began it; nil: a request
	delayed <-chan time.Time // when no more clients are to be admitted; nil: not begun, or over
}

// begin tells who asks /readyz to send no more clients, and goes on to admit those that come, for the delay.
func (d *shutdown) begin(by *signalError) {
	if d.begun {
		return
	}
	d.begun, d.signal = true, by
	d.service.draining.Store(true)
	cause := "request"
	if by != nil {
		cause = by.signal.String()
	}
	delay := d.service.settings().Shutdown.Delay
	d.service.manager.tell("STOPPING=1", "STATUS=shutting down")
	if d.service.sharesAdmin {
		go func() { // who asks is to ask the next process
			ctx, cancel := context.WithTimeout(context.Background(), adminFarewell)
			defer cancel()
			_ = d.service.admin.Shutdown(ctx)
		}()
	}
	d.service.log.Info("shutting down", zap.String("signal", cause), zap.Duration("delay", delay), zap.Duration("grace", d.service.started.Shutdown.Grace))
	if delay == 0 {
		d.stopAccepting()
		return
	}
	d.delayed = time.After(delay)
}

// stopAccepting has the relay drain.
func (d *shutdown) stopAccepting() {
	d.delayed = nil
	d.service.log.Info("no more clients are admitted")
	d.drain()
}

// outcome is what the process ends with when the relay has come to rest.
func (d *shutdown) outcome() error {
	cut := d.service.relay.Counts().CutOff.Load()
	d.service.log.Info("stopped", zap.Uint64("cut_off", cut))
	switch {
	case d.signal != nil && (cut > 0 || !d.service.settings().Shutdown.ExitZero):
		return d.signal
	case d.signal == nil && cut > 0:
		return fmt.Errorf("shutdown.grace was over: sessions that were cut off: %d", cut)
	}
	return nil
}

// quitAnswer says what /quitquitquit has begun.
type quitAnswer struct {
	Draining bool `json:"draining"`
}

// requestQuit is the action of /quitquitquit. Called again, it changes nothing.
func (s *service) requestQuit(context.Context, json.RawMessage) (any, error) {
	select {
	case s.quit <- struct{}{}:
	default:
	}
	return quitAnswer{true}, nil
}

func newQuit() *cobra.Command {
	command := &cobra.Command{
		Use:   "quit",
		Short: "Have a running proxy end once its sessions have",
		Long: `quit tells the running proxy at admin.address, with the token of admin.token_file, to shut down as it does after SIGTERM:
after shutdown.delay no more clients are admitted, transactions may end for up to shutdown.grace, and the process exits with
0, or with 1 if it had to cut sessions off. quit does not wait for that. It is for jobs whose proxy is a container that nobody
else ends; with shutdown.quitquitquit the containers of its pod need no token.`,
		Args: noArguments,
	}
	load := settings(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		c, err := load()
		if err != nil {
			return err
		}
		return ask(command.Context(), c, "/quitquitquit", struct{}{}, nil)
	}
	return command
}
