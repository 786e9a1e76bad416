package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

const prefix = "TMPPROXY_"

// FileVariable is the environment variable that names the file when --config does not.
const FileVariable = prefix + "CONFIG"

// Error is every fault of a configuration: one line each, naming the key, where its value comes from, and what is wrong with it.
type Error struct {
	Faults []string
}

func (e *Error) Error() string {
	if len(e.Faults) == 1 {
		return "configuration: " + e.Faults[0]
	}
	return fmt.Sprintf("configuration: %d faults\n  %s", len(e.Faults), strings.Join(e.Faults, "\n  "))
}

// AddFlags gives flags one flag for every key: --limits.max_sessions.
func AddFlags(flags *pflag.FlagSet) {
	for _, k := range table {
		f := flags.VarPF(&flagValue{k.Default, k.kind}, k.Name, "", k.Usage)
		if k.kind == boolean.kind {
			f.NoOptDefVal = "true"
		}
	}
}

// flagValue keeps what was given as it is: all values are read in one place, whatever they come from.
type flagValue struct {
	text string
	kind kind
}

func (v *flagValue) String() string     { return v.text }
func (v *flagValue) Set(s string) error { v.text = s; return nil }
func (v *flagValue) Type() string       { return string(v.kind) } // none that viper would read a value by

// Default returns the settings that are in force when nothing is given.
func Default() *Config {
	c := new(Config)
	for _, k := range table {
		if err := k.read(c, k.Default); err != nil {
			panic(fmt.Sprintf("default of %s: %v", k.Name, err)) // the table is wrong; a test reads it
		}
	}
	return c
}

// Load reads the settings: flags (of [AddFlags]; may be nil) before the environment, before the file (a YAML file's path; "" for
// the one that the environment names, if it does), before the defaults. What is wrong with them comes as one *Error.
func Load(file string, flags *pflag.FlagSet) (*Config, error) {
	if file == "" {
		file = os.Getenv(FileVariable)
	}
	v := viper.New()
	known := make(map[string]bool, len(table))
	for _, k := range table {
		known[k.Name] = true
		v.SetDefault(k.Name, k.Default)
		if err := v.BindEnv(k.Name, k.Variable()); err != nil {
			return nil, fmt.Errorf("bind %s: %w", k.Variable(), err)
		}
		if flags == nil {
			continue
		}
		if err := v.BindPFlag(k.Name, flags.Lookup(k.Name)); err != nil {
			return nil, fmt.Errorf("bind --%s: %w", k.Name, err)
		}
	}

	var faults []string
	if file != "" {
		v.SetConfigFile(file)
		v.SetConfigType("yaml")
		if err := v.ReadInConfig(); err != nil {
			faults = append(faults, fmt.Sprintf("%s: %s", file, fileFault(err)))
		}
	}
	for _, name := range slices.Sorted(slices.Values(v.AllKeys())) {
		switch {
		case known[name]:
		case !section(name):
			faults = append(faults, fmt.Sprintf("%s (%s): unknown key", name, filepath.Base(file)))
		default:
			if _, ok := v.Get(name).(map[string]any); !ok { // an empty section shows its defaults
				faults = append(faults, fmt.Sprintf("%s (%s): is a section: give its keys", name, filepath.Base(file)))
			}
		}
	}
	faults = append(faults, unknownVariables(os.Environ())...)

	c := Default()
	c.origin.file = file
	broken := make(map[string]bool)
	for _, k := range table {
		raw := v.Get(k.Name)
		if raw == nil {
			continue // a key without a value, or below something that is no section
		}
		from := source(k, file, flags)
		if from != filepath.Base(file) || v.InConfig(k.Name) {
			if c.origin.sources == nil {
				c.origin.sources = make(map[string]string)
			}
			c.origin.sources[k.Name] = from
		}
		if err := k.read(c, raw); err != nil {
			broken[k.Name] = true
			for line := range strings.SplitSeq(err.Error(), "\n") {
				faults = append(faults, fmt.Sprintf("%s (%s): %s", k.Name, from, line))
			}
		}
	}
	for _, r := range rules {
		if slices.ContainsFunc(r.keys, func(name string) bool { return broken[name] }) {
			continue // the values are not what was meant
		}
		if fault := r.fault(c); fault != "" {
			faults = append(faults, fmt.Sprintf("%s: %s", strings.Join(r.keys, ", "), fault))
		}
	}
	if len(faults) > 0 {
		return nil, &Error{faults}
	}
	return c, nil
}

// section says whether the name is one that keys begin with.
func section(name string) bool {
	return slices.ContainsFunc(table, func(k Key) bool { return strings.HasPrefix(k.Name, name+".") })
}

// source says where the value of k comes from.
func source(k Key, file string, flags *pflag.FlagSet) string {
	if flags != nil && flags.Changed(k.Name) {
		return "--" + k.Name
	}
	if os.Getenv(k.Variable()) != "" {
		return k.Variable()
	}
	return filepath.Base(file)
}

func fileFault(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	// The YAML reader's own words, which name the line, without viper's before them.
	_, fault, found := strings.Cut(err.Error(), "yaml: ")
	if !found {
		return err.Error()
	}
	return strings.Join(strings.Fields(fault), " ")
}

// foreign are variables under our prefix that are not ours to judge: what Kubernetes sets for a service called tmpproxy or
// tmpproxy-something, and what belongs to the tests.
var foreign = regexp.MustCompile(`^TMPPROXY_(([A-Z0-9_]+_)?(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)|TEST_.*|SERVERS_DIR)$`)

// unknownVariables returns a fault for every variable under our prefix that no key has.
func unknownVariables(environ []string) []string {
	known := map[string]bool{FileVariable: true}
	for _, k := range table {
		known[k.Variable()] = true
	}
	faults := make(map[string]bool)
	for _, assignment := range environ {
		name, _, _ := strings.Cut(assignment, "=")
		if strings.HasPrefix(name, prefix) && !known[name] && !foreign.MatchString(name) {
			faults[name+": unknown environment variable"] = true
		}
	}
	return slices.Sorted(maps.Keys(faults))
}
