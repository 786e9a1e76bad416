package config

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
)

// headerName is a token of RFC 9110, headerValue what is safe in a field's value.
var (
	headerName  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	headerValue = regexp.MustCompile(`^[ -~\t]+$`)
)

// ownHeaders are set by what sends spans.
var ownHeaders = []string{"Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Connection", "Host"}

// TracingHeaders reads the headers of requests to the collector, one "Name: value" a line; empty lines and those that begin with # are
// passed over. It is nil if no file is named. Errors name lines and no values: they are secrets.
func (c *Config) TracingHeaders() (http.Header, error) {
	if c.Tracing.HeadersFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.Tracing.HeadersFile)
	if err != nil {
		return nil, fmt.Errorf("read the headers: %w", err)
	}
	headers := make(http.Header)
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !headerName.MatchString(name) || !headerValue.MatchString(value) {
			return nil, fmt.Errorf("line %d of %s is not of the form Name: value, in ASCII", i+1, c.Tracing.HeadersFile)
		}
		if name = http.CanonicalHeaderKey(name); slices.Contains(ownHeaders, name) {
			return nil, fmt.Errorf("line %d of %s: %s cannot be chosen", i+1, c.Tracing.HeadersFile, name)
		}
		headers.Add(name, value)
	}
	return headers, nil
}

// tracingWarnings are about headers that others may read.
func (c *Config) tracingWarnings() []string {
	if c.Tracing.HeadersFile == "" {
		return nil
	}
	var warnings []string
	if info, err := os.Stat(c.Tracing.HeadersFile); err == nil && info.Mode().Perm()&0o077 != 0 {
		warnings = append(warnings, fmt.Sprintf("%s holds secrets and can be read by others than its owner (%v)", c.Tracing.HeadersFile, info.Mode().Perm()))
	}
	if to, err := url.Parse(c.Tracing.Endpoint); err == nil && to.Scheme == "http" && !local(net.JoinHostPort(to.Hostname(), to.Port())) {
		warnings = append(warnings, fmt.Sprintf("tracing.endpoint %s has no TLS: the headers of tracing.headers_file can be read on their way", c.Tracing.Endpoint))
	}
	return warnings
}
