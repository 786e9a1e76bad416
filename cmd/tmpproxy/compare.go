package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"tmpproxy/config"
	"tmpproxy/testbed/rawclient"
	"tmpproxy/trial/compare"
	"tmpproxy/trial/conform"
	"tmpproxy/trial/replay"
)

// comparison are the flags of check --compare.
type comparison struct {
	wanted             bool
	user, passwordFile string
	schema             string
	arms               []string
}

func (c *comparison) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&c.wanted, "compare", false, "also run the list of statements directly and through the proxy, and print what differs")
	flags.StringVar(&c.user, "user", "", "account for --compare, which may create the schema; the monitor account when empty")
	flags.StringVar(&c.passwordFile, "password-file", "", "file that holds its password; empty for no password")
	flags.StringVar(&c.schema, "schema", "tmpproxy_check", "schema for --compare, which must not exist: it is created and dropped")
	flags.StringSliceVar(&c.arms, "arms", []string{"native", "keep", "innodb"}, "strategies for --compare")
}

// run compares and prints. An error that is a *differentError says that something differs that is not on the list.
func (c *comparison) run(set *config.Config, out, log io.Writer) error {
	user, password := c.user, ""
	var err error
	switch {
	case user == "" && set.Backend.Monitor.User == "":
		return &usageError{errors.New("--compare needs an account: --user and --password-file, or the monitor account")}
	case user == "":
		user = set.Backend.Monitor.User
		password, err = set.MonitorPassword()
	case c.passwordFile != "":
		var b []byte
		b, err = os.ReadFile(c.passwordFile)
		password = strings.TrimRight(string(b), "\r\n")
	}
	if err != nil {
		return err
	}
	server := replay.Arm{Network: config.Network(set.Backend.Addresses[0]), Address: set.Backend.Addresses[0]}
	kind, err := c.absent(server, user, password)
	if err != nil {
		return err
	}
	list, err := conform.New(kind, c.schema)
	if err != nil {
		return err
	}
	strategy := func(arm string) string {
		if arm == "auto" {
			return "innodb"
		}
		return arm
	}
	fmt.Fprintf(log, "comparing %d scripts in the schema %s\n", list.Len(), c.schema)
	report, err := runArms(replay.Options{
		Source: func() (replay.Source, error) { return list.Reader(), nil },
		Server: server, User: user, Password: password,
		Applies: func(ordinal int, arm string) bool { return list.Applies(ordinal, strategy(arm)) },
		Listed: func(ordinal int, d *compare.Difference) (string, string) {
			d.Strategy = strategy(d.Strategy)
			return list.Listed(ordinal, d)
		},
		Log: func(format string, args ...any) { fmt.Fprintf(log, format+"\n", args...) },
	}, set.Backend.Addresses[0], c.arms, nil)
	if err != nil {
		return errors.Join(err, c.drop(server, user, password))
	}
	fmt.Fprintf(out, "\ncompared\t%d scripts, %d statements and commands, in each of %d arms\n", list.Len(), report.Input.Statements, len(c.arms))
	if err := report.WriteDifferences(out); err != nil {
		return err
	}
	if kinds := report.Unlisted(); kinds > 0 {
		return &differentError{kinds}
	}
	return nil
}

// absent makes sure that there is no such schema, and tells the server's kind.
func (c *comparison) absent(server replay.Arm, user, password string) (kind string, err error) {
	conn, err := rawclient.Connect(rawclient.Config{Network: server.Network, Address: server.Address, User: user, Password: password})
	if err != nil {
		return "", fmt.Errorf("--compare: %w", err)
	}
	defer conn.Close()
	reply, err := conn.InitDB(c.schema)
	if err != nil {
		return "", fmt.Errorf("--compare: %w", err)
	}
	const unknown = 1049
	switch e := reply.Err(); {
	case e == nil:
		return "", &usageError{fmt.Errorf("the schema %s exists already: name another one by --schema", c.schema)}
	case e.Code != unknown:
		return "", fmt.Errorf("--compare: schema %s: %w", c.schema, reply.AsError())
	}
	return replay.Flavour(conn.Greeting.Version), nil
}

// drop takes away what a comparison that did not end has left.
func (c *comparison) drop(server replay.Arm, user, password string) error {
	conn, err := rawclient.Connect(rawclient.Config{Network: server.Network, Address: server.Address, User: user, Password: password})
	if err != nil {
		return err
	}
	defer conn.Close()
	reply, err := conn.Query("DROP DATABASE IF EXISTS `" + strings.ReplaceAll(c.schema, "`", "``") + "`")
	return errors.Join(err, reply.AsError())
}
