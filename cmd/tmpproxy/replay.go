package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"tmpproxy/trial/replay"
)

// exitDifferent says that there are differences that are not on the list of what can be noticed.
const exitDifferent = 3

// differentError is that as an error.
type differentError struct{ kinds int }

func (e *differentError) Error() string {
	return fmt.Sprintf("%d kinds of differences are not on the list of what can be noticed", e.kinds)
}

func newReplay() *cobra.Command {
	var against, before, speed, schema, jsonFile string
	var names, further []string
	var sameState bool
	var patience time.Duration
	var parallel bool
	command := &cobra.Command{
		Use:   "replay FILE",
		Short: "Run a recording, or a general or slow log, with each strategy, and compare",
		Long: `replay runs the sessions of a recording (tmpproxy record), or of a general or slow log of MySQL or MariaDB, on a server: directly,
through a proxy of its own for each arm, and directly once more. It prints how long statements and cycles of temporary tables took
in each arm, and every difference that a client could have seen: rows, their order, warnings, errors, status flags, counts.

THE STATEMENTS ARE REALLY EXECUTED, once for each arm and twice directly. Use a copy of the server or a test server, never the one
that is in use.

Every run must begin with the same data. Where the recording writes to tables that are not temporary, give a command that makes
the data what they shall be (--before, run by sh before each run; TMPPROXY_ARM tells it which one), such as
  --before 'mysql -h testhost shop < shop.sql'
or say that it does not matter (--same-state). All sessions log in with the account of --against; the schemas of the recording have
to exist.

Arms: native, keep, innodb, auto, and preserve (innodb with rewrite.on_rollback: preserve). One statement runs at a time, in the
order of the recording, unless --parallel lets those overlap that did then: what they do to each other is not the same in each run. At full speed (the default) nobody thinks between statements, which is the hardest case for the proxy;
--speed recorded keeps the times of the recording.

Exit codes: 0 no differences but those on the list of what can be noticed, 3 there are others, 1 run time, 2 usage.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &usageError{errors.New("replay takes one file")}
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&against, "against", "", "the server: user:password@tcp(host:port)/ or user:password@unix(/path)/")
	flags.StringSliceVar(&names, "arms", []string{"native", "keep", "innodb"}, "what is compared with the server itself")
	flags.StringVar(&before, "before", "", "command that makes the server's data what they shall be, run before each run")
	flags.BoolVar(&sameState, "same-state", false, "run without --before although the recording writes to permanent tables")
	flags.StringVar(&speed, "speed", "full", "full, recorded, or how many times as fast as recorded")
	flags.StringVar(&schema, "schema", "", "schema of sessions whose schema is not known; that of --against when empty")
	flags.StringSliceVar(&further, "set", nil, "further settings of the proxies, such as rewrite.reset=auto")
	flags.BoolVar(&parallel, "parallel", false, "run statements of several sessions at the same time if they ran so when they were recorded")
	flags.DurationVar(&patience, "patience", 2*time.Second, "how long other sessions wait for a statement that does not answer")
	flags.StringVar(&jsonFile, "json", "", "file for everything as JSON; none when empty")
	command.RunE = func(command *cobra.Command, args []string) error {
		if against == "" {
			return &usageError{errors.New("--against is needed: the server, of which a copy or a test server is meant")}
		}
		target, err := parseTarget(against)
		if err != nil {
			return err
		}
		factor, err := parseSpeed(speed)
		if err != nil {
			return err
		}
		if schema == "" {
			schema = target.DBName
		}
		source, kind, err := replay.File(args[0])
		if err != nil {
			return err
		}
		n, first, err := replay.Permanent(source)
		if err = errors.Join(err, source.(io.Closer).Close()); err != nil {
			return err
		}
		if n > 0 && before == "" && !sameState {
			return &usageError{fmt.Errorf("%d statements may write to permanent tables (the first: %s): give --before, so that every run begins with the same data, or --same-state", n, first)}
		}
		errs := command.ErrOrStderr()
		fmt.Fprintf(errs, "%s is a %s\n", args[0], kind)
		o := replay.Options{
			Source: func() (replay.Source, error) {
				s, _, err := replay.File(args[0])
				return s, err
			},
			Server: replay.Arm{Network: target.Net, Address: target.Addr},
			User:   target.User, Password: target.Passwd, Schema: schema, Speed: factor, Patience: patience, Parallel: parallel,
			Log: func(format string, args ...any) { fmt.Fprintf(errs, format+"\n", args...) },
		}
		if before != "" {
			o.Before = func(ctx context.Context, arm string) error { return shell(ctx, before, arm, errs) }
		}
		report, err := runArms(o, target.Addr, names, further)
		if err != nil {
			return err
		}
		if jsonFile != "" {
			if err := writeJSON(jsonFile, report); err != nil {
				return err
			}
		}
		if err := report.WriteText(command.OutOrStdout()); err != nil {
			return err
		}
		if kinds := report.Unlisted(); kinds > 0 {
			return &differentError{kinds}
		}
		return nil
	}
	return command
}

// runArms replays through proxies of this process.
func runArms(o replay.Options, backend string, names, further []string) (*replay.Report, error) {
	if i := slices.IndexFunc(names, func(n string) bool { _, ok := strategies[n]; return !ok && n != "preserve" }); i >= 0 {
		return nil, &usageError{fmt.Errorf("no arm is called %q", names[i])}
	}
	a, err := startArms(zap.NewNop(), backend, names, further)
	if err != nil {
		return nil, err
	}
	defer a.stop()
	o.Arms = a.list
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		if s, ok := (<-signals).(syscall.Signal); ok {
			cancel(&signalError{s})
		}
	}()
	return replay.Run(ctx, o)
}

func parseSpeed(s string) (float64, error) {
	switch s {
	case "full":
		return 0, nil
	case "recorded":
		return 1, nil
	}
	f, err := strconv.ParseFloat(strings.TrimSuffix(s, "x"), 64)
	if err != nil || f <= 0 || f > 1e6 {
		return 0, &usageError{fmt.Errorf("--speed is full, recorded or a number, not %q", s)}
	}
	return f, nil
}

// shell runs an operator's command.
func shell(ctx context.Context, text, arm string, out io.Writer) error {
	c := exec.CommandContext(ctx, "sh", "-c", text)
	c.Env = append(os.Environ(), "TMPPROXY_ARM="+arm)
	c.Stdout, c.Stderr = out, out
	if err := c.Run(); err != nil {
		return fmt.Errorf("--before: %w", err)
	}
	return nil
}

func writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(b, '\n'), 0o600)
}
