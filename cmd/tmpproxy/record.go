package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"tmpproxy/admin"
	"tmpproxy/config"
	"tmpproxy/proxy"
	"tmpproxy/trial/record"
)

func newRecord() *cobra.Command {
	command := &cobra.Command{
		Use:   "record start|stop|status",
		Short: "Have a running proxy write what its clients send, for replay",
		Long: `record tells the running proxy at admin.address, with the token of admin.token_file, to write what clients send to the
file that its settings name (record.file), from each session's next command outside a transaction on, or to stop, or asks how the
recording stands. Which sessions, and how much, is in the proxy's settings record.*; record.enabled does the same without this
command, at the start and on SIGHUP.

A recording never holds passwords of logins and accounts, but it does hold the values that applications send unless
record.mask is set.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] != "start" && args[0] != "stop" && args[0] != "status" {
				return &usageError{errors.New("record start, record stop or record status")}
			}
			return nil
		},
	}
	load := settings(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		c, err := load()
		if err != nil {
			return err
		}
		var s recordingStatus
		var question any
		if args[0] != "status" {
			question = recordRequest{args[0] == "start"}
		}
		if err := ask(command.Context(), c, "/api/record", question, &s); err != nil {
			return err
		}
		return s.print(command.OutOrStdout())
	}
	return command
}

// recorders is what recordings ask of a proxy.Server.
type recorders interface{ SetRecorder(proxy.Recorder) }

// recordings starts and stops recordings, by the settings and by requests. Safe for concurrent use.
type recordings struct {
	log    *zap.Logger
	server recorders
	counts record.Counts

	mu      sync.Mutex
	config  *config.Config // that was configured last
	current *record.Recorder
}

// recordingStatus is what /api/record says.
type recordingStatus struct {
	Recording bool           `json:"recording"`
	File      string         `json:"file"` // of the settings
	Last      *record.Status `json:"last,omitempty"`
	Records   uint64         `json:"records"` // of all recordings
	Bytes     uint64         `json:"bytes"`
	Dropped   uint64         `json:"dropped"`
	Omitted   uint64         `json:"omitted"`
}

// recordRequest is the body of POST /api/record.
type recordRequest struct {
	Enabled bool `json:"enabled"`
}

// tap adapts a record.Recorder.
type tap struct{ *record.Recorder }

func (t tap) Session(c proxy.Client) proxy.Recording {
	if s := t.Recorder.Session(record.Client(c)); s != nil {
		return s
	}
	return nil
}

// configure takes over settings. If they differ from the ones before in what is recorded, they say whether a recording goes on.
func (r *recordings) configure(c *config.Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.config != nil && reflect.DeepEqual(r.config.Record, c.Record) {
		r.config = c
		return nil
	}
	before := r.current
	switch {
	case !c.Record.Enabled:
		r.stop()
	case r.config != nil && r.config.Record.File == c.Record.File:
		r.stop()
		fallthrough
	default:
		if err := r.start(c); err != nil {
			return err // what was recorded in another file still is
		}
		if before != nil {
			_ = before.Stop()
		}
	}
	r.config = c
	return nil
}

// going says whether a recording goes on, with the lock held.
func (r *recordings) going() bool { return r.current != nil && r.current.Status().Ended == "" }

// start begins a recording, with the lock held.
func (r *recordings) start(c *config.Config) error {
	o := record.Options{
		File: c.Record.File, Users: c.Record.Users, Schemas: c.Record.Schemas, Hosts: c.Record.Hosts, Share: c.Record.Share,
		Mask: c.Record.Mask, MaxSize: int64(c.Record.MaxSize), MaxTime: c.Record.MaxTime, Counts: &r.counts,
	}
	o.Ended = func(reason string, err error) {
		if err != nil {
			r.log.Error("recording ended", zap.String("reason", reason), zap.String("file", o.File), zap.Error(err))
			return
		}
		r.log.Info("recording ended", zap.String("reason", reason), zap.String("file", o.File))
	}
	recorder, err := record.Start(o)
	if err != nil {
		return err
	}
	r.current = recorder
	r.server.SetRecorder(tap{recorder})
	r.log.Info("recording", zap.String("file", o.File), zap.Bool("masked", o.Mask))
	return nil
}

// stop ends the recording if there is one, with the lock held.
func (r *recordings) stop() {
	r.server.SetRecorder(nil)
	if r.current != nil {
		_ = r.current.Stop() // told by Ended
	}
}

// close ends the recording with the process.
func (r *recordings) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop()
}

// Status says how it stands.
func (r *recordings) Status() recordingStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status()
}

func (r *recordings) status() recordingStatus {
	s := recordingStatus{
		Recording: r.going(), Records: r.counts.Records.Load(), Bytes: r.counts.Bytes.Load(),
		Dropped: r.counts.Dropped.Load(), Omitted: r.counts.Omitted.Load(),
	}
	if r.config != nil {
		s.File = r.config.Record.File
	}
	if r.current != nil {
		last := r.current.Status()
		s.Last = &last
	}
	return s
}

// act is the action of /api/record.
func (r *recordings) act(_ context.Context, body json.RawMessage) (any, error) {
	var request recordRequest
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, fmt.Errorf(`{"enabled": true} or {"enabled": false} is wanted: %w`, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !request.Enabled:
		r.stop()
	case r.going():
		return nil, &admin.StatusError{Status: http.StatusConflict, Err: errors.New("a recording goes on already")}
	case r.config.Record.File == "":
		return nil, &admin.StatusError{Status: http.StatusConflict, Err: errors.New("the settings name no file for recordings: record.file")}
	default:
		if err := r.start(r.config); err != nil {
			return nil, &admin.StatusError{Status: http.StatusInternalServerError, Err: err}
		}
	}
	return r.status(), nil
}

func (s *recordingStatus) print(out io.Writer) error {
	state := "nothing is being recorded"
	switch {
	case s.Recording:
		state = "recording to " + s.File
	case s.Last != nil:
		state = fmt.Sprintf("the recording has ended (%s): %s", s.Last.Ended, s.Last.File)
	}
	_, err := fmt.Fprintf(out, "%s\nsince the proxy began: %d records, %d bytes, %d commands dropped, %d left out\n",
		state, s.Records, s.Bytes, s.Dropped, s.Omitted)
	return err
}

// collectors are the metrics of recordings.
func (r *recordings) collectors() []prometheus.Collector {
	counter := func(name, help string, n *atomic.Uint64, labels prometheus.Labels) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return float64(n.Load()) })
	}
	const missing = "tmpproxy_recordings_dropped_total"
	missingHelp := "Commands missing in recordings: they came too fast or were too long, or may have held a password."
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tmpproxy_recording", Help: "Whether a recording goes on."}, func() float64 {
			if r.Status().Recording {
				return 1
			}
			return 0
		}),
		counter("tmpproxy_recorded_sessions_total", "Sessions that were recorded.", &r.counts.Sessions, nil),
		counter("tmpproxy_recorded_records_total", "Records written to recordings.", &r.counts.Records, nil),
		counter("tmpproxy_recorded_bytes_total", "Bytes written to recordings.", &r.counts.Bytes, nil),
		counter(missing, missingHelp, &r.counts.Dropped, prometheus.Labels{"reason": "bounds"}),
		counter(missing, missingHelp, &r.counts.Omitted, prometheus.Labels{"reason": "secret"}),
	}
}
