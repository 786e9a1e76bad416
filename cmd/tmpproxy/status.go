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
	Totals   totals         `json:"totals"` // of all shapes, since the process began
}

// totals sum up the shapes.
type totals struct {
	Cycles int64 `json:"cycles"`
	Reuses int64 `json:"reuses"`
}

func total(shapes []proxy.ShapeInfo) (t totals) {
	for i := range shapes {
		t.Cycles += shapes[i].Cycles
		t.Reuses += shapes[i].Reuses
	}
	return t
}
