// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"errors"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// Digest summarizes a sampling while it runs, in memory that grows only with changes of state. It is a Sink. Its own
// methods must not be called during the sampling; those of Latest may.
type Digest struct {
	*Latest
	idle   *idleDetector
	energy *energyMeter
	devs   []digestDevice
	events []Event
	last   time.Duration
	begun  bool
}

type digestDevice struct {
	sum      [metricEnd]float64
	n        [metricEnd]int
	throttle sharing.Optional[Throttle]
	ever     Throttle
}

// NewDigest returns a Digest that detects idleness by opts.
func NewDigest(opts IdleOptions) *Digest {
	return &Digest{Latest: new(Latest), idle: &idleDetector{opts: opts}, energy: new(energyMeter)}
}

// Begin starts the digest anew. The error names invalid options of NewDigest.
func (d *Digest) Begin(h Header) error {
	d.devs, d.events, d.last, d.begun = make([]digestDevice, len(h.Devices)), nil, 0, true
	return errors.Join(d.Latest.Begin(h), d.idle.Begin(h), d.energy.Begin(h))
}

// Sample adds a sample.
func (d *Digest) Sample(x *Sample) error {
	if err := errors.Join(d.Latest.Sample(x), d.idle.Sample(x), d.energy.Sample(x)); err != nil {
		return err
	}
	dev := &d.devs[x.Device]
	for m, v := range x.all() {
		dev.sum[m] += v
		dev.n[m]++
	}
	if t, ok := x.Throttle.Get(); ok {
		dev.throttle = x.Throttle
		dev.ever = dev.ever.with(t)
	}
	d.last = x.At
	return nil
}

const maxEvents = 1000 // that a Digest keeps

// Event records an event; beyond a maximum number events are dropped.
func (d *Digest) Event(e Event) error {
	if len(d.events) < maxEvents {
		d.events = append(d.events, e)
	}
	return d.Latest.Event(e)
}

// Throttle returns the newest reasons that hold a device's clocks down.
func (d *Digest) Throttle(device int) (t sharing.Optional[Throttle]) {
	if device >= 0 && device < len(d.devs) {
		t = d.devs[device].throttle
	}
	return t
}

// Idle returns the idle time of a device so far.
func (d *Digest) Idle(device int) (IdleReport, error) { return d.idle.Report(device) }

// Report summarizes a sampling.
type Report struct {
	Source    ReaderInfo     `json:"source"`
	Start     time.Time      `json:"start"`
	DurationS float64        `json:"duration_s"`
	GPUs      []DeviceReport `json:"gpus"`
	// Policies holds the recovery by each policy given to Digest.Report.
	Policies []Recovery        `json:"policies"`
	Events   []Event           `json:"events,omitempty"`
	Sources  sharing.Citations `json:"sources,omitzero"` // of the policies
}

// DeviceReport summarizes one device.
type DeviceReport struct {
	Index  int    `json:"index"`
	Device Device `json:"device"`
	// Means holds the means of the readings, by metric, without counters.
	Means        map[Metric]float64 `json:"means"`
	HoursByState map[State]float64  `json:"hours_by_state"`
	KWhByState   map[State]float64  `json:"kwh_by_state"`
	Verdict      string             `json:"verdict"` // IdleReport.verdict
	Energy       Energy             `json:"energy"`
	Throttled    Throttle           `json:"throttled"` // all reasons seen
}

const joulesPerKWh = 3.6e6

// Report returns the report of the samples so far. Before Begin it fails.
func (d *Digest) Report(policies ...ReapPolicy) (*Report, error) {
	if !d.begun {
		return nil, errNotBegun
	}
	rep := &Report{
		Source: d.h.Info, Start: d.h.Start.UTC(), DurationS: d.last.Seconds(),
		Events: d.events, Policies: []Recovery{},
	}
	var idle []IdleReport
	for i, dev := range d.h.Devices {
		r, errIdle := d.idle.Report(i)
		e, errEnergy := d.energy.Energy(i)
		if err := errors.Join(errIdle, errEnergy); err != nil {
			return nil, err
		}
		idle = append(idle, r)
		g := DeviceReport{
			Index: i, Device: dev, Verdict: r.verdict(), Energy: e, Throttled: d.devs[i].ever.with(""),
			Means: map[Metric]float64{}, HoursByState: map[State]float64{}, KWhByState: map[State]float64{},
		}
		for m, n := range d.devs[i].n {
			if metric := Metric(m); n > 0 && metric != MetricEnergyJoules {
				g.Means[metric] = d.devs[i].sum[m] / float64(n)
			}
		}
		for _, s := range States() {
			if t := r.Total(s); t > 0 {
				g.HoursByState[s] = t.Hours()
			}
			if j, ok := r.joules(s).Get(); ok {
				g.KWhByState[s] = j / joulesPerKWh
			}
		}
		rep.GPUs = append(rep.GPUs, g)
	}
	for _, p := range policies {
		r, err := p.Recoverable(idle)
		if err != nil {
			return nil, err
		}
		rep.Policies = append(rep.Policies, r)
		rep.Sources.Add(p.Source)
	}
	return rep, nil
}

// Shares of the observed time, and the length of one idle time, from which
// IdleReport.verdict is more than "in use". No source publishes such thresholds: they were chosen here.
const (
	verdictMostly   = 0.5
	verdictNotable  = 0.1
	verdictLongIdle = time.Hour
)

// verdict returns a recommendation for a device in a few words.
func (r *IdleReport) verdict() string {
	seen := r.Observed()
	if seen == 0 {
		return "not seen"
	}
	share := func(s State) float64 { return r.Total(s).Hours() / seen.Hours() }
	wasted := share(StateExecutionIdle) + share(StateResidentIdle)
	longest, serving := time.Duration(0), time.Duration(0)
	for _, in := range r.Intervals {
		if in.State.held() && !in.Server {
			longest = max(longest, in.Length())
		}
		if in.Server {
			serving += in.Length()
		}
	}
	switch {
	case share(stateUnknown) > verdictMostly:
		return "unknown most of the time"
	case share(stateStalled) > verdictNotable:
		return "STALLED: busy without working; look for a hang"
	case wasted > verdictMostly && 2*serving > seen:
		return "WAITING: a model server without requests; a candidate for sharing"
	case wasted > verdictMostly && longest >= verdictLongIdle:
		return "HELD IDLE: a candidate for reaping"
	case wasted > verdictNotable:
		return "SHORT GAPS: a candidate for sharing"
	case share(StateDeepIdle) > verdictMostly:
		return "FREE"
	case r.Pauses.Hours()/seen.Hours() > verdictMostly:
		return "idle most of the time, too briefly each time to count"
	}
	return "in use"
}
