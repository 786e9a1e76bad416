package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tmpproxy/config"
	"tmpproxy/proxy"
	"tmpproxy/wire"
)

func newCheck() *cobra.Command {
	command := &cobra.Command{
		Use:   "check",
		Short: "Validate the settings, look at the server, and say what would be done",
		Long: `check validates the settings, connects to the server and prints what it is, which protocol capabilities are carried and
which are cleared, and what would be done with temporary tables. With a monitor account (backend.monitor.user) it also says
what in the server's settings, routines and triggers stands in the way. It changes nothing. Of several servers each is asked; it
fails if one of them does not answer, and says in what they differ.

With --compare it also runs a list of statements, as applications with temporary tables send them, directly and through a proxy of
its own with each strategy, compares everything that a client can see, and prints what differs and which of it is on the list of
what can be noticed. It does so in a schema of its own (--schema), which it creates and drops. It takes a minute or so and makes a
few thousand small statements.

Exit codes: 0 all is well, and nothing differs but what is on the list; 3 something else differs; 1 run time; 2 usage.`,
		Args: noArguments,
	}
	load := settings(command)
	var compare comparison
	compare.flags(command.Flags())
	command.RunE = func(command *cobra.Command, _ []string) error {
		c, err := load()
		if err != nil {
			return err
		}
		if err := check(command.Context(), c, command.OutOrStdout()); err != nil || !compare.wanted {
			return err
		}
		return compare.run(c, command.OutOrStdout(), command.ErrOrStderr())
	}
	return command
}

// check prints what it finds out, and returns an error when something keeps the proxy from doing what the settings say.
func check(ctx context.Context, c *config.Config, out io.Writer) error {
	m, err := newMonitor(c)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "the settings are valid")
	servers := make([]findings, len(c.Backend.Addresses))
	var looking sync.WaitGroup
	for i, address := range c.Backend.Addresses {
		looking.Go(func() {
			of := *m
			of.Address = address
			servers[i] = look(ctx, &of)
		})
	}
	looking.Wait()
	if err := report(out, c, servers); err != nil {
		return err
	}
	var faults []error
	for i := range servers {
		if err := servers[i].fault(c); err != nil {
			faults = append(faults, fmt.Errorf("backend %s: %w", servers[i].address, err))
		}
	}
	return errors.Join(append(faults, checkIdentity(c, os.Geteuid(), owner))...)
}

// monitorTimeout bounds one question of the monitor account.
const monitorTimeout = 10 * time.Second

func newMonitor(c *config.Config) (*proxy.Monitor, error) {
	password, err := c.MonitorPassword()
	if err != nil {
		return nil, err
	}
	own := new(secrets)
	client, err := c.ClientTLS()
	if err != nil {
		return nil, err
	}
	own.client.Store(client)
	return &proxy.Monitor{Address: c.Backend.Addresses[0], User: c.Backend.Monitor.User, Password: password, Proxied: c.Backend.ProxyProtocol == "v2",
		Timeout: max(monitorTimeout, c.Backend.ConnectTimeout), TLS: backendModes[c.Backend.TLS.Mode], Client: own.dialling}, nil
}

// findings are what was learnt of a server.
type findings struct {
	address    string
	err        error // why there is no greeting, nor anything else
	greeting   wire.Greeting
	accountErr error             // why there are no variables although there is an account
	variables  map[string]string // nil without an account
	bodies     []proxy.Body
	bodiesErr  error // why bodies is not all
}

func look(ctx context.Context, m *proxy.Monitor) findings {
	f := findings{address: m.Address}
	if f.greeting, f.err = m.Greeting(ctx); f.err != nil || m.User == "" {
		return f
	}
	if f.variables, f.accountErr = m.Variables(ctx, variables...); f.accountErr == nil {
		f.bodies, f.bodiesErr = m.Bodies(ctx)
	}
	return f
}

// fault is what keeps the proxy from using the server as the settings say; nil for nothing.
func (f *findings) fault(c *config.Config) error {
	if err := cmp.Or(f.err, f.accountErr); err != nil || c.Rewrite.Routines == "visible" {
		return err
	}
	return f.bodiesErr
}

// variables are the server's settings that matter to what the proxy does.
var variables = []string{
	"lower_case_table_names", "sql_mode", "default_tmp_storage_engine", "default_storage_engine", "sql_generate_invisible_primary_key",
	"sql_require_primary_key", "disabled_storage_engines", "enforce_storage_engine", "binlog_format", "log_bin", "init_connect",
	"session_track_state_change", "session_track_transaction_info", "connect_timeout",
}

// report tells of every server what it is, and of what is done there by the first that answers.
func report(out io.Writer, c *config.Config, servers []findings) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name string, values ...string) {
		for i, v := range values {
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(w, "%s\t%s\n", name, v)
		}
	}
	line("listen", strings.Join(c.Listen.Addresses, ", "))
	var lines []string
	var f *findings
	for i := range servers {
		lines = append(lines, servers[i].address+": "+servers[i].describe())
		if f == nil && servers[i].err == nil {
			f = &servers[i]
		}
	}
	line("backend", lines...)
	if f == nil {
		return w.Flush()
	}
	line("carried", capabilities(f.greeting.Capabilities&wire.Carried)...)
	line("cleared", capabilities(f.greeting.Capabilities&^wire.Carried)...)
	line("strategy", plan(c, f.greeting.MariaDB)...)
	if f.variables == nil {
		line("monitor", cmp.Or(c.Backend.Monitor.User, "no account: nothing more is known of the server"))
	} else {
		line("monitor", c.Backend.Monitor.User)
		for _, name := range variables {
			if value, ok := f.variables[name]; ok {
				line(name, cmp.Or(value, "(empty)"))
			}
		}
		line("routines", describeBodies(f)...)
	}
	line("notes", cmp.Or(strings.Join(allNotes(c, servers), "\n\t"), "none"))
	for _, warning := range c.Warnings() {
		line("warning", warning)
	}
	return w.Flush()
}

func (f *findings) describe() string {
	if f.err != nil {
		return f.err.Error()
	}
	text := fmt.Sprintf("%s, version %s", flavour(&f.greeting), f.greeting.Version)
	if f.greeting.Plugin != "" {
		text += ", logins by " + f.greeting.Plugin
	}
	if f.accountErr != nil {
		text += "; the monitor account: " + f.accountErr.Error()
	}
	return text
}

func flavour(g *wire.Greeting) string {
	if g.MariaDB {
		return "MariaDB"
	}
	return "MySQL"
}

// capabilities returns their names, some to a line.
func capabilities(c wire.Capability) []string {
	if c == 0 {
		return []string{"none"}
	}
	var lines []string
	for part := range slices.Chunk(strings.Split(c.String(), "|"), 4) {
		lines = append(lines, strings.Join(part, " "))
	}
	return lines
}

// plan says what is done with temporary tables.
func plan(c *config.Config, mariaDB bool) []string {
	r := &c.Rewrite
	cached := []string{"InnoDB", "MEMORY"} // which HEAP is another name of
	if mariaDB {
		cached = append(cached, "Aria", "MyISAM") // on MySQL emptying a MyISAM table costs more than its cycle
	}
	const rest = "everything else is left to the server"
	switch r.Strategy {
	case "native":
		return []string{"native: everything is left to the server"}
	case "observe":
		return []string{"observe: everything is left to the server; tmpproxy advise says what innodb or keep would gain"}
	case "auto":
		return []string{"auto: cycles are measured as under innodb, keep and native; each shape then gets the fastest", rest}
	case "innodb":
		if len(r.Convert) > 0 {
			cached = slices.DeleteFunc(cached, func(engine string) bool { return converted(c, engine) })
			return []string{
				"innodb: ENGINE=" + strings.Join(r.Convert, ", ") + " becomes InnoDB; these tables are cached",
				"no ENGINE, or " + strings.Join(cached, ", ") + ": cached as they are",
				rest,
			}
		}
	}
	return []string{r.Strategy + ": no ENGINE, or " + strings.Join(cached, ", ") + ": cached as they are", rest}
}

// converted says whether strategy innodb converts an engine.
func converted(c *config.Config, engine string) bool {
	list := c.Rewrite.Convert
	return slices.Contains(list, engine) || engine == "MEMORY" && slices.Contains(list, "HEAP")
}

// describeBodies counts the routines and triggers that do not come with the server.
func describeBodies(f *findings) []string {
	if f.bodiesErr != nil {
		return []string{"not known: " + f.bodiesErr.Error()}
	}
	counts := make(map[string]int)
	for _, b := range own(f.bodies) {
		counts[strings.ToLower(b.Kind)]++
	}
	delete(counts, "parameter") // belongs to a routine that is counted
	if len(counts) == 0 {
		return []string{"none"}
	}
	var parts []string
	for _, kind := range []string{"procedure", "function", "package", "package body", "trigger"} {
		if n := counts[kind]; n > 0 {
			parts = append(parts, kind+" "+strconv.Itoa(n))
		}
	}
	return []string{strings.Join(parts, ", ")}
}

func own(bodies []proxy.Body) []proxy.Body {
	return slices.DeleteFunc(slices.Clone(bodies), proxy.Body.System)
}

// allNotes says what is to be noted of all servers, then of some, by address: also in what they differ from the first that answers.
func allNotes(c *config.Config, servers []findings) []string {
	answer := slices.DeleteFunc(slices.Clone(servers), func(f findings) bool { return f.err != nil })
	of := make([][]string, len(answer))
	for i := range answer {
		of[i] = notes(c, &answer[i])
	}
	list := slices.DeleteFunc(slices.Clone(of[0]), func(note string) bool {
		return slices.ContainsFunc(of, func(others []string) bool { return !slices.Contains(others, note) })
	})
	common := slices.Clone(list)
	for i := range answer {
		f, first := &answer[i], &answer[0]
		note := func(text string) { list = append(list, f.address+": "+text) }
		if f.greeting.MariaDB != first.greeting.MariaDB {
			note(fmt.Sprintf("is %s, %s is %s: what is learnt of one is taken to be true of all", flavour(&f.greeting), first.address, flavour(&first.greeting)))
		}
		for _, name := range variables {
			here, known := f.variables[name]
			if there, both := first.variables[name]; known && both && here != there {
				note(fmt.Sprintf("%s is %s, not %s as on %s", name, cmp.Or(here, "(empty)"), cmp.Or(there, "(empty)"), first.address))
			}
		}
		for _, text := range of[i] {
			if !slices.Contains(common, text) {
				note(text)
			}
		}
	}
	return list
}

// notes says what in the server's settings stands in the way of the plan, or changes what it comes to.
func notes(c *config.Config, f *findings) []string {
	var list []string
	note := func(when bool, format string, args ...any) {
		if when {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	g, v := &f.greeting, f.variables
	is := func(name string, values ...string) bool {
		return slices.ContainsFunc(values, func(value string) bool { return strings.EqualFold(v[name], value) })
	}
	oldest := 80000
	if g.MariaDB {
		oldest = 100500
	}
	note(g.VersionID < oldest, "the server is older than the ones that the proxy is tested with (MySQL 9.7; MariaDB 10.5, 10.11, 11.8)")
	if v == nil || c.Rewrite.Strategy == "native" || c.Rewrite.Strategy == "observe" {
		return list
	}
	converts := (c.Rewrite.Strategy == "innodb" || c.Rewrite.Strategy == "auto") && len(c.Rewrite.Convert) > 0

	for _, name := range []string{"InnoDB", "MEMORY", "MyISAM"} {
		disabled := slices.ContainsFunc(strings.Split(v["disabled_storage_engines"], ","), func(engine string) bool {
			return strings.EqualFold(strings.TrimSpace(engine), name)
		})
		switch {
		case disabled && name == "InnoDB":
			note(converts, "disabled_storage_engines has InnoDB: nothing can be converted, tables stay as the application asks")
		case disabled:
			note(converts && converted(c, name), "disabled_storage_engines has %s: statements that the server refuses succeed with InnoDB", name)
		}
	}
	engine := v["enforce_storage_engine"]
	note(engine != "" && !is("enforce_storage_engine", "InnoDB", "MEMORY", "Aria", "MyISAM"),
		"enforce_storage_engine is %s: tables of that engine are emptied as if they held their own rows; use strategy native", engine)
	note(engine != "" && converts && !is("enforce_storage_engine", "InnoDB"), "enforce_storage_engine is %s: nothing becomes InnoDB", engine)

	engine = cmp.Or(v["default_tmp_storage_engine"], v["default_storage_engine"])
	note(engine != "" && !strings.EqualFold(engine, "InnoDB") && !strings.EqualFold(engine, "MEMORY"),
		"a CREATE without ENGINE makes %s tables", engine)
	note(is("sql_generate_invisible_primary_key", "ON", "1"),
		"sql_generate_invisible_primary_key is ON: what would become InnoDB without a primary key is left to the server")
	note(is("sql_require_primary_key", "ON", "1"), "sql_require_primary_key is ON: a CREATE without a primary key fails, with the proxy as without")
	note(is("binlog_format", "STATEMENT") && is("log_bin", "ON", "1") && converts,
		"binlog_format is STATEMENT: with READ COMMITTED, statements that write to a converted table fail with error 1665")
	note(v["init_connect"] != "", "init_connect is set: what it changes in a session is not seen by the proxy")
	note(is("session_track_state_change", "ON", "1"), "session_track_state_change is ON: sessions of clients that track it are left to the server")
	note(v["session_track_transaction_info"] != "" && !is("session_track_transaction_info", "OFF", "0"),
		"session_track_transaction_info is %s: sessions of clients that track it are left to the server", v["session_track_transaction_info"])
	if seconds, err := strconv.Atoi(v["connect_timeout"]); err == nil {
		note(c.Limits.HandshakeTimeout >= time.Duration(seconds)*time.Second,
			"limits.handshake_timeout (%s) is not below the server's connect_timeout (%d s): clients that never log in count as errors of the proxy's host",
			c.Limits.HandshakeTimeout, seconds)
	}
	return append(list, routineNotes(c, f)...)
}

// routineNotes says what the server's routines and triggers mean for the plan.
func routineNotes(c *config.Config, f *findings) []string {
	if f.bodiesErr != nil {
		var rights *proxy.RightsError
		if errors.As(f.bodiesErr, &rights) {
			return []string{"routines and triggers cannot be read: the account needs " + strings.Join(rights.Missing, ", ")}
		}
		return nil
	}
	var triggers, routines, opaque int
	for _, b := range own(f.bodies) {
		if b.Opaque() {
			opaque++
		}
		switch b.Kind {
		case "TRIGGER":
			triggers++
		case "PARAMETER":
		default:
			routines++
		}
	}
	var list []string
	switch c.Rewrite.Routines {
	case "visible":
		if routines > 0 {
			list = append(list, "CALL and stored functions give parked tables back first; rewrite.routines: scan avoids that where no body names the table")
		}
		if triggers > 0 {
			list = append(list, "triggers are trusted not to use a temporary table's name; rewrite.routines: scan reads them")
		}
	case "scan":
		if opaque > 0 {
			list = append(list, fmt.Sprintf("%d bodies cannot be read or are in another language than SQL: they may name any table, so everything is left to the server", opaque))
		}
	case "none":
		if triggers+routines > 0 {
			list = append(list, "rewrite.routines is none and there are some: everything is left to the server")
		}
	}
	return list
}
