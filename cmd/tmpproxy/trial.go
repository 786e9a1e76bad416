package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tmpproxy/trial"
)

func newTrial() *cobra.Command {
	command := &cobra.Command{
		Use:   "trial",
		Short: "Compare strategies on live sessions of a running proxy",
		Long: `trial has the running proxy at admin.address treat its sessions in different ways and compares what that does to the times of
their cycles. Everything but status and report needs the token of admin.token_file, or an admin.address that is a unix socket.`,
		Args: unknownCommand,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{errors.New("trial start, status, report, change or stop")}
		},
	}
	command.AddCommand(newTrialStart(), newTrialStatus(), newTrialReport(), newTrialChange(), newTrialStop())
	return command
}

func newTrialStart() *cobra.Command {
	command := &cobra.Command{
		Use:   "start",
		Short: "Start a trial: --trial.arms=native,innodb",
		Long: `start begins the trial that trial.name, trial.arms, trial.assignment and trial.guardrail describe. An arm is
[NAME=]STRATEGY[/RESET][*WEIGHT]: native, or fast=innodb/auto*2. The first arm that is native, or else the first, is what the others are
compared with.`,
		Args: noArguments,
	}
	load := settings(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		c, err := load()
		if err != nil {
			return err
		}
		spec, err := trialOf(c)
		switch {
		case err != nil:
			return &usageError{err}
		case spec == nil:
			return &usageError{errors.New("which arms? --trial.arms=native,innodb")}
		}
		var r trial.Report
		if err := ask(command.Context(), c, "/api/trial/start", spec, &r); err != nil {
			return err
		}
		return printStatus(command.OutOrStdout(), &r)
	}
	return command
}

func newTrialStatus() *cobra.Command {
	return newTrialQuestion("status", "Say in a few lines how the trial stands", "/api/trial", nil)
}

// newTrialQuestion makes a command without arguments that has the proxy answer with how the trial stands; question is as for ask.
func newTrialQuestion(use, short, path string, question any) *cobra.Command {
	command := &cobra.Command{Use: use, Short: short, Args: noArguments}
	load := settings(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		c, err := load()
		if err != nil {
			return err
		}
		var r trial.Report
		if err := ask(command.Context(), c, path, question, &r); err != nil {
			return err
		}
		return printStatus(command.OutOrStdout(), &r)
	}
	return command
}

func newTrialReport() *cobra.Command {
	var asJSON bool
	var from []string
	command := &cobra.Command{
		Use:   "report",
		Short: "Print what the trial has found, shape by shape",
		Long: `report prints times of the cycles per shape and arm, and the verdicts. With --from it adds up what several proxies have found that
run the same trial: give their admin addresses (host:port, http://host:port or the path of a unix socket).`,
		Args: noArguments,
	}
	load := settings(command)
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	command.Flags().StringSliceVar(&from, "from", nil, "admin addresses of the proxies whose results are added up")
	command.RunE = func(command *cobra.Command, _ []string) error {
		c, err := load()
		if err != nil {
			return err
		}
		if len(from) == 0 {
			from = []string{c.Admin.Address}
		}
		var sum *trial.Results
		for _, address := range from {
			at := *c
			at.Admin.Address = adminAddress(address)
			var r *trial.Results
			if err := ask(command.Context(), &at, "/api/trial/export", nil, &r); err != nil {
				return err
			}
			switch {
			case r == nil:
				return fmt.Errorf("the proxy at %s knows of no trial", at.Admin.Address)
			case sum == nil:
				if sum, err = r, r.Check(); err != nil {
					return err
				}
			default:
				if err := sum.Merge(r); err != nil {
					return fmt.Errorf("add up %s: %w", at.Admin.Address, err)
				}
			}
		}
		r := sum.Report()
		if asJSON {
			e := json.NewEncoder(command.OutOrStdout())
			e.SetIndent("", "  ")
			return e.Encode(r)
		}
		return printReport(command.OutOrStdout(), r)
	}
	return command
}

// adminAddress is what a URL of a proxy means as admin.address.
func adminAddress(url string) string {
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(url, "http://"), "unix:"), "/")
}

func newTrialChange() *cobra.Command {
	command := &cobra.Command{
		Use:   "change ARM=WEIGHT ..",
		Short: "Give arms of the running trial other weights, for sessions to come",
		Long: `change gives arms other weights. Sessions keep the arm that they have. The verdicts begin anew: sessions of before and after cannot be
compared, since the application may have changed meanwhile.`,
		Args: func(_ *cobra.Command, args []string) error {
			_, err := weights(args)
			return err
		},
	}
	load := settings(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		c, err := load()
		if err != nil {
			return err
		}
		change, err := weights(args)
		if err != nil {
			return err
		}
		var r trial.Report
		if err := ask(command.Context(), c, "/api/trial/change", change, &r); err != nil {
			return err
		}
		return printStatus(command.OutOrStdout(), &r)
	}
	return command
}

func weights(args []string) (trial.Change, error) {
	c := trial.Change{Weights: map[string]float64{}}
	for _, arg := range args {
		name, text, _ := strings.Cut(arg, "=")
		w, err := strconv.ParseFloat(text, 64)
		if err != nil || name == "" {
			return c, &usageError{fmt.Errorf("%q is not ARM=WEIGHT", arg)}
		}
		c.Weights[name] = w
	}
	if len(args) == 0 {
		return c, &usageError{errors.New("which weights? innodb=2")}
	}
	return c, nil
}

func newTrialStop() *cobra.Command {
	return newTrialQuestion("stop", "Stop the trial; its results stay", "/api/trial/stop", struct{}{})
}

// printStatus prints the arms and the overall verdict.
func printStatus(out io.Writer, r *trial.Report) error {
	if r.State == trial.StateNone {
		_, err := fmt.Fprintln(out, "no trial")
		return err
	}
	fmt.Fprintf(out, "trial %s, %s since %s; sessions are assigned by %s\n", r.Name, r.State, since(r), assignedBy(r.Assignment))
	if r.Overridden {
		fmt.Fprintln(out, "native is in force for all sessions: none is measured")
	}
	if r.Note != "" {
		fmt.Fprintln(out, r.Note)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "arm\tweight\tsessions\tcycles\tstatements\tmedian\tp99\terrors\t\n")
	for _, a := range r.Arms {
		fmt.Fprintf(w, "%s\t%v\t%d\t%d\t%d\t%s\t%s\t%d\t\n", a.Name, a.Weight, a.Sessions, a.Cycles, a.Statements.Count, took(a.Statements.Median), took(a.Statements.P99), a.Errors)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, a := range r.Arms {
		if a.StoppedReason != "" {
			fmt.Fprintf(out, "%s was stopped: %s\n", a.Name, a.StoppedReason)
		}
	}
	for _, v := range r.Overall.Verdicts {
		fmt.Fprintln(out, v.Words)
	}
	return nil
}

func since(r *trial.Report) string {
	at := r.Started
	if r.Stopped != nil {
		at = r.Stopped
	}
	if at == nil {
		return "?"
	}
	return at.UTC().Format(time.RFC3339)
}

func assignedBy(assignment string) string {
	if assignment == trial.AssignRandom {
		return "chance"
	}
	return "a hash of the " + assignment
}

// printReport prints the shapes as well.
func printReport(out io.Writer, r *trial.Report) error {
	if err := printStatus(out, r); err != nil {
		return err
	}
	for _, s := range append([]trial.ShapeReport{r.Overall}, r.Shapes...) {
		title := "all cycles"
		if s.Shape != "" {
			title = shortened(s.Shape, 120)
		}
		fmt.Fprintf(out, "\n%s\n", title)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprint(w, "arm\tcycles\treused\tsessions\tmedian\tp99\tmeans: create\tdrop\tstatements\treset\tratio\t95 % interval\t\n")
		for _, a := range s.Arms {
			ratio, interval := "-", "-"
			if a.Arm == r.Control {
				ratio, interval = "1", "control"
			}
			for _, v := range s.Verdicts {
				if v.Arm == a.Arm && v.Ratio > 0 {
					ratio, interval = fmt.Sprintf("%.3f", v.Ratio), bounds(v)
				}
			}
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", a.Arm, a.Cycles, a.Reused, a.Sessions, took(a.Median), took(a.P99),
				took(a.Create), took(a.Drop), took(a.Statements), took(a.Reset), ratio, interval)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for _, v := range s.Verdicts {
			fmt.Fprintln(out, v.Words)
		}
	}
	return nil
}

func bounds(v trial.Verdict) string {
	if v.High == nil {
		return "none yet"
	}
	return fmt.Sprintf("%.3f to %.3f", v.Low, *v.High)
}

// took writes a duration in seconds with three digits.
func took(seconds float64) string {
	switch {
	case seconds <= 0:
		return "0"
	case seconds < 1e-3:
		return fmt.Sprintf("%.3g µs", seconds*1e6)
	case seconds < 1:
		return fmt.Sprintf("%.3g ms", seconds*1e3)
	}
	return fmt.Sprintf("%.3g s", seconds)
}

func shortened(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + " …"
	}
	return text
}
