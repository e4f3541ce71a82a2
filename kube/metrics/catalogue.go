package metrics

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is one that Berth serves: what docs/metrics.md, rules and boards may name.
type Metric struct {
	Name   string
	Type   string // counter, gauge or histogram
	Labels []string
	Help   string
	desc   *prometheus.Desc
}

// catalogue has every metric by name. It is filled by the declarations of this package and not written to later.
var catalogue = make(map[string]Metric)

// declared notes a metric. That one of its name was declared before is an error in Berth.
func declared(m Metric) Metric {
	if _, twice := catalogue[m.Name]; twice {
		panic("metric " + m.Name + " is declared twice")
	}
	m.desc = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	catalogue[m.Name] = m
	return m
}

func gauge(name, help string, labels ...string) Metric {
	return declared(Metric{Name: "berth_" + name, Type: "gauge", Help: help, Labels: labels})
}

func counter(name, help string, labels ...string) Metric {
	return declared(Metric{Name: "berth_" + name, Type: "counter", Help: help, Labels: labels})
}

func histogram(name, help string, labels ...string) Metric {
	return declared(Metric{Name: "berth_" + name, Type: "histogram", Help: help, Labels: labels})
}

func (m *Metric) opts() prometheus.Opts { return prometheus.Opts{Name: m.Name, Help: m.Help} }

func (m *Metric) counts() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts(m.opts()), m.Labels)
}

func (m *Metric) observes(buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: buckets}, m.Labels)
}

// Catalogue is every metric of this package, by name.
func Catalogue() []Metric {
	var out []Metric
	for _, name := range slices.Sorted(maps.Keys(catalogue)) {
		out = append(out, catalogue[name])
	}
	return out
}

// Series are the names that samples of the metric have.
func (m *Metric) Series() []string {
	if m.Type == "histogram" {
		return []string{m.Name + "_bucket", m.Name + "_count", m.Name + "_sum"}
	}
	return []string{m.Name}
}

// Table is the catalogue as docs/metrics.md has it.
func Table() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range Catalogue() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, strings.Join(m.Labels, ", "), m.Help)
	}
	return b.String()
}
