package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tmpproxy/config"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man",
		Short:  "Print the manual page",
		Long:   "man prints the manual page tmpproxy(1), made from the commands, their flags and the settings: tmpproxy man | man -l -",
		Hidden: true,
		Args:   noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := io.WriteString(command.OutOrStdout(), manual(command.Root()))
			return err
		},
	}
}

// manual returns the manual page in the macros of man(7).
func manual(root *cobra.Command) string {
	var p page
	p.macro("TH", "TMPPROXY", "1", "", "tmpproxy "+thisBuild().Version, "User Commands")
	p.macro("SH", "NAME")
	p.text("tmpproxy - " + strings.ToLower(root.Short[:1]) + root.Short[1:])
	p.macro("SH", "SYNOPSIS")
	commands := slices.DeleteFunc(slices.Clone(root.Commands()), func(c *cobra.Command) bool { return c.Hidden || c.Name() == "help" })
	for i, c := range commands {
		if i > 0 {
			p.macro("br")
		}
		p.macro("B", "tmpproxy "+strings.TrimSuffix(c.Use, " [flags]"))
		if c.HasAvailableLocalFlags() {
			p.macro("RI", "[", "flags", "]")
		}
	}
	p.macro("SH", "DESCRIPTION")
	p.text(root.Long)
	p.macro("SH", "COMMANDS")
	for _, c := range commands {
		p.macro("SS", "tmpproxy "+c.Use)
		p.text(cmp.Or(c.Long, c.Short+"."))
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" || isSetting(f.Name) {
				return
			}
			p.macro("TP")
			name := "--" + f.Name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand + ", " + name
			}
			p.macro("B", name)
			p.text(withDefault(f.Usage, f.DefValue))
		})
		if c.LocalFlags().Lookup(config.Keys()[0].Name) != nil {
			p.macro("PP")
			p.text("Every setting below is a flag of this command.")
		}
	}
	p.macro("SH", "SETTINGS")
	p.text("Each is a flag (--rewrite.strategy=keep), an environment variable (TMPPROXY_REWRITE_STRATEGY=keep) and a key of the YAML " +
		"file; the flag wins over the variable, the variable over the file. Lists are comma-separated in flags and variables. " +
		"Those that are marked live take effect on SIGHUP.")
	for _, k := range config.Keys() {
		p.macro("TP")
		p.macro("B", "--"+k.Name)
		usage := withDefault(k.Usage, k.Default)
		if k.Live {
			usage += "; live"
		}
		p.text(usage)
	}
	p.macro("SH", "SIGNALS")
	p.text("serve: SIGHUP reads the settings again; the first SIGTERM or SIGINT drains, the second ends the process at once.")
	p.macro("SH", "ENVIRONMENT")
	p.macro("TP")
	p.macro("B", config.FileVariable)
	p.text("the YAML file of settings, when --config names none")
	return p.String()
}

// isSetting says whether a flag is one of those that all commands with settings have.
func isSetting(name string) bool {
	return slices.ContainsFunc(config.Keys(), func(k config.Key) bool { return k.Name == name })
}

func withDefault(usage, value string) string {
	switch value {
	case "", "false", "[]":
		return usage
	}
	return fmt.Sprintf("%s (default %s)", usage, value)
}

// page is a manual page that is being written.
type page struct{ strings.Builder }

// inManual makes a hyphen a minus, which can be searched for and copied, and keeps a backslash from meaning anything.
var inManual = strings.NewReplacer(`\`, `\e`, "-", `\-`)

// macro writes one line of a macro and its arguments.
func (p *page) macro(name string, arguments ...string) {
	p.WriteString("." + name)
	for _, a := range arguments {
		fmt.Fprintf(p, ` "%s"`, strings.ReplaceAll(inManual.Replace(a), `"`, `""`))
	}
	p.WriteByte('\n')
}

// text writes paragraphs, which an empty line divides.
func (p *page) text(text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			p.macro("PP")
		}
		for line := range strings.SplitSeq(inManual.Replace(paragraph), "\n") {
			if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				p.WriteString(`\&`) // else it were a macro
			}
			p.WriteString(line + "\n")
		}
	}
}
