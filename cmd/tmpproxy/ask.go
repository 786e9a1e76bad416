package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"tmpproxy/config"
)

const (
	askTimeout = 30 * time.Second
	maxAnswer  = 64 << 20 // bytes of an answer of a running proxy
)

// ask has a running proxy answer: a GET of the path, or, when question is not nil, a POST of it. The proxy's address and token are
// those of the settings. The answer is decoded into answer, which may be nil.
func ask(ctx context.Context, c *config.Config, path string, question, answer any) error {
	if c.Admin.Address == "" {
		return errors.New("admin.address is none: give the running proxy's")
	}
	token, err := c.AdminToken()
	if err != nil {
		return err
	}
	method, body := http.MethodGet, io.Reader(nil)
	if question != nil {
		text, err := json.Marshal(question)
		if err != nil {
			return err
		}
		method, body = http.MethodPost, bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	// The name is one that every proxy takes for its own; where it listens is the dialler's matter.
	request, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, body)
	if err != nil {
		return err
	}
	if question != nil {
		request.Header.Set("Content-Type", "application/json")
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, config.Network(c.Admin.Address), c.Admin.Address) // without a host it is this machine
	}}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("ask the proxy at %s: %w", c.Admin.Address, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("ask the proxy at %s: %w", c.Admin.Address, err)
	}
	if response.StatusCode != http.StatusOK {
		var told struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(text, &told) != nil || told.Error == "" {
			told.Error = string(bytes.TrimSpace(text))
		}
		return fmt.Errorf("the proxy at %s refuses: %s", c.Admin.Address, told.Error)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("the answer of the proxy at %s: %w", c.Admin.Address, err)
	}
	return nil
}
