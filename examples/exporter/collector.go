// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed" // the table of metrics
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"

	pages "github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// view holds the accounts that are stored and therefore may be shown.
type view struct {
	ledger.View
	at      time.Time
	expired int
}

// collector exposes the stored accounts and the GPUs' present state.
type collector struct {
	a           *ledger.Accountant
	basis       sharing.Basis
	period      time.Duration // between cheap readings, on the accounts' clock
	node        string
	source      string
	dcgm        *dcgm // nil: not read
	objectives  []objective
	shown       atomic.Pointer[view]
	storeErrors atomic.Int64
}

func newCollector(a *ledger.Accountant, basis sharing.Basis, period time.Duration, node, source string) *collector {
	c := &collector{a: a, basis: basis, period: period, node: node, source: source}
	c.shown.Store(&view{})
	return c
}

// amountOf returns the figure of an account that a metric shows.
var amountOf = map[string]func(ledger.Amount) float64{
	"cotenant_gpu_seconds_total":               func(a ledger.Amount) float64 { return seconds(a.Time) },
	"cotenant_gpu_seconds_low_total":           func(a ledger.Amount) float64 { return seconds(a.Low) },
	"cotenant_gpu_seconds_high_total":          func(a ledger.Amount) float64 { return seconds(a.High) },
	"cotenant_gpu_energy_joules_total":         func(a ledger.Amount) float64 { return float64(a.Microjoules) / 1e6 },
	"cotenant_gpu_cost_micros_total":           func(a ledger.Amount) float64 { return float64(a.Micros) },
	"cotenant_gpu_account_seconds_total":       func(a ledger.Amount) float64 { return seconds(a.Time) },
	"cotenant_gpu_account_energy_joules_total": func(a ledger.Amount) float64 { return float64(a.Microjoules) / 1e6 },
	"cotenant_gpu_account_cost_micros_total":   func(a ledger.Amount) float64 { return float64(a.Micros) },
}

// out holds the values of one scrape by metric.
type out map[string][]*dto.Metric

func (o out) send(name string, v float64, labels ...string) {
	m := metricOf(name)
	o[name] = append(o[name], m.value(v, m.pairs(labels...)))
}

// seconds is exact to the nanosecond as far as a float64 goes: 104 days.
func seconds(d time.Duration) float64 {
	return float64(d/time.Second) + float64(d%time.Second)/1e9
}

// families yields the metrics in the order of their list. Only one of those with a
// series per account is in memory at a time.
func (c *collector) families(yield func(*dto.MetricFamily) bool) {
	o, v := out{}, c.shown.Load()
	c.small(o, v)
	rows, totals := make([][]*dto.LabelPair, len(v.Rows)), make([][]*dto.LabelPair, len(v.Totals))
	for i := range metrics {
		m := &metrics[i]
		series := o[m.name]
		value, perRow := amountOf[m.name], slices.Contains(m.labels, "pod")
		for i := 0; value != nil && perRow && i < len(rows); i++ {
			if r := &v.Rows[i]; rows[i] == nil {
				rows[i] = m.pairs(r.GPU, c.node, string(r.Account), r.Namespace, r.Name, r.Container,
					mechanismLabel(r.Mechanism), r.Basis.String())
			}
			series = append(series, m.value(value(v.Rows[i].Amount), rows[i]))
		}
		for i := 0; value != nil && !perRow && i < len(totals); i++ {
			if t := &v.Totals[i]; totals[i] == nil {
				totals[i] = m.pairs(t.GPU, c.node, string(t.Account), t.Namespace)
			}
			series = append(series, m.value(value(v.Totals[i].Amount), totals[i]))
		}
		f := &dto.MetricFamily{Name: &m.name, Help: &m.help, Type: m.kind.Enum(), Metric: series}
		if len(series) > 0 && !yield(f) {
			return
		}
	}
}

// small sends the metrics outside of the accounts.
func (c *collector) small(o out, v *view) {
	for _, gpu := range slices.Sorted(maps.Keys(v.Observed)) {
		o.send("cotenant_gpu_observed_seconds_total", seconds(v.Observed[gpu]), gpu, c.node)
	}
	if !v.at.IsZero() {
		o.send("cotenant_exporter_stored_timestamp_seconds", float64(v.at.UnixMilli())/1e3, c.node)
	}
	o.send("cotenant_exporter_expired_series_total", float64(v.expired), c.node)
	o.send("cotenant_exporter_store_errors_total", float64(c.storeErrors.Load()), c.node)
	now, dcgm := c.a.Status(), sharing.AnswerUnknown
	if c.dcgm != nil {
		dcgm = c.dcgm.state()
	}
	for i, up := range []sharing.Answer{now.Kubelet, dcgm} {
		if up != sharing.AnswerUnknown {
			o.send("cotenant_exporter_source_up", one(up == sharing.AnswerYes), c.node, []string{"kubelet", "dcgm"}[i])
		}
	}
	c.live(o, v, &now)
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// mechanismLabel returns a mechanism's name, or nothing before it is known.
func mechanismLabel(m sharing.Mechanism) string {
	if m == sharing.MechanismNone {
		return ""
	}
	return m.String()
}

// live sends the present figures of the GPUs.
func (c *collector) live(o out, v *view, now *ledger.Status) {
	o.send("cotenant_exporter_info", 1, c.node, c.source, c.basis.String(), c.period.String())
	o.send("cotenant_exporter_refused_postings_total", float64(now.Refused), c.node)
	unknown, pods := map[container.Reason]int{}, map[container.Pod]bool{}
	there := map[string]bool{}
	for i, d := range now.Devices {
		there[d.UUID] = true
		o.send("cotenant_gpu_up", one(d.Down == ""), d.UUID, c.node, d.Down)
		o.send("cotenant_gpu_info", 1, d.UUID, c.node, strconv.Itoa(i), d.Name, mechanismLabel(d.Mechanism), c.basis.String())
		if d.Price.Currency() != "" {
			o.send("cotenant_gpu_price_micros_per_hour", float64(d.Price.Micros()), d.UUID, c.node, d.Price.Currency())
		}
		for _, g := range []struct {
			name string
			v    sharing.Optional[float64]
		}{{"cotenant_gpu_power_watts", d.Watts}, {"cotenant_gpu_memory_used_bytes", d.MemUsed},
			{"cotenant_gpu_memory_total_bytes", d.MemTotal}} {
			if x, ok := g.v.Get(); ok {
				o.send(g.name, x, d.UUID, c.node)
			}
		}
		if d.Stalled != sharing.AnswerUnknown {
			o.send("cotenant_gpu_stalled", one(d.Stalled == sharing.AnswerYes), d.UUID, c.node)
		}
		if n, ok := d.Held.Get(); ok {
			o.send("cotenant_gpu_held_devices", float64(n), d.UUID, c.node)
		}
		if n := d.Slots.Or(0); n > 0 {
			o.send("cotenant_gpu_offered_devices", float64(n), d.UUID, c.node)
		}
		for _, pod := range slices.SortedFunc(maps.Keys(d.Memory), container.Pod.Compare) {
			pods[pod] = true
			o.send("cotenant_gpu_tenant_memory_bytes", d.Memory[pod], d.UUID, c.node, pod.Namespace, pod.Name, pod.Container)
		}
		o.send("cotenant_gpu_resident_tenants", float64(d.Resident), d.UUID, c.node)
		for r, n := range d.Unknown {
			unknown[r] += n
		}
	}
	c.bounds(o, pods)
	for _, gpu := range slices.Sorted(maps.Keys(v.Observed)) {
		if !there[gpu] {
			o.send("cotenant_gpu_up", 0, gpu, c.node, "absent")
		}
	}
	for _, form := range slices.Sorted(maps.Keys(now.UnknownDevices)) {
		o.send("cotenant_exporter_unknown_devices", float64(now.UnknownDevices[form]), c.node, form)
	}
	for _, r := range container.Reasons() {
		o.send("cotenant_exporter_unidentified_processes", float64(unknown[r]), c.node, string(r))
	}
}

// bounds sends the objectives of the pods that are resident.
func (c *collector) bounds(o out, pods map[container.Pod]bool) {
	for _, pod := range slices.SortedFunc(maps.Keys(pods), container.Pod.Compare) {
		for _, b := range c.objectives {
			if pod.Namespace == b.owner.Namespace && pod.Container == b.owner.Container && pod.OwnedBy(b.owner.Name) {
				o.send("cotenant_objective_seconds", b.bound.Seconds(), c.node, pod.Namespace, pod.Name, pod.Container, b.latency)
			}
		}
	}
}

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
