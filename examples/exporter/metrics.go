// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed" // the table of metrics
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	pages "github.com/cotenant/cotenant/examples/internal/page"
)

const counter = dto.MetricType_COUNTER

// metric is a family that the exporter exposes.
type metric struct {
	name, help string
	kind       dto.MetricType
	labels     []string
}

// metricOf returns the metric of a name, which METRICS.md has.
func metricOf(name string) *metric {
	return &metrics[slices.IndexFunc(metrics, func(m metric) bool { return m.name == name })]
}

// pairs returns the metric's labels with their values, as text that can be shown.
func (m *metric) pairs(values ...string) []*dto.LabelPair {
	pairs, out := make([]dto.LabelPair, len(values)), make([]*dto.LabelPair, len(values))
	for i, v := range values {
		v = pages.Show(v)
		pairs[i].Name, pairs[i].Value = &m.labels[i], &v
		out[i] = &pairs[i]
	}
	return out
}

// value returns one series of the metric.
func (m *metric) value(v float64, labels []*dto.LabelPair) *dto.Metric {
	if m.kind == counter {
		return &dto.Metric{Label: labels, Counter: &dto.Counter{Value: &v}}
	}
	return &dto.Metric{Label: labels, Gauge: &dto.Gauge{Value: &v}}
}

//go:embed METRICS.md
var metricsTable string

// metrics are those of METRICS.md, in its order: name, type, labels and help.
var metrics = func() (all []metric) {
	for line := range strings.Lines(metricsTable) {
		cells := strings.Split(strings.TrimSuffix(line, " |\n"), " | ")
		name, ok := strings.CutPrefix(cells[0], "| `")
		if !ok {
			continue
		}
		all = append(all, metric{strings.TrimSuffix(name, "`"), cells[3],
			dto.MetricType(dto.MetricType_value[strings.ToUpper(cells[1])]), strings.Split(cells[2], ", ")})
	}
	return all
}()
