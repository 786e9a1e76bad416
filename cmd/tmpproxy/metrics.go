package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// newRegistry returns a registry that knows the process, the runtime and the build.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	b := thisBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tmpproxy_build_info", Help: "Always 1; the labels say which program runs.",
		ConstLabels: prometheus.Labels{"version": b.Version, "go": b.Go},
	})
	info.Set(1)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), info)
	return registry
}

// reloadMetrics tell how reloads went.
type reloadMetrics struct {
	results    *prometheus.CounterVec
	successful prometheus.Gauge
	time       prometheus.Gauge
}

// newReloadMetrics takes the start for a reload that succeeded.
func newReloadMetrics(registry *prometheus.Registry, began time.Time) *reloadMetrics {
	m := &reloadMetrics{
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tmpproxy_config_reloads_total", Help: "Times that the settings were read again, by result.",
		}, []string{"result"}),
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tmpproxy_config_last_reload_successful", Help: "1 if the settings were valid when they were read last, 0 if the ones before are in force.",
		}),
		time: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tmpproxy_config_last_reload_success_timestamp_seconds", Help: "When valid settings were read last.",
		}),
	}
	m.results.WithLabelValues("success")
	m.results.WithLabelValues("failure")
	m.successful.Set(1)
	m.time.Set(seconds(began))
	registry.MustRegister(m.collectors()...)
	return m
}

func (m *reloadMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.results, m.successful, m.time}
}

func (m *reloadMetrics) note(at time.Time, err error) {
	if err != nil {
		m.results.WithLabelValues("failure").Inc()
		m.successful.Set(0)
		return
	}
	m.results.WithLabelValues("success").Inc()
	m.successful.Set(1)
	m.time.Set(seconds(at))
}

// strategyMetric says which strategy is in force.
type strategyMetric struct {
	inForce func() strategyStatus
	desc    *prometheus.Desc
}

func newStrategyMetric(inForce func() strategyStatus) *strategyMetric {
	return &strategyMetric{inForce, prometheus.NewDesc("tmpproxy_strategy",
		"1 for the strategy that is in force, 0 for the others. Arms of a trial have their own.", []string{"strategy"}, nil)}
}

// Describe is prometheus.Collector's.
func (m *strategyMetric) Describe(to chan<- *prometheus.Desc) { to <- m.desc }

// Collect is prometheus.Collector's.
func (m *strategyMetric) Collect(to chan<- prometheus.Metric) {
	now := m.inForce().InForce
	for name := range strategies {
		value := 0.0
		if name == now {
			value = 1
		}
		to <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, value, name)
	}
}

// seconds is a time as metrics have it.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
