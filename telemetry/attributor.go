package telemetry

import (
	"math"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// attributor divides one device's samples, window by window. A window ends
// with each sample of the group that carries the mechanism's evidence.
type attributor struct {
	opts    AttributionOptions
	a       Attribution
	device  int
	bound   Groups // the group whose samples end windows
	busy    Metric // the metric of the device's busy share
	gap     time.Duration
	idle    Optional[float64]
	weights []float64

	from   Optional[time.Duration] // the window's start
	util   mean
	power  mean
	energy bool // every window so far had power

	procAt     Optional[time.Duration]
	resident   []bool
	memory     []float64 // byte-seconds by tenant, Other last
	memorySeen []bool
}

type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

func newAttributor(s *Series, device int, opts AttributionOptions) *attributor {
	n := len(opts.Tenants)
	w := &attributor{opts: opts, device: device, busy: MetricGPUUtilPercent, gap: max(3*s.SlowPeriod, maxGap(0, s.Period)),
		energy: true, resident: make([]bool, n), memory: make([]float64, n+1), memorySeen: make([]bool, n+1), weights: make([]float64, n)}
	a := &w.a
	*a = Attribution{Device: device, Mechanism: opts.Mechanism, SeriesBasis: s.Info.Basis, Basis: sharing.BasisMeasured, Tenants: make([]TenantUsage, n)}
	for i, t := range opts.Tenants {
		a.Tenants[i].Name = t.Name
		w.weights[i] = 1
	}
	a.Other.Name = "other"
	assume := func(text string) { a.Assumptions = append(a.Assumptions, text) }
	supported := func(m Metric) bool { return s.Supported(device, m) == sharing.AnswerYes }
	switch opts.Mechanism {
	case sharing.MechanismMPS:
		a.Basis, w.bound = sharing.BasisPrior, GroupBasic
		if supported(MetricSMUtilPercent) {
			w.busy, w.bound = MetricSMUtilPercent, GroupGPM
		}
		if opts.Tenants[0].Weight > 0 {
			a.Basis = sharing.BasisDerived
			for i, t := range opts.Tenants {
				w.weights[i] = t.Weight
			}
			assume("resident tenants used the GPU in proportion to the given weights")
		} else {
			assume("resident tenants used the GPU equally: under MPS the driver attributes kernels to the server")
		}
	case sharing.MechanismMIG:
		w.bound = GroupGPM
		assume("an instance's part of the device is its part of the compute slices")
		assume("energy above idle follows SM activity; the board does not measure it for each instance, so that its bounds are none and all")
	case sharing.MechanismExclusive:
		w.bound = GroupBasic
		if !supported(w.busy) {
			w.busy, w.bound = MetricGraphicsUtilPercent, GroupGPM
		}
	default:
		w.bound = GroupProcessUtil
		if !supported(w.busy) {
			w.busy = MetricGraphicsUtilPercent
		}
		assume("switching between contexts counts for the process that the driver charges it to")
	}
	if opts.Mechanism != sharing.MechanismMIG {
		assume("a busy second above idle power draws the same whoever is busy")
	}
	a.Quantity = map[Metric]string{MetricGPUUtilPercent: "time in which a kernel ran", MetricGraphicsUtilPercent: "time in which a context was active",
		MetricSMUtilPercent: "share of SMs busy, over time"}[w.busy]
	if opts.Mechanism == sharing.MechanismMIG {
		a.Quantity = "time in which a context was active in the instance, times its part of the compute slices"
	}
	if opts.IdleWatts > 0 {
		w.idle = Some(opts.IdleWatts)
	} else {
		for _, p := range s.Points(device, MetricPowerWatts) {
			w.idle = Some(min(p.Value, w.idle.Or(p.Value)))
		}
		assume("idle power is the lowest of the series")
	}
	a.IdleWatts = w.idle
	return w
}

func (w *attributor) sample(x *Sample) {
	if v, ok := x.Get(w.busy); ok {
		w.util.add(v)
	}
	if v, ok := x.Get(MetricPowerWatts); ok {
		w.power.add(v)
	}
	if x.Groups.Has(GroupProcesses) {
		w.processes(x)
	}
	if !x.Groups.Has(w.bound) {
		return
	}
	if from, ok := w.from.Get(); ok {
		if length := x.At - from; length > w.gap {
			w.a.Uncovered += length
		} else if length > 0 {
			w.window(x, length)
		}
	}
	w.from, w.util, w.power = Some(x.At), mean{}, mean{}
}

// processes takes the list of processes: who is resident, with which memory
// since the list before.
func (w *attributor) processes(x *Sample) {
	dt := time.Duration(0)
	if last, ok := w.procAt.Get(); ok && x.At-last <= w.gap {
		dt = x.At - last
	}
	w.procAt = Some(x.At)
	clear(w.resident)
	for i := range x.Processes {
		p := &x.Processes[i]
		t := w.opts.tenantOf(p)
		if t >= 0 {
			w.resident[t] = true
		} else {
			t = len(w.resident)
		}
		if b, ok := p.Memory.Get(); ok {
			w.memory[t] += float64(float64(b) * dt.Seconds())
			w.memorySeen[t] = true
		}
	}
}

// part is what a window shows of one tenant, in GPU seconds; the last part is
// Other's.
type part struct{ value, low, high, energyWeight float64 }

// evident says whether a window shows what its mechanism's division needs.
// Where it does not, the time is uncovered: unknown is not idle.
func (w *attributor) evident(x *Sample) bool {
	switch w.opts.Mechanism {
	case sharing.MechanismExclusive, sharing.MechanismMPS:
		return w.util.n > 0
	case sharing.MechanismMIG:
		for i := range x.Instances {
			_, active := x.Instances[i].Get(MetricGraphicsUtilPercent)
			if !active || x.Instances[i].ComputeSlices.IsZero() {
				return false
			}
		}
		return len(x.Instances) > 0
	}
	return true // no process with a utilization is how the driver says idle
}

// window divides the time up to x.
func (w *attributor) window(x *Sample, length time.Duration) {
	if !w.evident(x) {
		w.a.Uncovered += length
		return
	}
	secs := length.Seconds()
	w.a.Span += length
	busy, known := 0.0, w.util.n > 0
	if known {
		busy = min(w.util.sum/float64(w.util.n)/100, 1) * secs
	}
	parts := make([]part, len(w.a.Tenants)+1)
	free := false // the bounds of energy are none and all
	switch w.opts.Mechanism {
	case sharing.MechanismExclusive:
		parts[0] = part{busy, busy, busy, busy}
	case sharing.MechanismMPS:
		w.byWeight(parts, busy, secs)
	case sharing.MechanismMIG:
		busy, free = w.byInstance(parts, x, secs), true
	default:
		busy = w.byProcess(parts, x, busy, known, secs)
	}
	attributed, weight := 0.0, 0.0
	for i, p := range parts {
		w.usage(i).GPUSeconds.add(p.value, p.low, p.high)
		attributed += p.value
		weight += p.energyWeight
	}
	w.a.UnattributedSeconds += max(0, busy-attributed)
	w.a.IdleSeconds += secs - max(busy, attributed)
	w.spend(parts, secs, max(busy, attributed), weight, free)
}

func (w *attributor) usage(i int) *TenantUsage {
	if i == len(w.a.Tenants) {
		return &w.a.Other
	}
	return &w.a.Tenants[i]
}

// halfPoint is the rounding of the driver's whole percentages.
const halfPoint = 0.005

// byProcess divides by the utilization of each process and returns the busy
// time, which is that of the processes where the device gave none.
func (w *attributor) byProcess(parts []part, x *Sample, busy float64, known bool, secs float64) float64 {
	sum := 0.0
	for i := range x.Processes {
		p := &x.Processes[i]
		u, ok := p.SMUtilPercent.Get()
		if !ok {
			continue
		}
		t := w.opts.tenantOf(p)
		if t < 0 {
			t = len(parts) - 1
		}
		parts[t].value += float64(u / 100 * secs)
		parts[t].low -= float64(halfPoint * secs)
		parts[t].high += float64(halfPoint * secs)
		sum += float64(u / 100 * secs)
	}
	if !known {
		busy = min(sum, secs)
	}
	excess, rest := max(0, sum-busy), max(0, busy-sum)
	w.a.ExcessSeconds += excess
	for i := range parts {
		p := &parts[i]
		raw := p.value
		p.low = max(0, raw+p.low-excess)
		p.high = min(busy, raw+p.high+rest)
		if excess > 0 {
			p.value = raw * busy / sum
		}
		p.energyWeight = p.value
	}
	return busy
}

// byWeight divides busy SM time among the resident tenants by weight, within
// the active thread percentages where SM utilization is measured.
func (w *attributor) byWeight(parts []part, busy, secs float64) {
	n := len(w.a.Tenants)
	limit := make([]float64, n)
	here := make([]bool, n)
	anyone := false
	for i, t := range w.opts.Tenants {
		listed := len(t.PIDs)+len(t.ProcessNames) > 0 && !w.procAt.IsZero()
		here[i] = w.resident[i] || !listed
		anyone = anyone || here[i]
	}
	total := 0.0
	for i, t := range w.opts.Tenants {
		if !here[i] && anyone {
			continue
		}
		limit[i] = busy
		if t.ActiveThreadPercent > 0 && w.busy == MetricSMUtilPercent {
			limit[i] = min(busy, t.ActiveThreadPercent/100*secs)
		}
		total += limit[i]
	}
	// Fill by weight; what a limit cuts off goes to those below theirs.
	left, open := min(busy, total), make([]bool, n)
	for i := range open {
		open[i] = limit[i] > 0
	}
	for left > 1e-12*secs {
		sum := 0.0
		for i := range open {
			if open[i] {
				sum += w.weights[i]
			}
		}
		if sum == 0 {
			break
		}
		share := left / sum
		for i := range open {
			if open[i] {
				give := min(share*w.weights[i], limit[i]-parts[i].value)
				parts[i].value += give
				left -= give
				open[i] = limit[i]-parts[i].value > 1e-12*secs
			}
		}
	}
	for i := range limit {
		parts[i].low = max(0, busy-(total-limit[i]))
		parts[i].high = limit[i]
		parts[i].energyWeight = parts[i].value
	}
}

// byInstance takes each MIG instance's own counters, which evident saw to be
// there, and returns the busy time.
func (w *attributor) byInstance(parts []part, x *Sample, secs float64) float64 {
	slices := float64(w.opts.ComputeSlices)
	if slices == 0 {
		slices = 7
	}
	busy := 0.0
	for i := range x.Instances {
		in := &x.Instances[i]
		t := w.opts.tenantOf(&Process{GPUInstance: Some(in.ID)})
		if t < 0 {
			t = len(parts) - 1
		}
		u := w.usage(t)
		if used, ok := in.Get(MetricMemUsedBytes); ok {
			w.memory[t] += float64(used * secs)
			w.memorySeen[t] = true
		}
		g, _ := in.ComputeSlices.Get()
		fraction := float64(g) / slices
		u.ReservedSeconds = Some(u.ReservedSeconds.Or(0) + float64(fraction*secs))
		active, _ := in.Get(MetricGraphicsUtilPercent)
		v := fraction * min(active/100, 1) * secs
		parts[t].value, parts[t].low, parts[t].high = parts[t].value+v, parts[t].low+v, parts[t].high+v
		busy += v
		if sm, ok := in.Get(MetricSMUtilPercent); ok {
			parts[t].energyWeight += float64(fraction * sm / 100 * secs)
		} else {
			parts[t].energyWeight += v
		}
	}
	return busy
}

// spend divides a window's energy above idle.
func (w *attributor) spend(parts []part, secs, busy, weight float64, free bool) {
	base, ok := w.idle.Get()
	if w.power.n == 0 || !ok {
		w.energy = false
		return
	}
	watts := w.power.sum / float64(w.power.n)
	total := watts * secs
	base = math.Min(base, watts) * secs
	dynamic := total - base
	add := func(o *Optional[float64], v float64) { *o = Some(o.Or(0) + v) }
	add(&w.a.TotalJoules, total)
	add(&w.a.BaselineJoules, base)
	given := 0.0
	for i, p := range parts {
		var value, low, high float64
		switch {
		case free && weight > 0:
			value = dynamic * p.energyWeight / weight
			if p.energyWeight > 0 {
				high = dynamic
			}
		case !free && busy > 0:
			value, low, high = dynamic*p.energyWeight/busy, dynamic*p.low/busy, dynamic*p.high/busy
		}
		u := w.usage(i)
		j := u.Joules.Or(Bounded{})
		j.add(value, low, high)
		u.Joules = Some(j)
		given += value
	}
	add(&w.a.UnattributedJoules, dynamic-given)
}

func (w *attributor) result() Attribution {
	a := w.a
	if !w.energy {
		a.TotalJoules, a.BaselineJoules, a.UnattributedJoules = Optional[float64]{}, Optional[float64]{}, Optional[float64]{}
		a.Assumptions = append(a.Assumptions, "energy is left out: power is missing for part of the time")
	}
	for i := range w.memory {
		u := w.usage(i)
		if w.memorySeen[i] {
			u.MemoryByteSeconds = Some(w.memory[i])
		}
		if !w.energy {
			u.Joules = Optional[Bounded]{}
		}
	}
	a.Other = w.a.Other
	return a
}
