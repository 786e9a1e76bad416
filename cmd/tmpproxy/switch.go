package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func newSwitch() *cobra.Command {
	command := &cobra.Command{
		Use:   "switch native|configured",
		Short: "Switch a running proxy to native, or back to what its settings say",
		Long: `switch tells the running proxy at admin.address, with the token of admin.token_file, to leave every next cycle of every
session to the server (native), or to do what its settings say again (configured). No connection is dropped. The switch
holds until it is switched back or the proxy is started anew; a SIGHUP does not undo it.`,
		ValidArgs: []cobra.Completion{"native", "configured"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] != "native" && args[0] != "configured" {
				return &usageError{errors.New("switch native, or switch configured")}
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
		var s strategyStatus
		if err := ask(command.Context(), c, "/api/strategy", switchRequest{args[0]}, &s); err != nil {
			return err
		}
		return s.print(command.OutOrStdout())
	}
	return command
}

func (s *strategyStatus) print(out io.Writer) error {
	words := "as configured"
	if s.Switched {
		words = "switched by an operator; configured is " + s.Configured
	}
	_, err := fmt.Fprintf(out, "strategy %s is in force (%s)\n", s.InForce, words)
	return err
}
