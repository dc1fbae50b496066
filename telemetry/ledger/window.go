package ledger

import (
	"cmp"
	"maps"
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

// DriverKeeps is the time for which the driver keeps its samples: costly readings that come later miss some.
const DriverKeeps = samplesKept / samplesPerSecond * time.Second

// WantsGPM reports that a GPU's GPM counters are needed: instances have no others.
func (a *Accountant) WantsGPM(device int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.devs[device].mig != sharing.AnswerNo
}

// contextWatts is the least power of a resident program above deep idle, in watts: a context alone costs 26 W and more.
const contextWatts = 10

func (a *Accountant) window(d *device, length time.Duration) Window {
	w := Window{
		Length: length, Mechanism: sharing.MechanismNone, SwitchShare: switchShare,
		Samples: min(samplesPerSecond*length.Seconds(), samplesKept),
	}
	held, slots, _ := a.o.Holders.of(func(dev container.Device) bool { return a.fits(d, dev) })
	if d.gap || d.Down != "" || d.util.n == 0 && len(d.instances) == 0 && !(d.looked && d.mig == sharing.AnswerYes) {
		return w // nobody looked, or not at all of it
	}
	if w.Busy = d.whole; w.Busy.IsZero() {
		w.Busy = d.util.get()
	}
	w.Mechanism = a.mechanismOf(d, held)
	w.Slots = slots
	w.Powered = sharing.AnswerUnknown
	if base, ok := d.deepIdle.Get(); ok && d.power.n > 0 {
		w.Powered = sharing.AnswerOf(d.power.get().Or(0) >= base+contextWatts)
	}
	if w.Mechanism == sharing.MechanismMIG {
		a.instancesOf(d, held, &w)
		return w
	}
	claims := map[claimKey]*Claim{}
	claim := func(pod container.Pod, overhead bool) *Claim {
		k := claimKey{pod: pod, overhead: overhead}
		if claims[k] == nil {
			claims[k] = &Claim{Pod: pod, Overhead: overhead}
		}
		return claims[k]
	}
	busy := func(c *Claim, pid uint32) {
		if u, ok := d.util1[pid]; ok {
			c.Busy = Some(min(c.Busy.Or(0)+u, 1))
		} else if d.measured {
			c.Busy = Some(c.Busy.Or(0))
		}
	}
	for pid, p := range d.procs {
		c := claim(p.pod(), p.overhead)
		c.Resident = true
		if !p.overhead { // the driver charges the MPS server with what its clients run
			busy(c, pid)
		}
	}
	for pid := range d.util1 {
		if d.procs[pid] == nil { // it came and went between two lists
			id := a.o.Resolver.Resolve(pid)[0]
			p := process{who: id}
			busy(claim(p.pod(), false), pid)
		}
	}
	for pod, devices := range held {
		claim(pod.Clean(), false).Held = len(devices)
	}
	a.o.Servers.tokens(d.UUID, claims, time.Minute)
	w.Claims = sorted(claims)
	return w
}

func (p *process) pod() container.Pod {
	if p.overhead || !p.who.Known() {
		return container.Pod{}
	}
	return p.who.Pod.Clean()
}

// fits reports that a device of a plugin is a GPU or part of it.
func (a *Accountant) fits(d *device, dev container.Device) bool {
	if i, ok := dev.Index.Get(); ok {
		return i < len(a.devs) && a.devs[i] == d
	}
	if !dev.Minor.IsZero() {
		return dev.Minor == d.minor
	}
	if strings.HasPrefix(dev.UUID, "MIG-") {
		return slices.ContainsFunc(d.layout, func(in telemetry.Instance) bool { return in.UUID == dev.UUID })
	}
	return dev.UUID == d.UUID
}

// mechanismOf infers a GPU's mechanism from its processes and holders.
func (a *Accountant) mechanismOf(d *device, held map[container.Pod][]container.Device) sharing.Mechanism {
	if d.mig == sharing.AnswerYes {
		return sharing.MechanismMIG
	}
	pods := map[container.Pod]bool{}
	for _, p := range d.procs {
		if p.overhead {
			return sharing.MechanismMPS
		}
		pods[p.pod()] = true
	}
	for pod, devices := range held {
		pods[pod] = true
		for _, dev := range devices {
			if !dev.Replica.IsZero() {
				return sharing.MechanismTimeSlicing
			}
		}
	}
	if len(pods) > 1 {
		return sharing.MechanismTimeSlicing
	}
	return sharing.MechanismExclusive
}

// claimKey tells claims apart.
type claimKey struct {
	overhead bool
	instance int // of MIG; -1 for those that are not listed
	pod      container.Pod
}

func sorted(claims map[claimKey]*Claim) []Claim {
	keys := slices.SortedFunc(maps.Keys(claims), func(a, b claimKey) int {
		if a.overhead != b.overhead {
			if a.overhead {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.instance, b.instance), a.pod.Compare(b.pod))
	})
	out := make([]Claim, len(keys))
	for i, k := range keys {
		out[i] = *claims[k]
	}
	return out
}

// instancesOf makes the claims of a GPU in MIG mode: one for each instance and pod, and one without a pod for an
// instance that has none.
func (a *Accountant) instancesOf(d *device, held map[container.Pod][]container.Device, w *Window) {
	if model, err := mig.Lookup(d.Name); err == nil {
		w.ComputeSlices = model.ComputeSlices
	}
	claims := map[claimKey]*Claim{}
	claim := func(in *telemetry.Instance, pod container.Pod) *Claim {
		k := claimKey{instance: -1, pod: pod}
		if in != nil {
			k.instance = in.ID
		}
		if claims[k] == nil {
			claims[k] = &Claim{Pod: pod}
			if in != nil {
				claims[k].Slices, claims[k].Instance = in.ComputeSlices.Or(0), Some(in.ID)
			}
		}
		return claims[k]
	}
	instances := d.instances
	if instances == nil {
		instances = d.layout
	}
	find := func(fits func(in *telemetry.Instance) bool) *telemetry.Instance {
		for i := range instances {
			if fits(&instances[i]) {
				return &instances[i]
			}
		}
		return nil
	}
	for _, p := range d.procs {
		if !p.overhead {
			in := find(func(in *telemetry.Instance) bool { return p.instance == telemetry.Some(in.ID) })
			claim(in, p.pod()).Resident = true
		}
	}
	for pod, devices := range held {
		for _, dev := range devices {
			in := find(func(in *telemetry.Instance) bool {
				return in.UUID != "" && in.UUID == dev.UUID || dev.GPUInstance == Some(in.ID) ||
					!dev.Start.IsZero() && dev.Start == in.Start
			})
			claim(in, pod.Clean()).Held++
		}
	}
	for i := range instances {
		in := &instances[i]
		works := works(in)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(claims)), func(k claimKey) bool { return k.instance == in.ID }) {
			claim(in, container.Pod{}).Resident = works
		}
		// A 0 where other counters show work is one that was not filled.
		if v, ok := in.Get(telemetry.MetricGraphicsUtilPercent); ok && (v > 0 || !works) {
			for k, c := range claims {
				if k.instance == in.ID {
					c.Busy = Some(min(v/100, 1))
				}
			}
		}
	}
	w.Claims = sorted(claims)
}

// works reports whether a counter of an instance other than its time with work shows any.
func works(in *telemetry.Instance) bool {
	return slices.ContainsFunc([]telemetry.Metric{telemetry.MetricSMUtilPercent, telemetry.MetricDRAMUtilPercent,
		telemetry.MetricTensorUtilPercent}, func(m telemetry.Metric) bool { v, _ := in.Get(m); return v > 0 })
}
