package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker: -X main.version=v1.2.3. Otherwise the build's own information is used.
var version string

// build says which program this is.
type build struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if b.Version == "" {
		b.Version = "unknown"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
			b.Version = info.Main.Version
		}
	}
	return b
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			b := thisBuild()
			_, err := fmt.Fprintf(command.OutOrStdout(), "tmpproxy %s %s %s\n", b.Version, b.Go, b.System)
			return err
		},
	}
}
