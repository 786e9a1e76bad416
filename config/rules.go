package config

import (
	"fmt"
	"net"
	"slices"
)

// rule is what values of several keys owe each other.
type rule struct {
	keys  []string
	fault func(*Config) string // "" when it is kept
}

var rules = []rule{
	{[]string{"listen.addresses"}, func(c *Config) string {
		seen := make(map[string]bool)
		for _, a := range c.Listen.Addresses {
			if seen[a] && !anyPort(a) {
				return fmt.Sprintf("%q is given twice", a)
			}
			seen[a] = true
		}
		if len(seen) == 0 {
			return "at least one address is needed"
		}
		return ""
	}},
	{[]string{"listen.addresses", "backend.address"}, func(c *Config) string {
		for _, a := range c.Listen.Addresses {
			if slices.Contains(c.Backend.Addresses, a) {
				return fmt.Sprintf("%q is both: the proxy would connect to itself", a)
			}
		}
		return ""
	}},
	{[]string{"backend.address"}, func(c *Config) string {
		seen := make(map[string]bool)
		for _, a := range c.Backend.Addresses {
			if seen[a] {
				return fmt.Sprintf("%q is given twice", a)
			}
			seen[a] = true
		}
		if len(seen) == 0 {
			return "at least one address is needed"
		}
		return ""
	}},
	{[]string{"listen.addresses", "admin.address"}, func(c *Config) string {
		for _, a := range c.Listen.Addresses {
			if a == c.Admin.Address && !anyPort(a) {
				return fmt.Sprintf("%q is both", a)
			}
		}
		return ""
	}},
	{[]string{"backend.monitor.password_file", "backend.monitor.user"}, func(c *Config) string {
		if c.Backend.Monitor.PasswordFile != "" && c.Backend.Monitor.User == "" {
			return "a password without a user"
		}
		return ""
	}},
	{[]string{"backend.monitor.password_file"}, func(c *Config) string {
		if _, err := c.MonitorPassword(); err != nil {
			return err.Error()
		}
		return ""
	}},
	{[]string{"listen.tls.cert_file", "listen.tls.key_file", "listen.tls.ca_file"}, func(c *Config) string {
		if _, err := c.ServerTLS(); err != nil {
			return err.Error()
		}
		return ""
	}},
	{[]string{"backend.tls.cert_file", "backend.tls.key_file", "backend.tls.ca_file"}, func(c *Config) string {
		if _, err := c.ClientTLS(); err != nil {
			return err.Error()
		}
		return ""
	}},
	{[]string{"backend.rsa_key_file"}, func(c *Config) string {
		if _, err := c.RSAKey(); err != nil {
			return err.Error()
		}
		return ""
	}},
	{[]string{"admin.token_file"}, func(c *Config) string {
		if _, err := c.AdminToken(); err != nil {
			return err.Error()
		}
		return ""
	}},
	{[]string{"tracing.headers_file"}, func(c *Config) string {
		if _, err := c.TracingHeaders(); err != nil {
			return err.Error()
		}
		return ""
	}},
	{[]string{"rewrite.routines", "backend.monitor.user"}, func(c *Config) string {
		if c.Rewrite.Routines != "visible" && c.Backend.Monitor.User == "" {
			return fmt.Sprintf("%s needs the monitor account, and there is none", c.Rewrite.Routines)
		}
		return ""
	}},
	{[]string{"trial.arms", "rewrite.strategy"}, func(c *Config) string {
		if len(c.Trial.Arms) > 0 && c.Rewrite.Strategy == "native" {
			return "native goes before any trial: set another strategy, which sessions without an arm have"
		}
		return ""
	}},
	{[]string{"record.enabled", "record.file"}, func(c *Config) string {
		if c.Record.Enabled && c.Record.File == "" {
			return "a recording needs a file"
		}
		return ""
	}},
	{[]string{"rewrite.max_create", "rewrite.max_statement"}, func(c *Config) string {
		if c.Rewrite.MaxCreate > c.Rewrite.MaxStatement {
			return fmt.Sprintf("%s can never be reached with %s", inBytes(c.Rewrite.MaxCreate), inBytes(c.Rewrite.MaxStatement))
		}
		return ""
	}},
	{[]string{"rewrite.park_ttl", "rewrite.max_age"}, func(c *Config) string {
		if c.Rewrite.ParkTTL > c.Rewrite.MaxAge {
			return fmt.Sprintf("%s can never be reached with %s", c.Rewrite.ParkTTL, c.Rewrite.MaxAge)
		}
		return ""
	}},
}

// anyPort says whether a listener at this address gets a port of its own each time.
func anyPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return Network(address) == "tcp" && err == nil && port == "0"
}

// Warnings returns what is allowed but deserves a word when the proxy starts.
func (c *Config) Warnings() []string {
	var warnings []string
	if slices.ContainsFunc(c.Backend.Addresses, func(a string) bool { return Network(a) == "unix" }) {
		for _, a := range c.Listen.Addresses {
			if Network(a) == "tcp" {
				warnings = append(warnings, fmt.Sprintf("the server sees every client of %s as the local user that the proxy runs as", a))
			}
		}
	}
	if c.Admin.Address != "" && Network(c.Admin.Address) == "tcp" {
		host, _, _ := net.SplitHostPort(c.Admin.Address)
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			warnings = append(warnings, fmt.Sprintf("admin.address %s can be reached from other machines and asks for no password", c.Admin.Address))
			if c.Admin.TokenFile != "" {
				warnings = append(warnings, fmt.Sprintf("admin.address %s has no TLS: the token of admin.token_file can be read on its way", c.Admin.Address))
			}
		}
	}
	return append(append(warnings, c.tlsWarnings()...), c.tracingWarnings()...)
}
