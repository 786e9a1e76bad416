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

The machine should do nothing else meanwhile. Everything takes about an hour; --quick a few minutes. Ctrl-C ends it with
what was measured so far.`,
		Args: noArguments,
	}
	flags := command.Flags()
	flags.SortFlags = false
	quick := flags.Bool("quick", false, "fewer cells, fewer and shorter rounds; other flags still count")
	text := flags.String("text", "", "file for the tables; standard output when empty")
	jsonFile := flags.String("json", "", "file for all figures as JSON; none when empty")
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
	flags.IntVar(&o.Rounds, "rounds", o.Rounds, "in each of which every arm works once")
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

// An output is where one form of the report goes. It is opened before anything is measured.
type output struct {
	to    io.WriteCloser
	write func(*bench.Report, io.Writer) error
}

// standard is standard output, which stays open.
type standard struct{ io.Writer }

func (standard) Close() error { return nil }

func openOutputs(out io.Writer, text, jsonFile, htmlFile string) ([]output, error) {
	outputs := []output{{standard{out}, (*bench.Report).WriteText}}
	for _, form := range []struct {
		file  string
		write func(*bench.Report, io.Writer) error
	}{{text, (*bench.Report).WriteText}, {jsonFile, (*bench.Report).WriteJSON}, {htmlFile, (*bench.Report).WriteHTML}} {
		if form.file == "" {
			continue
		}
		file, err := os.Create(form.file)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, output{file, form.write})
	}
	if text != "" {
		outputs = outputs[1:]
	}
	return outputs, nil
}

// runBench measures and writes the report, even one that is not complete.
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
	report, err := bench.Run(ctx, o)
	errs := []error{err}
	for _, to := range outputs {
		if report != nil {
			errs = append(errs, to.write(report, to.to))
		}
		errs = append(errs, to.to.Close())
	}
	return errors.Join(errs...)
}
