package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tmpproxy/bench"
)

// echoCommand is the hidden command that makes this program a bare echo, for bench to compare with.
const echoCommand = "echo"

func newBench() *cobra.Command {
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure on this machine what the proxy gains and costs",
		Long: `bench runs workloads directly, through tmpproxy with each strategy and through HAProxy and MySQL Router, side by side in
rounds, and prints medians, ratios with intervals, and a table of targets. It starts a server and the proxies itself, on
loopback and on data of their own; what is not installed is taken from Debian's packages into a folder of its own. With
--dsn it measures a server of yours: it makes a database tmpproxy_bench there and drops it at the end.

The machine should do nothing else meanwhile. Everything takes some 20 minutes; --quick four. The files are written anew
behind every line, so that nothing is lost when it is ended before its end; --resume goes on with what --json holds. To measure in
pieces, call it with --resume and --for until no line is left; to measure some lines again, with --append and --only.`,
		Args: noArguments,
	}
	flags := command.Flags()
	flags.SortFlags = false
	quick := flags.Bool("quick", false, "fewer cells, fewer and shorter rounds; other flags still count")
	text := flags.String("text", "", "file for the tables; standard output when empty")
	jsonFile := flags.String("json", "", "file for all figures as JSON; none when empty")
	adding := flags.Bool("append", false, "what the file of --json holds stays in the report, unless it is measured again")
	resume := flags.Bool("resume", false, "what the file of --json holds is not measured again")
	only := flags.String("only", "", `lines of the report that are measured, as a regular expression: "^selects|rows 10,"`)
	limit := flags.Duration("for", 0, "begin no line when that much time is over; 0 for no limit")
	htmlFile := flags.String("html", "", "file for one page with tables and plots; none when empty")
	options := fullBench()
	benchFlags(flags, &options)
	command.RunE = func(command *cobra.Command, _ []string) error {
		o := options
		if *quick {
			o = quickBench(flags)
		}
		for i, setting := range o.Settings {
			o.Settings[i] = "--" + strings.TrimLeft(setting, "-")
		}
		if err := o.Validate(); err != nil {
			return &usageError{err}
		}
		program, err := os.Executable()
		if err != nil {
			return err
		}
		o.Program, o.EchoArgs, o.Log = program, []string{"bench", echoCommand}, command.ErrOrStderr()
		o.Missing, o.For = *resume, *limit
		if *only != "" {
			if o.Only, err = regexp.Compile(*only); err != nil {
				return &usageError{fmt.Errorf("only: %w", err)}
			}
		}
		if *adding || *resume {
			if o.Earlier, err = earlierReport(*jsonFile); err != nil {
				return err
			}
		}
		outputs, err := openOutputs(command.OutOrStdout(), *text, *jsonFile, *htmlFile)
		if err != nil {
			return err
		}
		return runBench(o, outputs)
	}
	command.AddCommand(&cobra.Command{Use: echoCommand, Hidden: true, Args: noArguments, RunE: func(command *cobra.Command, _ []string) error {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Fprintln(command.OutOrStdout(), listener.Addr())
		return bench.ServeEcho(listener)
	}})
	return command
}

func fullBench() bench.Options {
	o := bench.Full()
	o.Strategies = strategyNames()
	return o
}

// quickBench returns the options of a quick run with the flags that were given.
func quickBench(given *pflag.FlagSet) bench.Options {
	o := bench.Quick()
	o.Strategies = strategyNames()
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	benchFlags(own, &o)
	given.Visit(func(f *pflag.Flag) {
		to := own.Lookup(f.Name)
		if to == nil {
			return
		}
		// The value was understood once and is understood again.
		if list, ok := f.Value.(pflag.SliceValue); ok {
			_ = to.Value.(pflag.SliceValue).Replace(list.GetSlice())
		} else {
			_ = to.Value.Set(f.Value.String())
		}
	})
	return o
}

// strategyNames returns the strategies that are measured, those first that change least: all but observe, which lets clients have what
// native does.
func strategyNames() []string {
	measured := maps.Clone(strategies)
	delete(measured, "observe")
	return slices.SortedFunc(maps.Keys(measured), func(a, b string) int {
		order := []string{"native", "keep", "innodb"}
		place := func(name string) int {
			if i := slices.Index(order, name); i >= 0 {
				return i
			}
			return len(order)
		}
		return cmp.Or(place(a)-place(b), strings.Compare(a, b))
	})
}

// benchFlags adds the flags that say what is measured, for the fields of o, whose values are the defaults.
func benchFlags(flags *pflag.FlagSet, o *bench.Options) {
	flags.StringVar(&o.Server, "server", o.Server, "auto (the machine's own, else MySQL is obtained), mysql, mariadb, mariadb-11.8 or mariadb-10.5")
	flags.StringVar(&o.DSN, "dsn", o.DSN, "measure this server instead: user:password@tcp(host:port)/")
	flags.BoolVar(&o.Durable, "durable", o.Durable, "the server that is started waits for the disk at every commit")
	flags.StringSliceVar(&o.Settings, "set", o.Settings, "settings of tmpproxy, such as relay.loops=2")
	flags.StringVar(&o.Other, "other", o.Other, "another tmpproxy executable, to compare with: its arms are called \"keep other\" and so on")
	flags.IntVar(&o.Rounds, "rounds", o.Rounds, "in each of which every arm works once, or those that a target is about which is not decided")
	flags.IntVar(&o.Inform, "inform", o.Inform, "rounds that every arm takes part in; as many as --rounds: all, whatever is decided")
	flags.DurationVar(&o.Turn, "turn", o.Turn, "how long an arm works in a round")
	flags.DurationVar(&o.WarmUp, "warm-up", o.WarmUp, "how long an arm works before the first round, at most")
	flags.StringSliceVar(&o.Workloads, "workloads", o.Workloads, "what is measured")
	flags.StringSliceVar(&o.Strategies, "strategies", o.Strategies, "of tmpproxy")
	flags.StringSliceVar(&o.Peers, "peers", o.Peers, "other proxies; empty for none")
	flags.StringSliceVar(&o.Engines, "engines", o.Engines, "of cycles; none leaves the choice to the server")
	flags.IntSliceVar(&o.Rows, "rows", o.Rows, "of a cycle's table")
	flags.DurationSliceVar(&o.Thinks, "think", o.Thinks, "how long a client of cycles thinks before a statement")
	flags.DurationSliceVar(&o.RoundTrips, "rtt", o.RoundTrips, "round trip between the server and what is before it, of cycles")
	flags.IntSliceVar(&o.Between, "between", o.Between, "statements about nothing between a DROP and the next CREATE, where there is a round trip and no think time")
	flags.BoolVar(&o.Thin, "thin", o.Thin, "of engines but the first, fewer of these combinations")
	flags.IntSliceVar(&o.Objects, "objects", o.Objects, "of a RelStorage transaction")
	flags.IntSliceVar(&o.States, "states", o.States, "bytes of a RelStorage object")
	flags.IntSliceVar(&o.Connections, "connections", o.Connections, "of RelStorage")
	flags.IntSliceVar(&o.Selects, "selects", o.Selects, "connections that select points at the same time")
	flags.IntSliceVar(&o.Sessions, "sessions", o.Sessions, "that are idle")
	flags.IntVar(&o.ResultBytes, "result-bytes", o.ResultBytes, "of the long result")
	flags.IntVar(&o.BlobBytes, "blob-bytes", o.BlobBytes, "of a large value")
}

// earlierReport reads the report that a run goes on with; nil when there is none yet.
func earlierReport(name string) (*bench.Report, error) {
	if name == "" {
		return nil, &usageError{errors.New("--append and --resume need --json, the file that they go on with")}
	}
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	report, err := bench.ReadReport(file)
	if err == io.EOF { // a run that has found out nothing
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return report, nil
}

// An output is where one form of the report goes: a file, or what to is if it has no name.
type output struct {
	name  string
	to    io.Writer
	write func(*bench.Report, io.Writer) error
}

// openOutputs makes sure that the files can be written before anything is measured.
func openOutputs(out io.Writer, text, jsonFile, htmlFile string) ([]output, error) {
	var outputs []output
	for _, o := range []output{{text, out, (*bench.Report).WriteText}, {jsonFile, nil, (*bench.Report).WriteJSON}, {htmlFile, nil, (*bench.Report).WriteHTML}} {
		if o.name != "" {
			file, err := os.OpenFile(o.name, os.O_WRONLY|os.O_CREATE, 0o666)
			if err != nil {
				return nil, err
			}
			info, err := file.Stat()
			if err := errors.Join(err, file.Close()); err != nil {
				return nil, err
			}
			if !info.Mode().IsRegular() {
				return nil, fmt.Errorf("%s is no file", o.name)
			}
		}
		if o.name != "" || o.to != nil {
			outputs = append(outputs, o)
		}
	}
	return outputs, nil
}

// save writes the report in place of what was there: all of it or, if that fails, nothing.
func (o *output) save(report *bench.Report) error {
	if o.name == "" {
		return o.write(report, o.to)
	}
	next := o.name + ".new"
	file, err := os.Create(next)
	if err != nil {
		return err
	}
	if err := errors.Join(o.write(report, file), file.Close()); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return os.Rename(next, o.name)
}

// runBench measures and writes the report, even one that is not complete: files behind every line, standard output at the end.
func runBench(o bench.Options, outputs []output) error {
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
	o.Keep = func(report *bench.Report) error {
		var errs []error
		for _, to := range outputs {
			if to.name != "" {
				errs = append(errs, to.save(report))
			}
		}
		return errors.Join(errs...)
	}
	report, err := bench.Run(ctx, o)
	errs := []error{err}
	for _, to := range outputs {
		if report != nil {
			errs = append(errs, to.save(report))
		}
	}
	return errors.Join(errs...)
}
