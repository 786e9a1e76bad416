package trial

import "time"

// States of a trial.
const (
	StateNone    = "none"    // there is no trial
	StateRunning = "running" // sessions are assigned and measured
	StateStopped = "stopped" // the results stand; all sessions are treated as the settings say
)

// How sessions are assigned to arms.
const (
	AssignRandom = "random" // each session by chance
	AssignUser   = "user"   // by a hash of the login's user: all sessions of a user are in one arm
	AssignSchema = "schema" // by a hash of the schema chosen in the login
	AssignHost   = "host"   // by a hash of the client's host
)

// Spec is what a trial is started with: the body of POST /api/trial/start.
type Spec struct {
	Name       string    `json:"name"` // letters, digits, '-' and '_'; names the file of its results
	Arms       []ArmSpec `json:"arms"` // two to eight; the first native one, else the first, is the control
	Assignment string    `json:"assignment,omitempty"`
	Guardrail  float64   `json:"guardrail,omitempty"` // 0.2: an arm whose cycles take more than 1.2 times the control's is stopped; 0: the setting's
}

// ArmSpec is one way to treat sessions.
type ArmSpec struct {
	Name     string  `json:"name"`
	Strategy string  `json:"strategy"`         // native, keep, innodb or auto
	Reset    string  `json:"reset,omitempty"`  // truncate or auto; "": as the settings say
	Weight   float64 `json:"weight,omitempty"` // share of sessions, relative to the other arms'; 0 means 1
}

// Change is the body of POST /api/trial/change: weights by the names of arms. It counts for sessions to come. A weight of 0 ends the
// assignment to an arm.
type Change struct {
	Weights map[string]float64 `json:"weights"`
}

// Report is the answer of GET /api/trial, and of the POST requests. All times are in seconds.
type Report struct {
	Name       string        `json:"name"`
	State      string        `json:"state"`
	Started    *time.Time    `json:"started,omitempty"`
	Stopped    *time.Time    `json:"stopped,omitempty"`
	Assignment string        `json:"assignment"`
	Guardrail  float64       `json:"guardrail"`
	Control    string        `json:"control"`    // the arm that the others are compared with
	Overridden bool          `json:"overridden"` // rewrite.strategy is native: all sessions are left alone and none is measured
	Arms       []ArmReport   `json:"arms"`
	Shapes     []ShapeReport `json:"shapes"`  // the most cycles first
	Overall    ShapeReport   `json:"overall"` // all shapes together; its Shape is ""
	History    []Point       `json:"history"` // of the overall verdicts
	Note       string        `json:"note,omitempty"`
}

// ArmReport is an arm as a whole.
type ArmReport struct {
	Name          string     `json:"name"`
	Strategy      string     `json:"strategy"`
	Reset         string     `json:"reset"`
	Weight        float64    `json:"weight"`
	Sessions      int64      `json:"sessions"` // that were assigned
	Cycles        int64      `json:"cycles"`
	Errors        int64      `json:"errors"`                   // statements of all kinds that were answered with an error
	Statements    Latency    `json:"statements"`               // of all kinds
	StoppedReason string     `json:"stopped_reason,omitempty"` // the guardrail's: its sessions are left alone
	StoppedAt     *time.Time `json:"stopped_at,omitempty"`
}

// Latency sums up durations.
type Latency struct {
	Count  int64   `json:"count"`
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
}

// ShapeReport compares the arms in the cycles of one shape.
type ShapeReport struct {
	Shape    string     `json:"shape"`
	Arms     []ShapeArm `json:"arms"`
	Verdicts []Verdict  `json:"verdicts"`
}

// ShapeArm is what an arm's sessions spent in the cycles of a shape.
type ShapeArm struct {
	Arm        string       `json:"arm"`
	Cycles     int64        `json:"cycles"`
	Sessions   int64        `json:"sessions"` // that count in the verdict
	Median     float64      `json:"median"`   // of a cycle: CREATE, DROP and the statements that name the table
	P99        float64      `json:"p99"`
	Create     float64      `json:"create"` // means per cycle
	Drop       float64      `json:"drop"`
	Statements float64      `json:"statements"`
	Reset      float64      `json:"reset"`     // work in the background, which no client waits for by itself
	Reused     int64        `json:"reused"`    // cycles whose table was there already
	Errors     int64        `json:"errors"`    // of the statements that name the table
	Rows       uint64       `json:"rows"`      // changed by them
	Histogram  [][2]float64 `json:"histogram"` // [upper bound, cycles], ascending, empty ones left out
}

// Verdict compares an arm's cycle times with the control's.
type Verdict struct {
	Arm      string   `json:"arm"`
	Against  string   `json:"against"`
	Ratio    float64  `json:"ratio"`    // of cycle times: 0.8 means that the arm's take 20 % less; 0: not known yet
	Low      float64  `json:"low"`      // bounds of Ratio that hold at any time together with those of all times before, with 95 % confidence
	High     *float64 `json:"high"`     // null: none yet
	Sessions int64    `json:"sessions"` // that it rests on, of both arms
	Words    string   `json:"words"`
}

// Point is an overall verdict at some time.
type Point struct {
	At      time.Time `json:"at"`
	Arm     string    `json:"arm"`
	Against string    `json:"against"`
	Ratio   float64   `json:"ratio"`
	Low     float64   `json:"low"`
	High    float64   `json:"high"`
}
