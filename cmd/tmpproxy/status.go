package main

import (
	"time"

	"tmpproxy/proxy"
)

// status is what /api/status says.
type status struct {
	Version  string         `json:"version"`
	Started  time.Time      `json:"started"`
	Uptime   float64        `json:"uptime_seconds"`
	Draining bool           `json:"draining"` // a first signal has come
	Sessions int            `json:"sessions"`
	Strategy strategyStatus `json:"strategy"`
	Trial    string         `json:"trial,omitempty"` // name of the one that is running
	Changes  string         `json:"changes"`         // what they take: see admin.Server.Changes
	Totals   totals         `json:"totals"`          // of all shapes, since the process began
	IOURing  bool           `json:"io_uring"`        // event loops make many writes in one system call
}

// totals sum up the shapes.
type totals struct {
	Cycles int64 `json:"cycles"`
	Reuses int64 `json:"reuses"`
	// Saved is an estimate, of the shapes that have one: see proxy.Saved.
	Saved float64 `json:"saved_seconds"`
}

func total(shapes []proxy.ShapeInfo) (t totals) {
	for i := range shapes {
		t.Cycles += shapes[i].Cycles
		t.Reuses += shapes[i].Reuses
		if s := shapes[i].Saved; s != nil {
			t.Saved += s.Seconds
		}
	}
	return t
}
