package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// kind names a form in the help text.
type kind string

// form is a way to write values of type T. What parse is given comes from the file (a scalar of any YAML type, or a list) or, as
// a string, from a flag, a variable or a default.
type form[T any] struct {
	kind  kind
	parse func(raw any) (T, error)
}

// scalar makes a form of single values.
func scalar[T any](k kind, parse func(string) (T, error)) form[T] {
	return form[T]{k, func(raw any) (T, error) {
		switch raw.(type) {
		case string, bool, int, int64, uint64, float64:
			return parse(strings.TrimSpace(fmt.Sprint(raw)))
		case []any:
			var none T
			return none, errors.New("is a list: one value is wanted")
		default:
			var none T
			return none, errors.New("is not a plain value: one is wanted")
		}
	}}
}

// listOf makes a form of lists, comma-separated where they are given as one string.
func listOf(item form[string]) form[[]string] {
	return form[[]string]{"list", func(raw any) ([]string, error) {
		var items []any
		switch raw := raw.(type) {
		case []any:
			items = raw
		case string:
			if strings.TrimSpace(raw) == "" {
				return nil, nil
			}
			for part := range strings.SplitSeq(raw, ",") {
				items = append(items, part)
			}
		default:
			items = []any{raw}
		}
		var list []string
		var faults []error
		for _, it := range items {
			if s, ok := it.(string); ok && strings.TrimSpace(s) == "" {
				faults = append(faults, errors.New("holds an empty item"))
				continue
			}
			v, err := item.parse(it)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			list = append(list, v)
		}
		return list, errors.Join(faults...)
	}}
}

// text is any string.
var text = scalar("text", func(s string) (string, error) { return s, nil })

// boolean is true or false.
var boolean = scalar("true|false", func(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", s)
})

// oneOf is one of some words, in any case; the value is spelt as here.
func oneOf(words ...string) form[string] {
	return scalar("text", func(s string) (string, error) {
		for _, w := range words {
			if strings.EqualFold(s, w) {
				return w, nil
			}
		}
		return "", fmt.Errorf("%q is none of %s", s, strings.Join(words, ", "))
	})
}

// count is a whole number from least to most.
func count(least, most int) form[int] {
	return scalar("count", func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return 0, fmt.Errorf("%q is not a whole number", s)
		}
		if n < least || n > most {
			return 0, fmt.Errorf("%d is outside %d to %d", n, least, most)
		}
		return n, nil
	})
}

// fraction is a number from least to most.
func fraction(least, most float64) form[float64] {
	return scalar("number", func(s string) (float64, error) {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number such as 0.2", s)
		}
		if !(x >= least && x <= most) {
			return 0, fmt.Errorf("%v is outside %v to %v", x, least, most)
		}
		return x, nil
	})
}

// duration is a time with a unit, at least as long as least.
func duration(least time.Duration) form[time.Duration] {
	return scalar("duration", func(s string) (time.Duration, error) {
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return 0, fmt.Errorf("%q has no unit: write %ss or %sms", s, s, s)
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration such as 500ms, 5s or 10m", s)
		}
		if d < least {
			return 0, fmt.Errorf("%s is shorter than %s", d, least)
		}
		return d, nil
	})
}

// units of sizes, the longer suffix first.
var units = []struct {
	suffix string
	bytes  int
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}}

// size is a number of bytes from least to most, written with a unit.
func size(least, most int) form[int] {
	return scalar("size", func(s string) (int, error) {
		for _, u := range units {
			digits, ok := strings.CutSuffix(s, u.suffix)
			if !ok {
				continue
			}
			n, err := strconv.Atoi(strings.TrimSpace(digits))
			if err != nil {
				break
			}
			if n < 0 || n > most/u.bytes || n*u.bytes < least {
				return 0, fmt.Errorf("%s is outside %s to %s", s, inBytes(least), inBytes(most))
			}
			return n * u.bytes, nil
		}
		if _, err := strconv.Atoi(s); err == nil {
			return 0, fmt.Errorf("%q has no unit: write %sB or %sKiB", s, s, s)
		}
		return 0, fmt.Errorf("%q is not a size such as 512B, 64KiB or 1MiB", s)
	})
}

// inBytes writes a size in the largest unit that divides it.
func inBytes(n int) string {
	best := strconv.Itoa(n) + "B"
	for _, u := range units[:3] {
		if n >= u.bytes && n%u.bytes == 0 {
			best = strconv.Itoa(n/u.bytes) + u.suffix
		}
	}
	return best
}

// listenAddress is where a listener is opened: no host means all interfaces, port 0 any free port.
var listenAddress = scalar("address", func(s string) (string, error) { return s, checkAddress(s, true) })

// dialAddress is what is connected to.
var dialAddress = scalar("address", func(s string) (string, error) { return s, checkAddress(s, false) })

// collector is where something is sent by HTTP; "" for nowhere. Secrets in it would be shown.
var collector = scalar("URL", func(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", errors.New("is not a URL such as http://127.0.0.1:4318/v1/traces, without user and password")
	}
	return s, nil
})

// networkOf is a network, an address, or the word unix.
var networkOf = scalar("network", func(s string) (string, error) {
	if strings.EqualFold(s, "unix") {
		return "unix", nil
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()).String(), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return "", fmt.Errorf("%q is neither a network such as 10.0.0.0/8, nor an address, nor unix", s)
	}
	return p.Masked().String(), nil
})

// optional makes a form whose word none means "".
func optional(f form[string]) form[string] {
	return scalar(f.kind, func(s string) (string, error) {
		if strings.EqualFold(s, "none") {
			return "", nil
		}
		return f.parse(s)
	})
}

// maxSocketPath is the longest path that fits a sockaddr_un with its final zero byte.
const maxSocketPath = 107

func checkAddress(s string, listens bool) error {
	if s == "" {
		return errors.New("is empty: write host:port or the path of a unix socket")
	}
	if Network(s) == "unix" {
		if len(s) > maxSocketPath {
			return fmt.Errorf("%q is longer than a unix socket's path can be (%d bytes)", s, maxSocketPath)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is neither host:port nor the absolute path of a unix socket", s)
	}
	if host == "" && !listens {
		return fmt.Errorf("%q has no host", s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 && !listens {
		return fmt.Errorf("%q has no port from 1 to 65535", s)
	}
	return nil
}
