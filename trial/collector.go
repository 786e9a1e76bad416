package trial

import "github.com/prometheus/client_golang/prometheus"

// collector serves the metrics of the present trial. Its only label is the arm, of which there are eight at most.
type collector struct{ trials *Trials }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tmpproxy_trial_"+name, help, labels, nil)
}

var (
	descRunning  = desc("running", "1 while a trial is running.")
	descSessions = desc("sessions_total", "Sessions that were assigned to an arm of the present trial.", "arm")
	descCycles   = desc("cycles_total", "Cycles of temporary tables that were measured in an arm.", "arm")
	descErrors   = desc("errors_total", "Statements of an arm's sessions that were answered with an error.", "arm")
	descStopped  = desc("arm_stopped", "1 for an arm that the guardrail has stopped.", "arm")
	descRatio    = desc("cycle_time_ratio", "Cycle times of an arm divided by the control's; absent as long as nothing is known.", "arm")
	descLow      = desc("cycle_time_ratio_low", "Lower bound of the ratio, with 95 % confidence at any time.", "arm")
	descHigh     = desc("cycle_time_ratio_high", "Upper bound of the ratio, likewise.", "arm")
)

// Collector returns the metrics of the present trial.
func (t *Trials) Collector() prometheus.Collector { return collector{t} }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRunning, descSessions, descCycles, descErrors, descStopped, descRatio, descLow, descHigh} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v int64, arm string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), arm)
	}
	flag := map[bool]float64{true: 1}
	r := c.trials.sums()
	gauge(descRunning, flag[r != nil && r.State == StateRunning])
	if r == nil {
		return
	}
	for i, a := range r.Arms {
		name := r.Spec.Arms[i].Name
		counter(descSessions, a.Sessions, name)
		counter(descCycles, r.Overall.Cells[i].Cycles, name)
		counter(descErrors, a.Errors, name)
		gauge(descStopped, flag[a.StoppedReason != ""], name)
		if i == r.Spec.control() {
			continue
		}
		if v := r.verdict(r.Overall, i); v.High != nil {
			gauge(descRatio, v.Ratio, name)
			gauge(descLow, v.Low, name)
			gauge(descHigh, *v.High, name)
		}
	}
}

// sums returns a copy of the results without those of shapes, or nil.
func (t *Trials) sums() *Results {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.run == nil {
		return nil
	}
	r := *t.run.results
	r.Shapes, r.History = nil, nil
	return r.copy()
}
