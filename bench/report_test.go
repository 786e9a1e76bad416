package bench

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

// sample is a small report with one of everything.
func sample() *Report {
	results := func(values map[string][]float64) map[string]Result {
		all := make(map[string]Result)
		for key, rounds := range values {
			all[key] = Result{Rounds: rounds}
		}
		return all
	}
	cycle := func(engine, think string, directPair, keepPair []float64) *Cell {
		return &Cell{Workload: "cycles", Metrics: append(cycleMetrics[:1:1], cpuMetric),
			Parameters: []Parameter{{"engine", engine}, {"rows", "10"}, {"think", think}, {"round trip", "0"}, {"between", "0"}},
			Arms: []*Arm{
				{Name: direct, Results: results(map[string][]float64{"pair": directPair})},
				{Name: "keep", Results: results(map[string][]float64{"pair": keepPair, "cpu": {20e-6, 21e-6, 22e-6}})},
				{Name: echo, Results: results(map[string][]float64{"pair": {60e-6, 62e-6, 61e-6}})},
			}}
	}
	r := &Report{
		Began: time.Date(2026, 5, 17, 12, 30, 0, 0, time.UTC), Duration: 83.4,
		Machine: Machine{Processor: "Z80", Processors: 2, Kernel: "CP/M 2.2", Go: "go1.99"},
		Server:  "MySQL 9.7.0", Durable: true, Peers: []string{"HAProxy 3.0"}, Settings: []string{"--relay.loops=2"},
		Rounds: 3, Turn: 0.15, Inform: 3, Delays: []Delay{{Asked: 0.00025, Median: 0.000287, P99: 0.000401}}, Notes: []string{"without MySQL Router: it is <not> there"},
		Cells: []*Cell{
			cycle("MEMORY", "1 ms", []float64{300e-6, 310e-6, 290e-6}, []float64{75e-6, 70e-6, 66e-6}),
			cycle("none", "1 ms", []float64{400e-6, 400e-6, 400e-6}, []float64{320e-6, 240e-6, 280e-6}),
			{Workload: "selects", Parameters: []Parameter{{"connections", "1"}},
				Metrics: []Metric{{Key: "rate", Title: "point selects per second", Unit: PerSecond, Higher: true}},
				Arms: []*Arm{
					{Name: direct, Results: results(map[string][]float64{"rate": {20000, 22000, 21000}})},
					{Name: "innodb", Results: results(map[string][]float64{"rate": {13000, 13200, 12000}})},
					{Name: haproxy, Results: results(map[string][]float64{"rate": {12000, 13200, 12500}})},
				}},
			{Workload: "idle", Parameters: []Parameter{{"sessions", "1000"}},
				Metrics: []Metric{{Key: "memory", Title: "resident memory of the proxy per idle session", Unit: Bytes}},
				Arms:    []*Arm{{Name: "innodb", Results: results(map[string][]float64{"memory": {2048, 2050, 2100}})}}},
		},
	}
	for _, c := range r.Cells {
		c.summarize()
	}
	r.Targets = judge(r)
	return r
}

func golden(t *testing.T, file string, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	path := "testdata/" + file
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s is another; go test -update writes it, then look at the difference. Now it is:\n%s", path, b.String())
	}
	return b.String()
}

func TestWriteText(t *testing.T) { golden(t, "report.txt", sample().WriteText) }

func TestWriteHTML(t *testing.T) {
	text := golden(t, "report.html", sample().WriteHTML)
	if found := regexp.MustCompile(`(?i)https?:|<script|<link|<img|url\(|@import`).FindString(text); found != "" {
		t.Errorf("the page needs something else: %s", found)
	}
	if strings.Contains(text, "<not>") || !strings.Contains(text, "&lt;not&gt;") {
		t.Error("text is not escaped")
	}
	if n := strings.Count(text, "<svg viewBox"); n != 2 { // cycles and selects; a single arm has nothing to be compared with
		t.Errorf("%d plots", n)
	}
}

func TestWriteJSON(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var back Report
	decoder := json.NewDecoder(&b)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&back); err != nil {
		t.Fatal(err)
	}
	keep := back.Cells[0].arm("keep").Results["pair"]
	if len(keep.Rounds) != 3 || keep.Median != 70e-6 || keep.Ratio == nil || math.Abs(keep.Ratio.Value-0.2276) > 1e-3 {
		t.Errorf("keep: %+v", keep)
	}
	if len(back.Targets) != len(targets(false)) || back.Delays[0].Median != 0.000287 {
		t.Errorf("%d targets, delays %v", len(back.Targets), back.Delays)
	}
}

// TestFollow has a second run measure some lines again, and others for the first time.
func TestFollow(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	earlier, err := ReadReport(&b)
	if err != nil {
		t.Fatal(err)
	}
	next := func() *Report {
		s := sample()
		return &Report{Began: s.Began.Add(time.Hour), Machine: s.Machine, Server: s.Server, Durable: s.Durable, Settings: s.Settings}
	}
	r := next()
	if err := r.follow(earlier); err != nil {
		t.Fatal(err)
	}
	again := &Cell{Workload: "selects", Parameters: []Parameter{{"connections", "1"}}}
	first := &Cell{Workload: "selects", Parameters: []Parameter{{"connections", "4"}}}
	between := &Cell{Workload: "connects"}
	if r.same(again) != 2 || r.same(first) != -1 || r.same(between) != -1 {
		t.Errorf("lines are found at %d, %d, %d", r.same(again), r.same(first), r.same(between))
	}
	for _, c := range []*Cell{again, first, between} {
		r.put(c)
	}
	var lines []string
	for _, c := range r.Cells {
		lines = append(lines, c.line())
	}
	if got := strings.Join(lines, "; "); !strings.HasSuffix(got, "; selects connections 1; selects connections 4; connects; idle sessions 1000") || len(lines) != 6 {
		t.Errorf("lines %s", got)
	}
	if r.Cells[2] != again || len(earlier.Cells) != 4 || len(earlier.Cells[2].Arms) == 0 {
		t.Error("the line that was measured again is not in place of the older one, or the earlier report has changed")
	}
	r.delayed(Delay{Asked: 0.00025, Median: 0.000301, P99: 0.000411})
	r.delayed(Delay{Asked: 0.001, Median: 0.0011})
	if want := []Delay{{0.00025, 0.000294, 0.000406, 2}, {0.001, 0.0011, 0, 1}}; len(r.Delays) != 2 || math.Abs(r.Delays[0].Median-want[0].Median) > 1e-9 ||
		math.Abs(r.Delays[0].P99-want[0].P99) > 1e-9 || r.Delays[0].Runs != 2 || r.Delays[1] != want[1] {
		t.Errorf("delays %+v, want %+v", r.Delays, want)
	}
	for want, change := range map[string]func(*Report){
		"another server":  func(r *Report) { r.Server = "MySQL 8.0" },
		"another machine": func(r *Report) { r.Machine.Processors = 64 },
		"other settings":  func(r *Report) { r.Settings = nil },
	} {
		r := next()
		change(r)
		if err := r.follow(earlier); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestJudge compares verdicts with what the sample was made for.
func TestJudge(t *testing.T) {
	verdicts := make(map[string]string)
	for _, result := range judge(sample()) {
		verdicts[strings.Join([]string{result.Work, result.Arm, result.Against, result.Goal}, "|")] = result.Verdict() + "|" + result.Worst
	}
	for target, want := range map[string]string{
		"CREATE + DROP of a parked shape, 1 ms think time|keep|direct|≤ 0.5":                                                  "met in 1 of 2|engine none, rows 10, think 1 ms, round trip 0, between 0",
		"CREATE + DROP of a parked shape, 1 ms think time or ≥ 0.25 ms round trip|keep|echo|≤ 1.15":                           "met in 1 of 2|engine none, rows 10, think 1 ms, round trip 0, between 0",
		"CREATE + DROP of a parked shape, ≥ 0.25 ms round trip|keep|direct|≤ 0.15":                                            "not measured|",
		"CREATE + DROP, MEMORY, 0 to 10 rows, no think time, no round trip|keep|direct|≤ 0.7":                                 "not measured|",
		"point selects per second, connections: 1|innodb|HAProxy|≥ 1":                                                         "met|",
		"point selects per second|innodb|MySQL Router|≥ 1":                                                                    "not measured|",
		"resident memory per idle session|innodb||≤ 3.00 KiB":                                                                 "met|",
		"allocations per relayed command|innodb||= 0":                                                                         "not measured|",
		"whole cycle, every engine and row count, ≥ 0.25 ms round trip|auto|direct|≤ 1.05":                                    "not measured|",
		"resident memory per idle session, TLS|innodb||≤ 40.0 KiB":                                                            "not measured|",
		"RelStorage, 1000 objects: objects per second|innodb|direct|≥ 1.02":                                                   "not measured|",
		"point selects, 99th percentile, connections: 16|innodb|HAProxy|≤ 1":                                                  "not measured|",
		"CREATE + DROP of a parked shape, ≥ 0.25 ms round trip, tight loop (CREATE waits for the reset)|innodb|direct|≤ 0.15": "not measured|",
	} {
		if got, ok := verdicts[target]; !ok || got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
	for _, mariaDB := range []bool{false, true} {
		for _, target := range targets(mariaDB) {
			if target.work == "CREATE + DROP, MEMORY, 0 to 10 rows, no think time, no round trip" && target.limit != map[bool]float64{false: 0.7, true: 0.9}[mariaDB] {
				t.Errorf("MariaDB %v: %s %s", mariaDB, target.work, target.goal())
			}
		}
	}
}

func TestFormatValue(t *testing.T) {
	for _, test := range []struct {
		unit  Unit
		value float64
		want  string
	}{
		{Seconds, 0, "0 s"}, {Seconds, 7.25e-6, "7.25 µs"}, {Seconds, 63e-6, "63.0 µs"}, {Seconds, 280e-6, "280 µs"},
		{Seconds, 0.99951e-3, "1.00 ms"}, {Seconds, 0.0123, "12.3 ms"}, {Seconds, 1.5, "1.50 s"},
		{PerSecond, 12345.6, "12346 /s"}, {Bytes, 512, "512 B"}, {Bytes, 3379, "3.30 KiB"}, {ByteRate, 1 << 30, "1.00 GiB/s"},
		{Count, 0, "0"}, {Count, 0.0123456, "0.0123"},
	} {
		if got := formatValue(test.unit, test.value); got != test.want {
			t.Errorf("%v %s: %q, want %q", test.value, test.unit, got, test.want)
		}
	}
}

func TestAxis(t *testing.T) {
	for _, test := range []struct{ least, most float64 }{{1, 1}, {0.9, 1.1}, {0.05, 1.5}, {0.3, 40}, {0.001, 1000}} {
		a := newAxis(test.least, test.most)
		if len(a.ticks) < 3 || len(a.ticks) > 9 {
			t.Errorf("%v: ticks %v", test, a.ticks)
		}
		one := false
		last := float64(plotLeft) - 1
		for _, value := range a.ticks {
			one = one || value == 1
			x := a.place(value)
			if x <= last || x > plotRight {
				t.Errorf("%v: %v lies at %v, behind %v", test, value, x, last)
			}
			last = x
		}
		if !one {
			t.Errorf("%v: 1 is not marked: %v", test, a.ticks)
		}
		if least, most := a.place(test.least), a.place(test.most); least <= plotLeft || most >= plotRight {
			t.Errorf("%v lies at %v and %v: no room beside", test, least, most)
		}
		if a.place(0) != plotLeft || a.place(1e9) != plotRight {
			t.Errorf("%v: what is beyond lies at %v and %v", test, a.place(0), a.place(1e9))
		}
	}
}
