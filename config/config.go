package config

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Config is a complete and valid set of settings. It is never changed after [Load]; a reload makes a new one.
//
// An address is host:port, or the absolute path of a unix socket: [Network] tells them apart. Sizes are in bytes.
type Config struct {
	Listen struct {
		Addresses     []string // at least one, all different
		ReusePort     bool
		ProxyNetworks []string // networks such as 10.0.0.0/8, or unix
		TLS           struct {
			Mode string // off, optional, required or passthrough
			Dir  string // where the proxy's own certificate is kept; "" for nowhere
			Certificates
		}
	}
	Backend struct {
		Addresses      []string // at least one, all different; the first that is up serves new sessions
		ConnectTimeout time.Duration
		ProxyProtocol  string // none or v2
		Check          struct {
			Interval time.Duration
			Timeout  time.Duration
			Fall     int
			Rise     int
		}
		AllowPeerIdentity bool
		RSAKeyFile        string // "" when the key is to be made
		TLS               struct {
			Mode       string // disabled, preferred, required, verify-ca or verify-identity
			ServerName string // "" for that of the address
			Certificates
		}
		Monitor struct {
			User         string // "" when there is no monitor account
			PasswordFile string // "" for an empty password
		}
	}
	Limits struct {
		MaxSessions      int
		MaxHostSessions  int // 0: no limit
		MaxUserSessions  int // 0: no limit
		MaxHandshakes    int
		MaxBuffered      int
		HandshakeTimeout time.Duration
		IdleTimeout      time.Duration // 0: none
	}
	Relay struct {
		Driver  string // loop or pump
		Loops   int    // 0: as many as fit the machine
		IOURing bool
	}
	Rewrite struct {
		Strategy      string   // innodb, keep, native, auto or observe
		Convert       []string // of MEMORY, HEAP, MyISAM, Aria
		Fidelity      string   // standard or strict
		Routines      string   // visible, scan or none
		OnHazard      string   // count or native
		Reset         string   // truncate or auto
		OnRollback    string   // ignore or preserve
		ConvertSelect bool
		CacheLike     bool
		MaxStatement  int
		MaxCreate     int
		MaxParked     int
		ParkTTL       time.Duration
		MaxAge        time.Duration
	}
	Trial struct {
		Dir        string   // "" when results are not kept
		Name       string   // of the trial that the settings start
		Arms       []string // [NAME=]STRATEGY[/RESET][*WEIGHT]; none when the settings start no trial
		Assignment string   // random, user, schema or host
		Guardrail  float64  // 0.2: an arm may take 1.2 times as long as the control
	}
	Record struct {
		Enabled bool
		File    string   // "" where nothing can be recorded
		Users   []string // patterns; empty: all
		Schemas []string // likewise
		Hosts   []string // addresses, networks or patterns; empty: all
		Share   int      // percent of sessions
		Mask    bool
		MaxSize int
		MaxTime time.Duration
	}
	Admin struct {
		Address   string // "" when there is none
		Hosts     []string
		PProf     bool
		TokenFile string // "" when there is none
	}
	Reload struct {
		Watch time.Duration // 0: not at all
	}
	Log struct {
		Level  string // debug, info, warn or error
		Format string // json or console
	}
	SlowLog struct {
		File      string // "" when there is none
		Threshold time.Duration
		Text      string // digest or full
	}
	Tracing struct {
		Endpoint    string // "" when there is none
		HeadersFile string // "" for none of them
		Threshold   time.Duration
		Share       int // percent of the statements that are faster
	}
	Shutdown struct {
		Delay        time.Duration
		Finish       time.Duration
		Grace        time.Duration
		QuitQuitQuit bool
		ExitZero     bool
	}

	origin origin
}

// origin says where settings come from.
type origin struct {
	file    string            // "" when there is none
	sources map[string]string // by key; a key that is not in it has its default
}

// File returns the path of the file that the settings were read from, or "".
func (c *Config) File() string { return c.origin.file }

// Source says where the value of a key comes from: the flag, the variable or the file's name, or "default".
func (c *Config) Source(k Key) string {
	if s := c.origin.sources[k.Name]; s != "" {
		return s
	}
	return "default"
}

// Network says what net.Dial and net.Listen are told of an address: "unix" for an absolute path, "tcp" for everything else.
func Network(address string) string {
	if strings.HasPrefix(address, "/") {
		return "unix"
	}
	return "tcp"
}

// MonitorPassword reads the monitor account's password: the file's content without the line end behind it.
func (c *Config) MonitorPassword() (string, error) {
	if c.Backend.Monitor.PasswordFile == "" {
		return "", nil
	}
	b, err := os.ReadFile(c.Backend.Monitor.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("read the monitor account's password: %w", err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

// minToken is the least length of a token. It can be tried out as fast as the network goes.
const minToken = 16

// AdminToken reads the token that changes over HTTP need: the file's content without the white space around it. It is "" when there
// is no such file.
func (c *Config) AdminToken() (string, error) {
	if c.Admin.TokenFile == "" {
		return "", nil
	}
	b, err := os.ReadFile(c.Admin.TokenFile)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if len(token) < minToken {
		return "", fmt.Errorf("the token in %s is shorter than %d characters", c.Admin.TokenFile, minToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("the token in %s holds characters that a header cannot carry: letters, digits and signs of ASCII are allowed", c.Admin.TokenFile)
	}
	return token, nil
}

// Changed returns the keys whose values differ between c and next, in the table's order.
func (c *Config) Changed(next *Config) []Key {
	var changed []Key
	for _, k := range table {
		if !k.same(c, next) {
			changed = append(changed, k)
		}
	}
	return changed
}
