package bench

import (
	"fmt"
	"slices"
	"strings"

	"tmpproxy/bench/statistics"
)

// A TargetResult says whether what the project has set itself was reached in this run.
type TargetResult struct {
	Work    string  `json:"work"`
	Arm     string  `json:"arm"`
	Against string  `json:"against"` // empty for an absolute value
	Goal    string  `json:"goal"`
	Cells   int     `json:"cells"` // that the target is about and that were measured
	Met     int     `json:"met"`   // of them
	Worst   string  `json:"worst"` // the cell that is furthest from the goal, when there are several
	Value   float64 `json:"value"` // there
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Unit    Unit    `json:"unit"` // of the values; 1 for a ratio
}

// Verdict says it in words.
func (t *TargetResult) Verdict() string {
	switch {
	case t.Cells == 0:
		return "not measured"
	case t.Met == t.Cells:
		return "met"
	case t.Cells == 1:
		return "not met"
	}
	return fmt.Sprintf("met in %d of %d", t.Met, t.Cells)
}

type interval = statistics.Interval

// A target is something that is to hold in every cell that it is about.
type target struct {
	work     string
	workload string
	about    func(*Cell) bool // nil: all cells of the workload
	metric   string
	arm      string
	against  string // an arm; empty: the value itself counts
	limit    float64
	atLeast  bool // the limit is a lower one
	unit     Unit // of the value
	slack    float64
}

func (t *target) goal() string {
	sign, value := "≤", fmt.Sprintf("%g", t.limit)
	if t.atLeast {
		sign = "≥"
	}
	if t.against == "" {
		value = formatValue(t.unit, t.limit)
		if t.limit == 0 {
			sign, value = "=", "0"
		}
	}
	return strings.TrimSpace(sign + " " + value)
}

// judge compares a report with the targets.
func judge(r *Report) []TargetResult {
	var results []TargetResult
	for _, t := range targets(r.MariaDB) {
		results = append(results, t.judge(r))
	}
	// What was not measured comes last.
	slices.SortStableFunc(results, func(a, b TargetResult) int { return min(b.Cells, 1) - min(a.Cells, 1) })
	return results
}

func (t *target) judge(r *Report) TargetResult {
	result := TargetResult{Work: t.work, Arm: t.arm, Against: t.against, Goal: t.goal(), Unit: t.unit}
	if t.against != "" {
		result.Unit = Count
	}
	var worst *Cell
	for _, c := range r.of(t.workload) {
		if t.about != nil && !t.about(c) {
			continue
		}
		value, ok := t.measured(c)
		if !ok {
			continue
		}
		result.Cells++
		met := value.Value <= t.limit+t.slack
		worse := value.Value > result.Value
		if t.atLeast {
			met, worse = value.Value >= t.limit, value.Value < result.Value
		}
		if met {
			result.Met++
		}
		if worst == nil || worse {
			worst = c
			result.Value, result.Low, result.High = value.Value, value.Low, value.High
		}
	}
	if result.Cells > 1 {
		result.Worst = describe(worst)
	}
	return result
}

func (t *target) measured(c *Cell) (interval, bool) {
	if t.against != "" {
		return c.ratio(t.metric, t.arm, t.against)
	}
	a := c.arm(t.arm)
	if a == nil || len(a.Results[t.metric].Rounds) == 0 {
		return interval{}, false
	}
	r := a.Results[t.metric]
	return interval{Value: r.Median, Low: slices.Min(r.Rounds), High: slices.Max(r.Rounds)}, true
}

// decided says whether all of an interval is on one side of the limit.
func (t *target) decided(i interval) bool {
	return i.High <= t.limit+t.slack || i.Low > t.limit+t.slack
}

// is returns what tells cells by a parameter.
func is(name string, values ...string) func(*Cell) bool {
	return func(c *Cell) bool { return slices.Contains(values, c.parameter(name)) }
}

func not(f func(*Cell) bool) func(*Cell) bool { return func(c *Cell) bool { return !f(c) } }

func all(fs ...func(*Cell) bool) func(*Cell) bool {
	return func(c *Cell) bool {
		for _, f := range fs {
			if !f(c) {
				return false
			}
		}
		return true
	}
}

func either(a, b func(*Cell) bool) func(*Cell) bool {
	return func(c *Cell) bool { return a(c) || b(c) }
}

// targets are what the project has set itself on a server of that kind.
func targets(mariaDB bool) []target {
	var (
		think     = not(is("think", "0"))
		noThink   = is("think", "0")
		tight     = all(noThink, is("between", "0")) // the next CREATE comes right behind the DROP
		far       = not(is("round trip", "0"))
		near      = is("round trip", "0")
		memory    = is("engine", "MEMORY")
		few       = is("rows", "0", "1", "10")
		strategic = []string{"innodb", "keep", "auto"}
	)
	onMariaDB := func(mysql, maria float64) float64 {
		if mariaDB {
			return maria
		}
		return mysql
	}
	var list []target
	for _, arm := range strategic {
		parked := func(c *Cell) bool {
			switch {
			case arm == "auto": // may have chosen native, which parks nothing
				return memory(c) && few(c)
			case arm == "keep" && !mariaDB: // leaves MyISAM to the server there
				return !is("engine", "MyISAM")(c)
			}
			return true
		}
		list = append(list,
			target{work: "CREATE + DROP of a parked shape, 1 ms think time or ≥ 0.25 ms round trip", workload: "cycles", about: all(parked, either(think, far), not(tight)),
				metric: "pair", arm: arm, against: echo, limit: 1.15},
			target{work: "CREATE + DROP of a parked shape, 1 ms think time", workload: "cycles", about: all(parked, think, near),
				metric: "pair", arm: arm, against: direct, limit: 0.5},
			target{work: "CREATE + DROP of a parked shape, ≥ 0.25 ms round trip", workload: "cycles", about: all(parked, far, not(tight)),
				metric: "pair", arm: arm, against: direct, limit: 0.15},
			target{work: "CREATE + DROP of a parked shape, ≥ 0.25 ms round trip, tight loop (CREATE waits for the reset)", workload: "cycles", about: all(parked, far, tight),
				metric: "pair", arm: arm, against: direct, limit: 0.15},
		)
	}
	list = append(list, target{work: "CREATE + DROP, MEMORY, 0 to 10 rows, no think time, no round trip", workload: "cycles", about: all(memory, few, tight, near),
		metric: "pair", arm: "keep", against: direct, limit: onMariaDB(0.7, 0.9)})
	for _, arm := range []string{"keep", "auto"} {
		list = append(list,
			target{work: "whole cycle, MEMORY, 0 to 10 rows, no round trip", workload: "cycles", about: all(memory, few, near),
				metric: "cycle", arm: arm, against: direct, limit: onMariaDB(0.8, 1)},
			target{work: "whole cycle, MEMORY, 0 to 10 rows, 0.25 ms round trip", workload: "cycles", about: all(memory, few, is("round trip", "0.25 ms")),
				metric: "cycle", arm: arm, against: direct, limit: 0.6},
		)
	}
	list = append(list,
		target{work: "whole cycle, every engine and row count", workload: "cycles", metric: "cycle", arm: "auto", against: "native", limit: 1.05},
		target{work: "whole cycle, every engine and row count, ≥ 0.25 ms round trip", workload: "cycles", about: far,
			metric: "cycle", arm: "auto", against: direct, limit: 1.05},
	)
	for _, arm := range []string{"innodb", "auto", "innodb" + scanSuffix, "auto" + scanSuffix} {
		for _, goal := range []struct {
			objects string
			limit   float64
		}{{"10", 1.30}, {"100", 1.10}, {"1000", 1.02}} {
			list = append(list, target{work: "RelStorage, " + goal.objects + " objects: objects per second", workload: "relstorage", about: is("objects", goal.objects),
				metric: "objects", arm: arm, against: direct, limit: goal.limit, atLeast: true})
		}
	}
	const passing = "innodb"
	for _, goal := range []struct {
		connections string
		limit       float64
	}{{"1", 1.00}, {"4", 1.05}, {"16", 1.10}} {
		about := is("connections", goal.connections)
		list = append(list,
			target{work: "point selects per second, connections: " + goal.connections, workload: "selects", about: about,
				metric: "rate", arm: passing, against: haproxy, limit: goal.limit, atLeast: true},
			target{work: "point selects, 99th percentile, connections: " + goal.connections, workload: "selects", about: about,
				metric: "p99", arm: passing, against: haproxy, limit: 1},
		)
	}
	return append(list,
		target{work: "point selects per second, TLS on both legs", workload: "tls", metric: "rate", arm: passing, against: router, limit: 1, atLeast: true},
		target{work: "resident memory per idle session, TLS", workload: "idle-tls", metric: "memory", arm: passing, limit: 40 << 10, unit: Bytes},
		target{work: "point selects per second", workload: "selects", metric: "rate", arm: passing, against: router, limit: 1, atLeast: true},
		target{work: "long result, bytes per second", workload: "result", metric: "rate", arm: passing, against: haproxy, limit: 0.97, atLeast: true},
		target{work: "connect, select, disconnect", workload: "connects", metric: "latency", arm: passing, against: router, limit: 1.1},
		target{work: "resident memory per idle session", workload: "idle", metric: "memory", arm: passing, limit: 3 << 10, unit: Bytes},
		target{work: "allocations per relayed command", workload: "selects", metric: "allocations", arm: passing, limit: 0, unit: Count,
			slack: 0.05}, // what else the process does meanwhile
	)
}
