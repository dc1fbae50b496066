package ledger

import (
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
)

// Begin takes the devices. What a GPU that was known before did since then is unattributed: nobody looked.
func (a *Accountant) Begin(h telemetry.Header) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.o.Clock.Now()
	a.devs = nil
	for _, d := range h.Devices {
		dev := &device{Device: Device{UUID: d.UUID, Name: d.Name, Price: a.o.Price(d.UUID, d.Name)}, mig: d.MIG,
			minor: d.Minor, begun: now, last: now}
		dev.reset(now)
		a.devs = append(a.devs, dev)
		if _, dev.gap = a.book.through(d.UUID); !dev.gap {
			a.post(dev, posting{GPU: d.UUID, To: now})
		}
	}
	return nil
}

func (d *device) reset(now time.Duration) {
	d.begun, d.util, d.power = now, mean{}, mean{}
	d.procs, d.util1, d.measured = map[uint32]*process{}, map[uint32]float64{}, false
	d.energy, d.instances, d.whole = telemetry.Optional[float64]{}, nil, telemetry.Optional[float64]{}
	d.looked = false
}

// Sample takes a sample.
func (a *Accountant) Sample(x *telemetry.Sample) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.devs[x.Device]
	now := a.o.Clock.Now()
	if x.Groups&telemetry.GroupsFast != 0 {
		if now-d.last > max(3*a.o.Fast, a.o.Slow/2) {
			a.close(d, d.last) // what was seen until then
			a.close(d, now)    // and what nobody saw
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
			d.whole = telemetry.Some(min(v/100, 1))
		}
		for i := range x.Processes {
			p := &x.Processes[i]
			if v, ok := p.SMUtilPercent.Get(); ok {
				d.util1[p.PID] = min(v/100, 1)
			}
		}
	}
	if v, ok := x.Get(telemetry.MetricEnergyJoules); ok {
		d.energy, d.energyAt = telemetry.Some(v), now
		if _, known := a.counters[d.UUID]; !known {
			a.counters[d.UUID], a.changed[d.UUID] = v, v
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
// device gives, which is the energy counter, or what its mechanism needs.
func (a *Accountant) complete(d *device, x *telemetry.Sample, now time.Duration) bool {
	_, counted := a.counters[d.UUID]
	switch {
	case d.gap && counted: // its energy is the gap's
		return x.Groups.Has(telemetry.GroupEnergy)
	case d.energyAt > 0 && now-d.energyAt < 3*a.o.Slow:
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
	get := func(m telemetry.Metric) telemetry.Optional[float64] {
		if v, ok := x.Get(m); ok {
			return telemetry.Some(v)
		}
		return telemetry.Optional[float64]{}
	}
	d.Watts = get(telemetry.MetricPowerWatts)
	d.MemUsed, d.MemTotal = get(telemetry.MetricMemUsedBytes), get(telemetry.MetricMemTotalBytes)
	if v, ok := d.Watts.Get(); ok {
		d.power.add(v)
	}
	if !x.Groups.Has(telemetry.GroupProcesses) {
		return
	}
	d.looked = true
	processes := a.withClients(x.Processes)
	if !slices.EqualFunc(processes, d.list, sameProcess) {
		d.list, d.listed = processes, nil
		a.identify(d)
	}
	for _, p := range d.listed {
		if d.procs[p.who.PID] == nil { // a window has begun
			d.procs[p.who.PID] = p
		}
	}
	if u, ok := x.Get(telemetry.MetricGPUUtilPercent); ok && u == 0 {
		least := &d.deepIdle
		if len(processes) > 0 {
			least = &d.contextIdle
		}
		if v, ok := d.Watts.Get(); ok {
			*least = telemetry.Some(min(v, least.Or(v)))
		}
	}
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
			q = &process{who: id}
			d.procs[id.PID] = q
		case id.Reason == container.ReasonReused, q.who.Reason == container.ReasonReused:
			q.who.Reason = container.ReasonReused // until the window ends
		case !q.who.Known():
			q.who = id
		}
		q.memory, q.instance, q.fromDaemon = p.Memory, p.GPUInstance, p.Name == mpsClient
		q.overhead = a.o.Holders.isServer(p.PID, p.Name)
		d.listed = append(d.listed, q)
	}
}

func sameProcess(a, b telemetry.Process) bool {
	return a.PID == b.PID && a.Name == b.Name && a.Memory == b.Memory && a.GPUInstance == b.GPUInstance
}

// withClients adds the clients that the MPS daemon has for a server in the list
// and that no GPU's list has: a driver may list the server alone.
func (a *Accountant) withClients(list []telemetry.Process) []telemetry.Process {
	there := map[uint32]bool{}
	for _, p := range list {
		there[p.PID] = true
	}
	for _, d := range a.devs {
		for pid, p := range d.procs {
			there[pid] = there[pid] || !p.fromDaemon
		}
	}
	out := slices.Clone(list)
	for _, p := range list {
		for _, client := range a.o.Holders.clientsOf(p.PID) {
			if pid := uint32(client); !there[pid] {
				there[pid] = true
				out = append(out, telemetry.Process{PID: pid, Name: mpsClient})
			}
		}
	}
	return out
}

// mpsClient is the name of processes that only the MPS daemon knows.
const mpsClient = "client of the MPS daemon"

// forget drops processes that no window has any more.
func (a *Accountant) forget() {
	var pids []uint32
	for _, d := range a.devs {
		for _, p := range d.listed {
			pids = append(pids, p.who.PID)
		}
		for pid := range d.procs {
			pids = append(pids, pid)
		}
	}
	a.o.Resolver.Keep(pids...)
}

// Event notes which devices are down.
func (a *Accountant) Event(e telemetry.Event) error {
	index, ok := e.Device.Get()
	if !ok {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.devs[index]
	switch e.Kind {
	case telemetry.EventLost, telemetry.EventHung, telemetry.EventFailing:
		a.close(d, d.last)
		d.Down = e.Kind.String()
		d.list, d.listed = nil, nil
		d.MemUsed, d.Watts = telemetry.Optional[float64]{}, telemetry.Optional[float64]{}
	case telemetry.EventBack:
		d.last = a.o.Clock.Now()
		a.close(d, d.last)
		d.Down = ""
	}
	return nil
}

// Tick ends windows that no costly reading ended: those of devices that are down, or that have none of the readings.
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
		a.refuse(d, err)
		parts = nil
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
	a.post(d, in)
	d.reset(now)
	if slices.ContainsFunc(d.listed, func(p *process) bool { return p.who.Reason == container.ReasonReused }) {
		d.list = nil // the next list identifies it anew
	}
}

// A GPU that was busy for at least stalledBusy of a window counts as stalled where its power was no further above that
// of its quietest moment than a part of what it has shown: a spinning kernel keeps few of its units busy. They are
// ours.
const (
	stalledBusy  = 0.95
	stalledPower = 0.2
	minRange     = 100 // watts between the quietest and the busiest moment without which nothing is said
)

// stalled answers from the window that ends; without power that is known for idle and for busy times it is unknown.
func (d *device) stalled(busy telemetry.Optional[float64]) sharing.Answer {
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

func (a *Accountant) post(d *device, in posting) {
	if err := a.book.post(in); err != nil {
		a.refuse(d, err)
	}
}

func (a *Accountant) refuse(d *device, err error) {
	a.refused++
	a.o.Logger.Error("a posting was refused", "gpu", d.UUID, "err", err)
}

// spent returns the energy in uJ since the last posting: the counter's, or the power over the time where the counter
// was not read or is not plausible. Energy derived from power is taken off the counter's next reading.
func (a *Accountant) spent(d *device, length time.Duration) Optional[int64] {
	byPower := Optional[int64]{}
	if v, ok := d.power.get().Get(); ok {
		byPower = Some(int64(v * length.Seconds() * 1e6))
	}
	now, ok := d.energy.Get()
	before, counted := a.counters[d.UUID]
	if !ok && counted && d.gap { // the next reading has it
		return Optional[int64]{}
	}
	if !ok {
		if v, ok := byPower.Get(); ok && counted {
			d.ahead += float64(v) / 1e6
			a.counters[d.UUID], a.changed[d.UUID] = before+float64(v)/1e6, before+float64(v)/1e6
		}
		return byPower
	}
	if now < before && before-now <= d.ahead { // the power's estimate was too high
		d.ahead = before - now
		return Some(int64(0))
	}
	d.ahead = 0
	a.counters[d.UUID], a.changed[d.UUID] = now, now
	_, known := telemetry.EnergyBetween(telemetry.Point{Value: before}, telemetry.Point{At: length, Value: now})
	if !known { // the driver was loaded anew, say
		return byPower
	}
	return Some(int64(math.Round(now*1e6)) - int64(math.Round(before*1e6)))
}
