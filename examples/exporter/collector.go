package main

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/account"
	"github.com/cotenant/cotenant/telemetry/container"
)

// view holds the accounts that are stored and therefore may be shown.
type view struct {
	account.View
	at      time.Time
	expired int
}

// collector exposes the stored accounts and what the GPUs do now.
type collector struct {
	a           *account.Accountant
	basis       sharing.Basis
	period      time.Duration // between cheap readings, on the accounts' clock
	node        string
	source      string
	shown       atomic.Pointer[view]
	storeErrors atomic.Int64
	descs       map[string]*prometheus.Desc
}

func newCollector(a *account.Accountant, basis sharing.Basis, period time.Duration, node, source string) *collector {
	c := &collector{a: a, basis: basis, period: period, node: node, source: source, descs: map[string]*prometheus.Desc{}}
	for _, m := range metrics {
		if m.kind != histogram {
			c.descs[m.name] = prometheus.NewDesc(m.name, m.help, m.labels, nil)
		}
	}
	c.shown.Store(&view{})
	return c
}

// Describe lists the metrics.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range metrics {
		if d := c.descs[m.name]; d != nil {
			ch <- d
		}
	}
}

// out sends values of one scrape.
type out struct {
	c  *collector
	ch chan<- prometheus.Metric
}

func (o out) send(name string, v float64, labels ...string) {
	i := slices.IndexFunc(metrics, func(m metric) bool { return m.name == name })
	t := prometheus.GaugeValue
	if metrics[i].kind == counter {
		t = prometheus.CounterValue
	}
	m, err := prometheus.NewConstMetric(o.c.descs[name], t, v, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(o.c.descs[name], err)
	}
	o.ch <- m
}

// seconds is exact to the nanosecond as far as a float64 goes: 104 days.
func seconds(d time.Duration) float64 {
	return float64(d/time.Second) + float64(d%time.Second)/1e9
}

// Collect sends everything.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	o := out{c, ch}
	v := c.shown.Load()
	for _, r := range v.Rows {
		l := []string{
			r.GPU, c.node, r.Account.String(), r.Namespace, r.Name, r.Container,
			mechanismLabel(r.Mechanism), r.Basis.String(),
		}
		o.send(mSeconds, seconds(r.Time), l...)
		o.send(mSecondsLow, seconds(r.Low), l...)
		o.send(mSecondsHigh, seconds(r.High), l...)
		o.send(mEnergy, float64(r.Microjoules)/1e6, l...)
		o.send(mCost, float64(r.Micros), l...)
	}
	for _, t := range v.Totals {
		l := []string{t.GPU, c.node, t.Account.String(), t.Namespace}
		o.send(mTotalSeconds, seconds(t.Time), l...)
		o.send(mTotalEnergy, float64(t.Microjoules)/1e6, l...)
		o.send(mTotalCost, float64(t.Micros), l...)
	}
	for _, gpu := range slices.Sorted(maps.Keys(v.Observed)) {
		o.send(mObserved, seconds(v.Observed[gpu]), gpu, c.node)
	}
	for _, pod := range slices.SortedFunc(maps.Keys(v.Tokens), compare) {
		t := v.Tokens[pod]
		for _, m := range []struct {
			name string
			n    telemetry.Optional[float64]
			kind []string
		}{
			{mTokens, t.Prompt, []string{"prompt"}}, {mTokens, t.Generated, []string{"generation"}},
			{mGoodLow, t.GoodLow, nil}, {mGoodHigh, t.GoodHigh, nil},
		} {
			if n, ok := m.n.Get(); ok {
				o.send(m.name, n, append([]string{pod.Namespace, pod.Name, pod.Container}, m.kind...)...)
			}
		}
	}
	if !v.at.IsZero() {
		o.send(mStoredAt, float64(v.at.UnixMilli())/1e3, c.node)
	}
	o.send(mSeriesDropped, float64(v.expired), c.node)
	o.send(mStoreErrors, float64(c.storeErrors.Load()), c.node)
	kubelet, daemon, servers, clients := c.a.Sources()
	if kubelet != account.NotAsked {
		o.send(mAnswers, one(kubelet == account.Answered), c.node, "kubelet")
	}
	if daemon != account.NotAsked {
		o.send(mAnswers, one(daemon == account.Answered), c.node, "mps")
	}
	if daemon == account.Answered {
		o.send(mMPSServers, float64(servers), c.node)
		o.send(mMPSClients, float64(clients), c.node)
	}
	c.live(o, v)
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
func (c *collector) live(o out, v *view) {
	o.send(mExporterInfo, 1, c.node, c.source, c.basis.String(), c.period.String())
	o.send(mRefused, float64(c.a.Refused()), c.node)
	unknown := map[container.Reason]int{}
	there, mechanisms := map[string]bool{}, map[sharing.Mechanism]bool{}
	for i, d := range c.a.Devices() {
		there[d.UUID], mechanisms[d.Mechanism] = true, true
		o.send(mUp, one(d.Down == ""), d.UUID, d.Down)
		o.send(mInfo, 1, d.UUID, c.node, strconv.Itoa(i), d.Name, mechanismLabel(d.Mechanism), c.basis.String())
		if d.Price.Currency() != "" {
			o.send(mPrice, float64(d.Price.Micros()), d.UUID, c.node, d.Price.Currency())
		}
		for _, g := range []struct {
			name string
			v    telemetry.Optional[float64]
		}{{mWatts, d.Watts}, {mMemoryUsed, d.MemUsed}, {mMemoryTotal, d.MemTotal}} {
			if x, ok := g.v.Get(); ok {
				o.send(g.name, x, d.UUID, c.node)
			}
		}
		if n, ok := d.Held.Get(); ok {
			o.send(mHeld, float64(n), d.UUID, c.node)
		}
		if n := d.Slots.Or(0); n > 0 {
			o.send(mSlots, float64(n), d.UUID, c.node)
		}
		for _, pod := range slices.SortedFunc(maps.Keys(d.Memory), compare) {
			o.send(mMemory, d.Memory[pod], d.UUID, c.node, pod.Namespace, pod.Name, pod.Container)
		}
		o.send(mTenants, float64(d.Resident), d.UUID, c.node)
		for r, n := range d.Unknown {
			unknown[r] += n
		}
	}
	for _, gpu := range slices.Sorted(maps.Keys(v.Observed)) {
		if !there[gpu] {
			o.send(mUp, 0, gpu, "absent")
		}
	}
	for r := container.ReasonGone; r <= container.ReasonMalformed; r++ {
		o.send(mUnknown, float64(unknown[r]), c.node, r.String())
	}
	for _, m := range slices.Sorted(maps.Keys(mechanisms)) {
		mechanismInfo(o, m)
	}
}

func compare(a, b container.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Container, b.Container))
}

// trapsOf lists the traps of a mechanism, by the beginning of their names.
func trapsOf(m sharing.Mechanism) []sharing.Trap {
	prefix := map[sharing.Mechanism]string{
		sharing.MechanismTimeSlicing: "timeslic", sharing.MechanismMPS: "mps-", sharing.MechanismMIG: "mig-",
		sharing.MechanismHAMi: "hami-",
	}[m]
	var out []sharing.Trap
	for _, t := range sharing.Traps() {
		if prefix != "" && len(t.ID) >= len(prefix) && t.ID[:len(prefix)] == prefix {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b sharing.Trap) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func mechanismInfo(o out, m sharing.Mechanism) {
	if m == sharing.MechanismNone {
		return
	}
	for axis := range sharing.Axis(sharing.AxisCount) {
		o.send(mIsolation, 1, m.String(), axis.String(), sharing.Isolation(m, axis, sharing.ReadingPrimary).Level.String())
	}
	for _, t := range trapsOf(m) {
		o.send(mTrap, 1, m.String(), t.ID, t.Severity.String())
	}
}
