// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
)

// switchShare is the most that switching takes of a saturated time-sliced GPU:
// 0.153 ms after each quantum of 2.09 ms, measured on an H200 with driver 580.
const switchShare = 0.153 / (0.153 + 2.09)

// samplesPerSecond is the rate at which the driver looks which process runs, and samplesKept the number of its looks
// that it keeps: 50 came in each of 32 windows of ten seconds on an H100 and an H200 (driver 580), and 72 were offered.
const (
	samplesPerSecond = 5
	samplesKept      = 72
)

// DriverKeeps is the time for which the driver keeps its samples: costly readings at longer intervals miss some.
const DriverKeeps = samplesKept / samplesPerSecond * time.Second

// contextWatts is the least power of a resident program above deep idle, in watts: a context alone costs 26 W and more.
const contextWatts = 10

// claims collects the claims to a GPU by instance and pod.
type claims map[claimKey]*Claim

type claimKey struct {
	instance int // GPU instance; or one of the following
	pod      container.Pod
}

const (
	noInstance  = -1 // not under MIG, or an instance that is not listed
	mpsOverhead = math.MaxInt
)

// of returns the claim of a pod to an instance; nil is none.
func (c claims) of(in *telemetry.Instance, pod container.Pod) *Claim {
	k, claim := claimKey{noInstance, pod}, Claim{Pod: pod}
	if in != nil {
		k.instance, claim.Instance, claim.Slices = in.ID, sharing.Some(in.ID), in.ComputeSlices.Or(0)
	}
	return c.at(k, claim)
}

func (c claims) at(k claimKey, claim Claim) *Claim {
	if c[k] == nil {
		c[k] = &claim
	}
	return c[k]
}

// list returns the claims in the order of their keys.
func (c claims) list() []Claim {
	out := make([]Claim, 0, len(c))
	for _, k := range slices.SortedFunc(maps.Keys(c), func(a, b claimKey) int {
		return cmp.Or(cmp.Compare(a.instance, b.instance), a.pod.Compare(b.pod))
	}) {
		out = append(out, *c[k])
	}
	return out
}

// window makes the observations of a device since its last posting.
func (a *Accountant) window(d *device, length time.Duration) Window {
	w := Window{
		Length: length, Mechanism: sharing.MechanismNone, SwitchShare: switchShare,
		Samples: min(samplesPerSecond*length.Seconds(), samplesKept),
	}
	isMIG := d.mig == sharing.AnswerYes
	if d.gap || d.Down != "" || d.util.n == 0 && len(d.instances) == 0 && !(d.listing && isMIG) {
		return w // it was not observed, or not all of it
	}
	if w.Busy = d.whole; w.Busy.IsZero() {
		w.Busy = d.util.get()
	}
	held, slots, _ := a.holders.of(func(dev container.Device) bool { return a.fits(d, dev) })
	w.Mechanism, w.Slots = d.mechanism(held), slots
	if base, ok := d.deepIdle.Get(); ok && d.power.n > 0 {
		w.Powered = sharing.AnswerOf(d.power.get().Or(0) >= base+contextWatts)
	}
	if model, err := mig.Lookup(d.Name); isMIG && err == nil {
		w.ComputeSlices = model.ComputeSlices
	}
	all := claims{}
	for pid, p := range d.procs {
		switch {
		case !p.overhead:
			in := d.instance(func(in *telemetry.Instance) bool { return p.instance == sharing.Some(in.ID) })
			c := all.of(in, p.pod())
			c.Resident = true
			d.uses(c, pid)
		case !isMIG: // the driver charges the MPS server with its clients' work
			all.at(claimKey{instance: mpsOverhead}, Claim{Overhead: true}).Resident = true
		}
	}
	for pid := range d.util1 {
		if d.procs[pid] == nil { // it came and went between two lists
			p := process{identity: a.o.Resolver.Resolve(pid)[0]}
			d.uses(all.of(nil, p.pod()), pid)
		}
	}
	for pod, devices := range held {
		for _, dev := range devices {
			in := d.instance(func(in *telemetry.Instance) bool {
				return in.UUID != "" && in.UUID == dev.UUID || dev.GPUInstance == sharing.Some(in.ID) ||
					!dev.Start.IsZero() && dev.Start == in.Start
			})
			all.of(in, pod.Clean()).Held++
		}
	}
	if isMIG {
		d.instanceCounters(all)
	}
	w.Claims = all.list()
	return w
}

// uses adds a process's time by the driver to a claim.
func (d *device) uses(c *Claim, pid uint32) {
	if d.measured {
		c.Busy = sharing.Some(min(c.Busy.Or(0)+d.util1[pid], 1))
	}
}

// instance finds one of the device's MIG instances; nil for none.
func (d *device) instance(fits func(in *telemetry.Instance) bool) *telemetry.Instance {
	for i := range d.layout {
		if fits(&d.layout[i]) {
			return &d.layout[i]
		}
	}
	return nil
}

// instanceCounters sets the use of the MIG instances by their counters, and adds a claim without a pod for each that
// has none.
func (d *device) instanceCounters(all claims) {
	used := map[int]sharing.Optional[float64]{}
	for i := range d.layout {
		in, works := &d.layout[i], false
		for _, m := range []telemetry.Metric{telemetry.MetricSMUtilPercent, telemetry.MetricDRAMUtilPercent,
			telemetry.MetricTensorUtilPercent} {
			v, _ := in.Get(m)
			works = works || v > 0
		}
		claimed := false
		for k := range all {
			claimed = claimed || k.instance == in.ID
		}
		if !claimed {
			all.of(in, container.Pod{}).Resident = works
		}
		// A 0 where other counters show work is one that was not filled.
		if v, ok := in.Get(telemetry.MetricGraphicsUtilPercent); ok && (v > 0 || !works) && d.instances != nil {
			used[in.ID] = sharing.Some(min(v/100, 1))
		}
	}
	for k, c := range all {
		c.Busy = used[k.instance]
	}
}

// mechanism infers a GPU's mechanism from its processes and holders.
func (d *device) mechanism(held map[container.Pod][]container.Device) sharing.Mechanism {
	if d.mig == sharing.AnswerYes {
		return sharing.MechanismMIG
	}
	pods, replicas := map[container.Pod]bool{}, false
	for _, p := range d.procs {
		if p.overhead {
			return sharing.MechanismMPS
		}
		pods[p.pod()] = true
	}
	for pod, devices := range held {
		pods[pod] = true
		replicas = replicas || slices.ContainsFunc(devices, func(d container.Device) bool { return !d.Replica.IsZero() })
	}
	if replicas || len(pods) > 1 {
		return sharing.MechanismTimeSlicing
	}
	return sharing.MechanismExclusive
}

// fits reports that a device of a plugin is a GPU or part of it.
func (a *Accountant) fits(d *device, dev container.Device) bool {
	if i, ok := dev.Index.Get(); ok {
		return i < len(a.devs) && a.devs[i] == d
	}
	if !dev.Minor.IsZero() {
		return dev.Minor == d.minor
	}
	return dev.UUID == d.UUID || strings.HasPrefix(dev.UUID, "MIG-") &&
		d.instance(func(in *telemetry.Instance) bool { return in.UUID == dev.UUID }) != nil
}
