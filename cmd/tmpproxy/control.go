package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"tmpproxy/session"
)

// control puts policies into force: what the settings say, or, once an operator has switched to native, the same with that strategy,
// until the operator switches back or the process ends. A reload does not undo the switch. Safe for concurrent use.
type control struct {
	log   *zap.Logger
	relay relay
	now   func() time.Time

	mu         sync.Mutex
	policy     *session.Policy // as the settings say
	configured string          // its strategy's name
	native     bool            // switched
	since      time.Time       // when the strategy in force changed last
}

// strategyStatus is what /api/status says of the strategy and what a switch answers.
type strategyStatus struct {
	Configured string    `json:"configured"` // by the settings
	InForce    string    `json:"in_force"`
	Switched   bool      `json:"switched"` // to native, by an operator
	Since      time.Time `json:"since"`    // when the strategy in force changed last
}

// newControl begins with the policy that the relay was made with.
func newControl(log *zap.Logger, r relay, p *session.Policy, strategy string) *control {
	return &control{log: log, relay: r, now: time.Now, policy: p, configured: strategy, since: time.Now()}
}

// configure takes over what the settings say now.
func (c *control) configure(p *session.Policy, strategy string) {
	c.change(func() { c.policy, c.configured = p, strategy })
}

// change puts into force what f makes of the state.
func (c *control) change(f func()) strategyStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.status().InForce
	f()
	p := *c.policy
	if c.native {
		p.Strategy, p.Measure, p.Observe = session.StrategyNative, false, nil
	}
	c.relay.SetPolicy(&p)
	if c.status().InForce != before {
		c.since = c.now()
	}
	return c.status()
}

// status is to be called with the lock held.
func (c *control) status() strategyStatus {
	s := strategyStatus{Configured: c.configured, InForce: c.configured, Switched: c.native, Since: c.since}
	if c.native {
		s.InForce = "native"
	}
	return s
}

// Status says what is in force.
func (c *control) Status() strategyStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status()
}

// switchRequest is the body of POST /api/strategy.
type switchRequest struct {
	Strategy string `json:"strategy"` // native or configured
}

// switchTo is the action of /api/strategy.
func (c *control) switchTo(_ context.Context, body json.RawMessage) (any, error) {
	var request switchRequest
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, fmt.Errorf(`{"strategy": "native"} or {"strategy": "configured"} is wanted: %w`, err)
	}
	if request.Strategy != "native" && request.Strategy != "configured" {
		return nil, fmt.Errorf("strategy is native or configured, not %q", request.Strategy)
	}
	s := c.change(func() { c.native = request.Strategy == "native" })
	c.log.Warn("strategy switched by an operator", zap.String("to", request.Strategy), zap.String("strategy", s.InForce))
	return s, nil
}
