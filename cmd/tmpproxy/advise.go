package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"tmpproxy/advice"
)

func newAdvise() *cobra.Command {
	command := &cobra.Command{
		Use:   "advise",
		Short: "Say what caching would gain, by what a running proxy has observed",
		Long: `advise asks the running proxy at admin.address what it has seen of temporary tables under rewrite.strategy: observe, and
prints for each shape what caching it would gain, what would show, and what to do. Nothing is changed.`,
		Args: noArguments,
	}
	asJSON := command.Flags().Bool("json", false, "print everything as JSON, as GET /api/advice")
	load := settings(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		c, err := load()
		if err != nil {
			return err
		}
		var text json.RawMessage
		if err := ask(command.Context(), c, "/api/advice", nil, &text); err != nil {
			return err
		}
		if *asJSON {
			_, err = fmt.Fprintf(command.OutOrStdout(), "%s\n", text)
			return err
		}
		var r advice.Report
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("the answer of the proxy at %s: %w", c.Admin.Address, err)
		}
		_, err = fmt.Fprint(command.OutOrStdout(), r.Text())
		return err
	}
	return command
}
