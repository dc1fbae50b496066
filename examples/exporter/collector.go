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
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// view is what is stored and therefore may be shown.
type view struct {
	rows     []ledger.Row
	totals   []ledger.Total
	observed map[string]time.Duration
	at       time.Time
	expired  int
	tokens   map[container.Pod]tokens
}

// collector exposes the stored accounts and what the GPUs do now.
type collector struct {
	a           *accountant
	node        string
	source      string
	shown       atomic.Pointer[view]
	storeErrors atomic.Int64
	descs       map[string]*prometheus.Desc
}

func newCollector(a *accountant, node, source string) *collector {
	c := &collector{a: a, node: node, source: source, descs: map[string]*prometheus.Desc{}}
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
	for _, r := range v.rows {
		l := []string{r.GPU, c.node, r.Account.String(), r.Namespace, r.Name, r.Container, mechanismLabel(r.Mechanism), r.Basis.String()}
		o.send(mSeconds, seconds(r.Time), l...)
		o.send(mSecondsLow, seconds(r.Low), l...)
		o.send(mSecondsHigh, seconds(r.High), l...)
		o.send(mEnergy, float64(r.Microjoules)/1e6, l...)
		o.send(mCost, float64(r.Micros), l...)
	}
	for _, t := range v.totals {
		l := []string{t.GPU, c.node, t.Account.String(), t.Namespace}
		o.send(mTotalSeconds, seconds(t.Time), l...)
		o.send(mTotalEnergy, float64(t.Microjoules)/1e6, l...)
		o.send(mTotalCost, float64(t.Micros), l...)
	}
	for _, gpu := range slices.Sorted(maps.Keys(v.observed)) {
		o.send(mObserved, seconds(v.observed[gpu]), gpu, c.node)
	}
	for _, pod := range slices.SortedFunc(maps.Keys(v.tokens), comparePods) {
		t := v.tokens[pod]
		for _, m := range []struct {
			name string
			n    telemetry.Optional[float64]
			kind []string
		}{{mTokens, t.prompt, []string{"prompt"}}, {mTokens, t.generated, []string{"generation"}}, {mGoodLow, t.goodLow, nil}, {mGoodHigh, t.goodHigh, nil}} {
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
	kubelet, daemon, servers, clients := c.a.holders.state()
	if kubelet != notAsked {
		o.send(mAnswers, one(kubelet == answered), c.node, "kubelet")
	}
	if daemon != notAsked {
		o.send(mAnswers, one(daemon == answered), c.node, "mps")
	}
	if daemon == answered {
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

// mechanismLabel is a mechanism's name, or nothing before it is known.
func mechanismLabel(m sharing.Mechanism) string {
	if m == sharing.MechanismNone {
		return ""
	}
	return m.String()
}

// live sends what the GPUs do now.
func (c *collector) live(o out, v *view) {
	a := c.a
	a.mu.Lock()
	defer a.mu.Unlock()
	o.send(mExporterInfo, 1, c.node, c.source, a.basis.String(), a.fast.String())
	o.send(mRefused, float64(a.refused), c.node)
	unknown := map[container.Reason]int{}
	there, mechanisms := map[string]bool{}, map[sharing.Mechanism]bool{}
	for i, d := range a.devs {
		there[d.uuid], mechanisms[d.mechanism] = true, true
		o.send(mUp, one(d.down == ""), d.uuid, d.down)
		o.send(mInfo, 1, d.uuid, c.node, strconv.Itoa(i), d.name, mechanismLabel(d.mechanism), a.basis.String())
		if d.price.Currency() != "" {
			o.send(mPrice, float64(d.price.Micros()), d.uuid, c.node, d.price.Currency())
		}
		for _, g := range []struct {
			name string
			v    interface{ Get() (float64, bool) }
		}{{mWatts, d.watts}, {mMemoryUsed, d.memUsed}, {mMemoryTotal, d.memTotal}} {
			if x, ok := g.v.Get(); ok {
				o.send(g.name, x, d.uuid, c.node)
			}
		}
		if held, slots, known := a.holders.of(func(dev container.Device) bool { return a.fits(d, dev) }); known {
			n := 0
			for _, devices := range held {
				n += len(devices)
			}
			o.send(mHeld, float64(n), d.uuid, c.node)
			if slots > 0 {
				o.send(mSlots, float64(slots), d.uuid, c.node)
			}
		}
		c.tenants(o, d, unknown)
	}
	for _, gpu := range slices.Sorted(maps.Keys(v.observed)) {
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

// tenants sends who has memory on a GPU, and counts the processes of no pod.
func (c *collector) tenants(o out, d *device, unknown map[container.Reason]int) {
	memory, resident := map[container.Pod]float64{}, map[container.Pod]bool{}
	for _, p := range d.listed {
		if m, ok := p.memory.Get(); ok {
			memory[p.pod()] += float64(m)
		}
		switch {
		case p.overhead:
		case p.who.Known():
			resident[p.pod()] = true
		default:
			unknown[p.who.Reason]++
		}
	}
	for _, pod := range slices.SortedFunc(maps.Keys(memory), comparePods) {
		o.send(mMemory, memory[pod], d.uuid, c.node, pod.Namespace, pod.Name, pod.Container)
	}
	o.send(mTenants, float64(len(resident)), d.uuid, c.node)
}

// trapsOf are the traps of a mechanism, by the beginning of their names.
func trapsOf(m sharing.Mechanism) []sharing.Trap {
	prefix := map[sharing.Mechanism]string{sharing.MechanismTimeSlicing: "timeslic", sharing.MechanismMPS: "mps-", sharing.MechanismMIG: "mig-", sharing.MechanismHAMi: "hami-"}[m]
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
