package advice

import "math"

// Took sums up durations.
type Took struct {
	Count   int64   `json:"count"`
	Seconds float64 `json:"seconds"`
}

func (t Took) mean() float64 { return per(t.Seconds, t.Count) }

// per is a / n, 0 of nothing.
func per(a float64, n int64) float64 {
	if n == 0 {
		return 0
	}
	return a / float64(n)
}

// Counts are what was seen of one shape of CREATE TEMPORARY TABLE, and what would have been done with it.
type Counts struct {
	Shape   string `json:"shape"`
	Server  string `json:"server"`  // MySQL or MariaDB
	Engine  string `json:"engine"`  // MEMORY, MyISAM, InnoDB, Aria, other, or default
	Keep    string `json:"keep"`    // why its tables cannot be cached as they are: a reason, or eligible
	Convert string `json:"convert"` // why they cannot be converted: a reason, or eligible; "" if the engine is not one to convert

	Sessions     int64 `json:"sessions"`
	Cycles       int64 `json:"cycles"`
	Undropped    int64 `json:"undropped"`     // of these, those that did not end with a DROP
	Transactions int64 `json:"transactions"`  // of these, those whose CREATE or DROP fell into a transaction or into autocommit=0
	Unordered    int64 `json:"unordered"`     // of these, those with a SELECT from the table that has no ORDER BY
	RolledBack   int64 `json:"rolled_back"`   // of these, those with a ROLLBACK behind writes
	Deadlocks    int64 `json:"deadlocks"`     // of these, those with a deadlock behind writes
	FailedWrites int64 `json:"failed_writes"` // of these, those with an error in a statement that may write several rows
	Names        int64 `json:"names"`         // different ones; beyond a bound those that came back count again
	Commits      int64 `json:"commits"`       // statements outside transactions that write rows of it
	Rows         int64 `json:"rows"`          // inserted, by the OK packets
	MostRows     int64 `json:"most_rows"`     // in one cycle

	Create Took    `json:"create"` // as the server took
	Drop   Took    `json:"drop"`
	Spare  Took    `json:"spare_drop"` // DROPs of a table that was not there
	Use    Took    `json:"use"`        // statements that name the table
	Busy   Took    `json:"busy"`       // all statements of its sessions
	Share  float64 `json:"share"`      // of these statements, the part of this shape: they are divided among the shapes of a session

	Reuses    int64            `json:"reuses"`   // CREATEs that would have been answered from a parked table
	Answered  Took             `json:"answered"` // CREATEs and DROPs that would have been answered by the proxy; the time is the server's
	Emptied   Took             `json:"emptied"`  // those in whose place a TRUNCATE would have been sent
	Resets    int64            `json:"resets"`   // TRUNCATEs that would have been sent behind a DROP's answer
	Checks    int64            `json:"checks"`   // looks at a table before one
	Replays   int64            `json:"replays"`
	Settles   map[string]int64 `json:"settles,omitempty"`   // parked tables that would have been dropped, by reason
	Fallbacks map[string]int64 `json:"fallbacks,omitempty"` // CREATEs that would have been left to the server, by reason
	Taints    map[string]int64 `json:"taints,omitempty"`    // tables that would not have been reused, by reason
	Churned   bool             `json:"churned"`             // it would have been left alone because it is dropped oftener than reused

	// Gaps are the times from a DROP's answer to the next statement that would have been sent: Gaps[i] of less than 2^i µs.
	Gaps []int64 `json:"gaps"`
}

// Assumptions are what the figures rest on besides the counts.
type Assumptions struct {
	Hop   float64 `json:"hop"`    // seconds by which the proxy makes one statement slower, whoever answers it; 0: not known
	HopBy string  `json:"hop_by"` // ByStatements or ByEcho
}

// How Assumptions.Hop was found.
const (
	ByStatements = "statements" // with statements of the monitor account, directly and through the proxy
	ByEcho       = "echo"       // with bytes over loopback, and a factor
)

// Estimate is what a strategy would gain, in seconds that clients wait less. Negative: they wait longer.
type Estimate struct {
	Reset float64 `json:"reset"` // of one table: a factor of this package times its CREATE and DROP
	Saved float64 `json:"saved"` // per cycle, before the proxy's own cost
	Cost  float64 `json:"cost"`  // of the proxy per cycle: one hop for each statement of the session
	Gain  float64 `json:"gain"`  // Saved - Cost
	Part  float64 `json:"part"`  // Gain, of all the time that these sessions wait for the server
}

// Advice is what is said of one shape.
type Advice struct {
	Counts
	PerSession float64   `json:"cycles_per_session"`
	DDL        float64   `json:"ddl"`                 // share of the sessions' time that goes into CREATE and DROP
	Statements float64   `json:"statements"`          // of the sessions, per cycle
	BreakEven  float64   `json:"break_even"`          // statements per cycle up to which it gains, with the better strategy; 0: it never does
	AsKept     *Estimate `json:"as_kept,omitempty"`   // strategy keep; nil: not possible
	AsInnoDB   *Estimate `json:"as_innodb,omitempty"` // strategy innodb, but for what InnoDB does to the statements between; nil: not possible, or the same
	Choice     string    `json:"choice"`              // keep, innodb, trial: only a trial can tell, none, or unknown: too little was seen
	Sentence   string    `json:"sentence"`            // in plain words
}

// enough is the number of cycles from which on anything is said about times.
const enough = 20

// factors are how long a TRUNCATE takes, as a part of a CREATE and a DROP of the engine together: medians of 400 cycles with 1 and 10 rows
// on MySQL 9.7 and MariaDB 10.11, round trips over loopback included.
var factors = map[string]struct{ kept, converted map[string]float64 }{
	"MySQL": {
		kept:      map[string]float64{"MEMORY": 0.51, "InnoDB": 0.62, "default": 0.62, "MyISAM": 0.96},
		converted: map[string]float64{"MEMORY": 0.81, "MyISAM": 0.53},
	},
	"MariaDB": {
		kept:      map[string]float64{"MEMORY": 0.36, "InnoDB": 0.51, "default": 0.51, "MyISAM": 0.24, "Aria": 0.29},
		converted: map[string]float64{"MEMORY": 0.72, "MyISAM": 0.37, "Aria": 0.32},
	},
}

const eligible = "eligible"

// Advise says what is to be said of a shape.
func Advise(c Counts, a Assumptions) Advice {
	v := Advice{Counts: c, PerSession: per(float64(c.Cycles), c.Sessions), Statements: c.Share / math.Max(1, float64(c.Cycles))}
	if c.Busy.Seconds > 0 {
		v.DDL = (c.Create.Seconds + c.Drop.Seconds + c.Spare.Seconds) / c.Busy.Seconds
	}
	f := factors[c.Server]
	if c.Cycles > 0 {
		if c.Keep == eligible {
			v.AsKept = c.estimate(f.kept[c.Engine], a)
		}
		if c.Convert == eligible {
			v.AsInnoDB = c.estimate(f.converted[c.Engine], a)
		}
	}
	if best := v.best(); best != nil && a.Hop > 0 {
		v.BreakEven = math.Max(0, best.Saved/a.Hop)
	}
	v.judge()
	return v
}

// best is the estimate of the strategy that gains more.
func (v *Advice) best() *Estimate {
	switch {
	case v.AsKept == nil:
		return v.AsInnoDB
	case v.AsInnoDB == nil || v.AsKept.Gain >= v.AsInnoDB.Gain:
		return v.AsKept
	}
	return v.AsInnoDB
}

// estimate is what a strategy would gain if a reset takes factor times a CREATE and a DROP.
func (c *Counts) estimate(factor float64, a Assumptions) *Estimate {
	e := &Estimate{Reset: factor * (c.Create.mean() + c.Drop.mean())}
	saved := c.Answered.Seconds + c.Emptied.Seconds - float64(c.Emptied.Count)*e.Reset
	// What is sent in the background is waited for by the next statement, as far as it comes too soon.
	reset := e.Reset
	if c.Resets > 0 {
		reset += c.Drop.mean() * float64(c.Checks) / float64(c.Resets)
	}
	for i, n := range c.Gaps {
		saved -= float64(n) * math.Max(0, reset-gap(i))
	}
	// Tables that are dropped after all, and what is sent to restore diagnostics, are waited for.
	saved -= float64(sum(c.Settles)+c.Replays) * c.Drop.mean()
	e.Saved = saved / float64(c.Cycles)
	e.Cost = a.Hop * c.Share / float64(c.Cycles)
	e.Gain = e.Saved - e.Cost
	if c.Busy.Seconds > 0 {
		e.Part = e.Gain * float64(c.Cycles) / c.Busy.Seconds
	}
	return e
}

// gap is the length of the gaps in bucket i, in seconds.
func gap(i int) float64 {
	if i == 0 {
		return 0
	}
	return 0.75e-6 * float64(uint64(1)<<i)
}

func sum(m map[string]int64) int64 {
	n := int64(0)
	for _, k := range m {
		n += k
	}
	return n
}

// most is the key with the highest number, and that number.
func most(m map[string]int64) (string, int64) {
	key, n := "", int64(0)
	for k, i := range m {
		if i > n || i == n && k < key {
			key, n = k, i
		}
	}
	return key, n
}
