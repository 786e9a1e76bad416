// Command tmpproxy stands between an application and its MySQL or MariaDB server and keeps temporary tables for reuse.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tmpproxy/config"
)

// Exit codes. Ended by a signal, the command exits as a shell would say it: 128 and the signal's number.
const (
	exitOK    = 0
	exitRun   = 1
	exitUsage = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run executes the command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	var ended *signalError
	if errors.As(err, &ended) {
		return 128 + int(ended.signal)
	}
	fmt.Fprintln(stderr, "tmpproxy:", err)
	var usage *usageError
	var faults *config.Error
	var different *differentError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, "tmpproxy --help says how it is used")
		return exitUsage
	case errors.As(err, &faults):
		return exitUsage
	case errors.As(err, &different):
		return exitDifferent
	}
	return exitRun
}

// usageError is a command line that cannot be understood.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "tmpproxy",
		Short: "A MySQL proxy that keeps temporary tables for reuse",
		Long: `tmpproxy is a MySQL proxy that turns an application's CREATE TEMPORARY TABLE .. DROP cycles into one table per
session that is emptied instead of dropped and created again.

Settings come from flags, from environment variables (TMPPROXY_REWRITE_STRATEGY for --rewrite.strategy), from a YAML file
and from defaults, in this order.

Exit codes: 0 all is well, 1 run time, 2 usage or configuration, 3 differences were found (replay, check --compare), 130 ended by SIGINT, 143 ended by SIGTERM.`,
		Args:          unknownCommand,
		RunE:          func(*cobra.Command, []string) error { return &usageError{errors.New("a command is needed")} },
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(newServe(), newAdvise(), newSwitch(), newTrial(), newRecord(), newReplay(), newCheck(), newBench(), newVersion(), newMan(), newReady(), newQuit())
	return root
}

func unknownCommand(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("unknown command %q", args[0])}
	}
	return nil
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("unexpected %q", strings.Join(args, " "))}
	}
	return nil
}

// settings gives a command the flags of all settings, and returns what reads them.
func settings(command *cobra.Command) func() (*config.Config, error) {
	flags := command.Flags()
	file := flags.StringP("config", "c", "", "YAML file of settings ("+config.FileVariable+")")
	config.AddFlags(flags)
	flags.SortFlags = false
	return func() (*config.Config, error) { return config.Load(*file, flags) }
}
