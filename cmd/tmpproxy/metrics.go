package main

import (
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

func newReloads(registry *prometheus.Registry) *prometheus.CounterVec {
	reloads := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tmpproxy_config_reloads_total", Help: "Times that the settings were read again, by result.",
	}, []string{"result"})
	reloads.WithLabelValues("success")
	reloads.WithLabelValues("failure")
	registry.MustRegister(reloads)
	return reloads
}
