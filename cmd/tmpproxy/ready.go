package main

import "github.com/spf13/cobra"

func newReady() *cobra.Command {
	command := &cobra.Command{
		Use:   "ready",
		Short: "Ask a running proxy whether it is ready for clients",
		Long: `ready asks the running proxy at admin.address what /readyz answers, and exits with 1 if it is not ready. It is for container
images, which have no program that could ask.`,
		Args: noArguments,
	}
	load := settings(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		c, err := load()
		if err != nil {
			return err
		}
		return ask(command.Context(), c, "/readyz", nil, nil)
	}
	return command
}
