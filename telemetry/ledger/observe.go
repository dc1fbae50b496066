// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
)

// Begin takes the devices. The time of a GPU since an earlier run is unattributed: it was not observed.
func (a *Accountant) Begin(h telemetry.Header) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.o.Clock.Now()
	a.devs = nil
	for _, d := range h.Devices {
		price := a.o.Price(d.UUID, d.Name)
		if err := checkPrice(price); err != nil {
			return err
		}
		dev := &device{Device: Device{UUID: d.UUID, Name: d.Name, Price: price}, mig: d.MIG, minor: d.Minor, last: now}
		dev.seen = newSeen(now)
		a.devs = append(a.devs, dev)
		if _, dev.gap = a.book.through(d.UUID); !dev.gap {
			a.book.post(posting{GPU: d.UUID, To: now})
		}
	}
	return nil
}

// WantsGPM reports whether a GPU's GPM counters are needed, since its MIG instances have no others.
func (a *Accountant) WantsGPM(device int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.devs[device].mig != sharing.AnswerNo
}

// Sample takes a sample.
func (a *Accountant) Sample(x *telemetry.Sample) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.devs[x.Device]
	now := a.o.Clock.Now()
	if x.Groups&telemetry.GroupsFast != 0 {
		if now-d.last > max(3*a.o.Fast, a.o.Slow/2) {
			a.close(d, d.last) // the observations until then
			a.close(d, now)    // and the time without any
		}
		d.last = now
		a.cheap(d, x)
		return nil
	}
	switch {
	case x.Groups.Has(telemetry.GroupGPM):
		d.instances, d.layout = x.Instances, x.Instances
	case x.Groups.Has(telemetry.GroupProcessUtil):
		d.measured = true
		if v, ok := x.Get(telemetry.MetricGPUUtilPercent); ok { // of the whole window
			d.whole = sharing.Some(min(v/100, 1))
		}
		for i := range x.Processes {
			p := &x.Processes[i]
			if v, ok := p.SMUtilPercent.Get(); ok {
				d.util1[p.PID] = min(v/100, 1)
			}
		}
	}
	if v, ok := x.Get(telemetry.MetricEnergyJoules); ok {
		d.energy, d.energyAt = sharing.Some(v), now
		if g := a.book.gpus[d.UUID]; g.Joules.IsZero() {
			g.Joules = sharing.Some(v)
		}
	} else if d.energyAt > 0 && x.Groups.Has(telemetry.GroupEnergy) { // the counter holds
		d.energyAt = now
	}
	if a.complete(d, x, now) {
		a.close(d, now)
		a.forget()
	}
	return nil
}

// complete reports that a costly reading ends the window: the last one that the
// device gives, which is the energy counter, or the group that its mechanism needs.
func (a *Accountant) complete(d *device, x *telemetry.Sample, now time.Duration) bool {
	counted := !a.book.gpus[d.UUID].Joules.IsZero()
	switch {
	case d.gap && counted, d.energyAt > 0 && now-d.energyAt < 3*a.o.Slow: // the energy of a gap is the gap's
		return x.Groups.Has(telemetry.GroupEnergy)
	case d.mig == sharing.AnswerYes:
		return x.Groups.Has(telemetry.GroupGPM)
	}
	return x.Groups.Has(telemetry.GroupProcessUtil)
}

// cheap takes the readings of the fast clock.
func (a *Accountant) cheap(d *device, x *telemetry.Sample) {
	if v, ok := x.Get(telemetry.MetricGPUUtilPercent); ok {
		d.util.add(min(v/100, 1))
	}
	for m, to := range map[telemetry.Metric]*sharing.Optional[float64]{telemetry.MetricPowerWatts: &d.Watts,
		telemetry.MetricMemUsedBytes: &d.MemUsed, telemetry.MetricMemTotalBytes: &d.MemTotal} {
		*to = sharing.Optional[float64]{}
		if v, ok := x.Get(m); ok {
			*to = sharing.Some(v)
		}
	}
	if v, ok := d.Watts.Get(); ok {
		d.power.add(v)
	}
	if !x.Groups.Has(telemetry.GroupProcesses) {
		return
	}
	d.listing = true
	if !slices.Equal(x.Processes, d.list) {
		d.list, d.listed = slices.Clone(x.Processes), nil
		a.identify(d)
	}
	for _, p := range d.listed {
		if d.procs[p.identity.PID] == nil { // a window has begun
			d.procs[p.identity.PID] = p
		}
	}
	v, drawn := d.Watts.Get()
	if u, ok := x.Get(telemetry.MetricGPUUtilPercent); ok && u == 0 && drawn {
		least := &d.deepIdle
		if len(x.Processes) > 0 {
			least = &d.contextIdle
		}
		*least = sharing.Some(min(v, least.Or(v)))
	}
}

// Event notes which devices are down.
func (a *Accountant) Event(e telemetry.Event) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.devs[e.Device]
	switch e.Kind {
	case telemetry.EventLost, telemetry.EventHung, telemetry.EventFailing:
		a.close(d, d.last)
		d.Down = string(e.Kind)
		d.list, d.listed = nil, nil
		d.MemUsed, d.Watts = sharing.Optional[float64]{}, sharing.Optional[float64]{}
	case telemetry.EventBack:
		d.last = a.o.Clock.Now()
		a.close(d, d.last)
		d.Down = ""
	}
	return nil
}

// Tick ends windows without a costly reading: of devices that are down or lack these readings.
func (a *Accountant) Tick() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.o.Clock.Now()
	for _, d := range a.devs {
		switch {
		case d.Down != "":
			a.close(d, now)
		case now-d.begun > 2*a.o.Slow:
			a.close(d, min(now, max(d.last, d.begun)))
			if now-d.last > max(3*a.o.Fast, a.o.Slow/2) {
				a.close(d, now)
			}
		}
	}
}

// Finish posts the observations so far.
func (a *Accountant) Finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.devs {
		a.close(d, d.last)
	}
}

// close posts a device's time up to now; a.mu is held.
func (a *Accountant) close(d *device, now time.Duration) {
	through, _ := a.book.through(d.UUID)
	length := now - through
	if length <= 0 {
		return
	}
	a.identify(d)
	w := a.window(d, length)
	parts, err := Divide(w)
	if err != nil {
		a.refused++
		a.o.Logger.Error("a window was refused, and is unattributed", "gpu", d.UUID, "err", err)
	}
	for i := range parts {
		if a.o.Basis == sharing.BasisSimulated {
			parts[i].Basis = a.o.Basis
		}
	}
	parts = slices.DeleteFunc(parts, func(p Part) bool { return p.High == 0 && !p.Resident })
	in := posting{GPU: d.UUID, To: now, Mechanism: w.Mechanism, Parts: parts, Price: d.Price}
	in.Microjoules = a.spent(d, length)
	if v, ok := d.deepIdle.Get(); ok {
		in.IdleMicrojoules = int64(v * length.Seconds() * 1e6)
		in.ContextMicrojoules = int64(max(0, d.contextIdle.Or(v)-v) * length.Seconds() * 1e6)
	}
	d.Mechanism, d.gap, d.Stalled = w.Mechanism, false, d.stalled(w.Busy)
	a.book.post(in)
	d.seen = newSeen(now)
	if slices.ContainsFunc(d.listed, func(p *process) bool { return p.identity.Reason == container.ReasonReused }) {
		d.list = nil // the next list identifies it anew
	}
}

// A GPU that was busy for at least stalledBusy of a window counts as stalled where its power was no further above that
// of its quietest moment than a part of its range so far: a spinning kernel keeps few of its units busy. The thresholds
// were chosen here.
const (
	stalledBusy  = 0.95
	stalledPower = 0.2
	minRange     = 100 // watts between the quietest and the busiest moment without which the answer is unknown
)

// stalled answers from the window that ends; without power that is known for idle and for busy times it is unknown.
func (d *device) stalled(busy sharing.Optional[float64]) sharing.Answer {
	watts, drawn := d.power.get().Get()
	idle, known := d.contextIdle.Get()
	if !known {
		idle, known = d.deepIdle.Get()
	}
	b, counted := busy.Get()
	d.busiest = max(d.busiest, watts)
	if !drawn || !known || !counted || d.busiest-idle < minRange {
		return sharing.AnswerUnknown
	}
	return sharing.AnswerOf(b >= stalledBusy && watts-idle < stalledPower*(d.busiest-idle))
}

// spent returns the energy in uJ since the last posting: the counter's, or the power over the time where the counter
// was not read or is not plausible. Energy derived from power is taken off the counter's next reading.
func (a *Accountant) spent(d *device, length time.Duration) sharing.Optional[int64] {
	byPower := sharing.Optional[int64]{}
	if v, ok := d.power.get().Get(); ok {
		byPower = sharing.Some(int64(v * length.Seconds() * 1e6))
	}
	now, ok := d.energy.Get()
	g := a.book.gpus[d.UUID]
	before, counted := g.Joules.Get()
	switch {
	case !ok && counted && d.gap: // the next reading has it
		return sharing.Optional[int64]{}
	case !ok:
		if v, ok := byPower.Get(); ok && counted {
			d.ahead += float64(v) / 1e6
			g.Joules = sharing.Some(before + float64(v)/1e6)
		}
		return byPower
	case now < before && before-now <= d.ahead: // the power's estimate was too high
		d.ahead = before - now
		return sharing.Some(int64(0))
	}
	d.ahead, g.Joules = 0, sharing.Some(now)
	_, known := telemetry.EnergyBetween(telemetry.Point{Value: before}, telemetry.Point{At: length, Value: now})
	if !known { // the driver was loaded anew, say
		return byPower
	}
	return sharing.Some(int64(math.Round(now*1e6)) - int64(math.Round(before*1e6)))
}

// identify resolves the listed processes to pods, where the list has changed and at the end of each window,
// which shows an id that was used again meanwhile: asking the system every second would cost more than the driver does.
func (a *Accountant) identify(d *device) {
	pids := make([]uint32, len(d.list))
	for i := range d.list {
		pids[i] = d.list[i].PID
	}
	d.listed = nil
	for i, id := range a.o.Resolver.Resolve(pids...) {
		p := &d.list[i]
		q := d.procs[id.PID]
		switch {
		case q == nil:
			q = &process{identity: id}
			d.procs[id.PID] = q
		case id.Reason == container.ReasonReused, q.identity.Reason == container.ReasonReused:
			q.identity.Reason = container.ReasonReused // until the window ends
		case !q.identity.Known():
			q.identity = id
		}
		q.memory, q.instance, q.overhead = p.Memory, p.GPUInstance, p.Name == mpsServer
		d.listed = append(d.listed, q)
	}
}

// forget drops processes that no window has any more.
func (a *Accountant) forget() {
	var pids []uint32
	for _, d := range a.devs {
		for _, p := range d.listed {
			pids = append(pids, p.identity.PID)
		}
		for pid := range d.procs {
			pids = append(pids, pid)
		}
	}
	a.o.Resolver.Keep(pids...)
}
