package prospect

import (
	"cmp"
	"math"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/sharing"
)

var (
	serviceSigma = costs.Value("service_sigma")
	otherHost    = costs.Value("other_host")
)

// usualSequences is the most sequences in a batch of a server that does not say.
const usualSequences = 64.0

// z99 is the number of standard deviations above the mean below which 99% of a normal distribution lie.
const z99 = 2.33

// Of service, over its mean: the P99, and the squared coefficient of variation.
var (
	longService = math.Exp(z99*serviceSigma - serviceSigma*serviceSigma/2)
	serviceCV2  = math.Expm1(serviceSigma * serviceSigma)
)

// The tenants' activities settle in so many rounds at most, or once none changes by more.
const mostSettling, settled = 8, 1e-4

// at computes every tenant's foreseen in a setting, those of one workload in another.
func (e *evaluation) at(s, own costs.Setting, workload int, out []foreseen) []foreseen {
	st := e.states
	alone := e.share.Mechanism != sharing.MechanismMPS && e.share.Mechanism != sharing.MechanismTimeSlicing || len(st) == 1
	setting := func(i int) *costs.Setting {
		if e.tenants[i].Workload == workload {
			return &own
		}
		return &s
	}
	for i := range st {
		if e.again[i] {
			st[i] = st[i-1]
			continue
		}
		e.prepare(&e.tenants[i], &st[i], setting(i))
	}
	for range mostSettling {
		total, changed := 0.0, false
		for i := range st {
			total += st[i].weight * st[i].active
		}
		for i := range st {
			t := &st[i]
			if e.again[i] {
				*t = st[i-1]
				continue
			}
			crowd, before := 1.0, t.active
			if others := total - t.weight*t.active; !alone && others > 0 {
				crowd += others
				if e.share.Mechanism == sharing.MechanismTimeSlicing {
					crowd *= 1 + s[costs.TurnsOverhead]*min(1, others)
				}
			}
			t.crowd = crowd
			t.settle(&e.tenants[i])
			changed = changed || math.Abs(t.active-before) > settled
		}
		if alone || !changed {
			break
		}
	}
	for i := range st {
		if e.again[i] {
			out[i] = out[i-1]
			continue
		}
		out[i] = e.read(i, st, setting(i), alone)
	}
	return out
}

// prepare computes what a tenant does alone on its share.
func (e *evaluation) prepare(d *Tenant, t *state, s *costs.Setting) {
	*t = state{}
	mps := e.share.Mechanism == sharing.MechanismMPS
	slowDecode := math.Pow(1/e.share.Bandwidth, s[costs.SliceDecoding])
	slowOther := costs.OnSlice(s[costs.SliceOther], e.share.SMs)
	t.blocking = s[costs.MPSBlocking] * s[costs.SMOther]
	if d.Decodes || d.Serving != nil {
		t.blocking = s[costs.MPSBlocking] * s[costs.SMDecoding]
	}
	if v := d.Serving; v != nil {
		context := v.Input + v.Output/2
		step := v.Weights/(e.machine.Bandwidth*s[costs.DecodeEfficiency]) + v.Layers*s[costs.StepPerLayer]/1e3
		kv := context * v.KVPerToken / (e.machine.Bandwidth * s[costs.DecodeEfficiency])
		t.stepHost, t.stepGPU = s[costs.HostFraction]*step, (1-s[costs.HostFraction])*step*slowDecode
		t.kvGPU = kv * slowDecode
		if mps {
			t.stepHost += v.Layers * s[costs.MPSStepPerLayer] / 1e3
		}
		floor := v.Layers * s[costs.PrefillPerLayer] / 1e3
		t.perInput, t.preFloor = 2*v.Parameters/(e.machine.FLOPs*s[costs.PrefillEfficiency]), floor
		t.slowPrefill = costs.PrefillOnSlice(e.share.SMs)
		t.preGPU = max(t.slowPrefill*t.perInput*v.Input, costs.LaunchBusy*floor)
		t.preHost = max(0, floor-t.preGPU)
		t.load = v.PerS * s[costs.LoadError]
		t.weight = t.stepGPU / (t.stepGPU + t.stepHost)
		t.active = min(1, t.load*(t.preHost+t.preGPU+v.Output*(t.stepHost+t.stepGPU)))
		if mps {
			t.weight *= t.blocking
		}
		return
	}
	slow := slowOther
	if d.Decodes {
		slow = slowDecode
	}
	host := 0.0
	if d.online() {
		host = otherHost
	}
	t.stepHost, t.stepGPU = host, (1-host)*slow
	t.load = min(0.999, d.Busy*s[costs.BusyError])
	t.weight = 1 - host
	t.active = min(1, t.load*(t.stepHost+t.stepGPU))
	if mps {
		t.weight *= t.blocking
	}
}

// settle brings a tenant's activity into line with its crowd.
func (t *state) settle(d *Tenant) {
	if v := d.Serving; v != nil {
		pre := t.preHost + t.preGPU*t.crowd
		a := t.stepHost + t.stepGPU*t.crowd
		room := 1 - t.load*pre - t.load*v.Output*t.kvGPU*t.crowd
		if room <= 0.01 {
			t.batch, t.token, t.active = math.Inf(1), math.Inf(1), 1
			return
		}
		t.token = a / room
		t.batch = t.load * v.Output * t.token
		if t.batch > cmp.Or(v.Sequences, usualSequences) {
			t.batch, t.active = math.Inf(1), 1
			return
		}
		inSystem := t.batch + t.load*pre
		t.active = 1 - math.Exp(-inSystem)
		t.episode = v.Output * t.token
		return
	}
	unit := t.stepHost + t.stepGPU*t.crowd
	if d.online() {
		t.active = min(1, t.load*unit)
	} else {
		t.active = t.load * unit / (t.load*unit + 1 - t.load)
	}
	t.token = unit
}

func (e *evaluation) read(i int, st []state, s *costs.Setting, alone bool) foreseen {
	d, t := &e.tenants[i], &st[i]
	f := foreseen{rate: 1, busy: t.active}
	// The tail sees more of its neighbours active than the mean.
	worst := 1.0
	if !alone {
		mean, variance, all := 0.0, 0.0, 0.0
		for j := range st {
			if j == i {
				continue
			}
			o := &st[j]
			mean += o.weight * o.active
			all += o.weight
			part := 1.0
			if t.episode > 0 && o.episode > 0 {
				part = o.episode / (o.episode + t.episode)
			} else if t.episode > 0 {
				part = 0.15
			}
			variance += o.weight * o.weight * o.active * (1 - o.active) * part
		}
		worst = 1 + min(all, mean+z99*math.Sqrt(variance))
		if e.share.Mechanism == sharing.MechanismTimeSlicing {
			worst *= 1 + s[costs.TurnsOverhead]
		}
		worst = max(worst, t.crowd)
	}
	if v := d.Serving; v != nil {
		e.serving(v, t, worst, s[costs.Burstiness]*s[costs.Burstiness], v.lengths(s), &f)
		return f
	}
	if !d.online() {
		f.rate = 1 / (t.load*(t.stepHost+t.stepGPU*t.crowd) + 1 - t.load)
		return f
	}
	f.busy = t.load * (t.stepHost + t.stepGPU*t.crowd)
	if f.busy >= 0.999 {
		for k := range f.p99 {
			f.p99[k], f.known[k] = math.Inf(1), d.Alone[k] > 0
		}
		f.busy = max(f.busy, 1)
		return f
	}
	cv2 := s[costs.Burstiness] * s[costs.Burstiness]
	own := t.stepHost + t.stepGPU*t.crowd
	tail := t.stepHost + t.stepGPU*worst
	grown := (own*tailOf(f.busy, cv2) + tail - own) / tailOf(t.load, cv2)
	for k, a := range d.Alone {
		if a == 0 {
			continue
		}
		f.known[k] = true
		if a *= s[costs.AloneError]; d.AloneSigma[k] > 0 {
			a = d.Alone[k] * math.Pow(s[costs.AloneError], d.AloneSigma[k]/costs.Priors[costs.AloneError].Sigma)
		}
		f.p99[k] = a * grown
		if k == costs.LatencyTPOT {
			f.p99[k] = a * tail
		}
	}
	return f
}

// tailOf is the P99 of a single server's latency over its mean service time: the service's own tail, and an exponential
// wait whose mean is Kingman's formula (J. F. C. Kingman, The single server queue in heavy traffic, Mathematical
// Proceedings of the Cambridge Philosophical Society 57(4), 1961).
func tailOf(busy, cv2 float64) float64 {
	if busy <= 0.01 {
		return longService
	}
	wait := (cv2 + serviceCV2) / 2 / (1 - busy)
	return 1 + math.Hypot(longService-1, wait*math.Log(busy/0.01))
}

func (e *evaluation) serving(v *Serving, t *state, worst, cv2, lengthSigma float64, f *foreseen) {
	f.known = [costs.LatencyCount]bool{true, true, true}
	if math.IsInf(t.batch, 1) {
		f.busy = 2
		for k := range f.p99 {
			f.p99[k] = math.Inf(1)
		}
		return
	}
	pre := t.preHost + t.preGPU*t.crowd
	preWorst := t.preHost + t.preGPU*worst
	// Time to first token: other prefills first, then its own, which may be long. Of those that arrive together at least
	// one waits for another.
	busy := t.load * pre
	long := math.Exp(z99*lengthSigma - lengthSigma*lengthSigma/2)
	ownLong := max(preWorst, t.preGPU*worst*e.lengthens(v, long))
	grows := e.computes(v) * t.preGPU * t.crowd / pre             // part of a prefill
	uneven := math.Expm1(lengthSigma*lengthSigma) * grows * grows // squared variation of prefills
	wait := 0.0
	if follows := followed(busy, cv2); max(busy, follows) > 0.01 {
		wait = pre * max(math.Log(0.01)/math.Log(follows)-0.5, (cv2+uneven)/2/(1-busy)*math.Log(max(1, busy/0.01)))
	}
	// A step that is under way ends before a prefill begins.
	rest := -math.Expm1(-t.batch) * (t.stepHost + t.stepGPU*t.crowd + t.kvGPU*t.crowd*t.batch) / 2
	f.p99[costs.LatencyTTFT] = pre + rest + math.Hypot(ownLong-pre, wait)
	// Time per output token: the batch that it meets, and the prefills of others, which weigh most in short answers.
	batch := t.batch + 1
	deep := batch + 1.5*math.Sqrt(t.batch*cv2)
	step := t.stepHost + t.stepGPU*worst + t.kvGPU*worst*deep
	f.p99[costs.LatencyTPOT] = step + e.interrupted(v, t, preWorst, cv2, lengthSigma)
	token := (t.stepHost + t.stepGPU*t.crowd + t.kvGPU*t.crowd*batch) / (1 - busy)
	mean := pre + v.Output*token
	longest := v.Output * long * max(token, 0.5*(token+step))
	prefills := z99 * preWorst * math.Sqrt((1+uneven)*cv2*t.load*(v.Output*t.token+pre))
	f.p99[costs.LatencyE2E] = mean + math.Hypot(math.Hypot(longest-v.Output*token, f.p99[costs.LatencyTTFT]-pre), prefills)
	f.busy = max(busy+t.load*v.Output*t.kvGPU*t.crowd, t.batch/max(1, cmp.Or(v.Sequences, usualSequences)))
}

// interrupted returns the time that other requests' prefills add to the P99 of the time per output token: those that it
// meets, of which one is long, or the answer short. What decides are those met while it decodes, which the longer
// answers do more, or those that waited while the request had its own prefill and come right after it; each with what
// arrives meanwhile. Of so few the largest outweighs the rest, as in sums of subexponential variables (P. Embrechts,
// C. Klueppelberg and T. Mikosch, Modelling Extremal Events, section 1.3).
func (e *evaluation) interrupted(v *Serving, t *state, pre, cv2, lengthSigma float64) float64 {
	added, variance := 0.0, lengthSigma*lengthSigma
	free := 1 - t.load*(t.preHost+t.preGPU*t.crowd)
	pre /= free
	behind := t.load * pre * (1 + (1-free)*(cv2+math.Expm1(variance))/2/free)
	for _, by := range [...]struct{ met, biased float64 }{{t.load * v.Output * t.token * cv2, 1},
		{max(behind*cv2, followed(behind, cv2)), 0}} {
		if by.met <= 0.01 {
			continue
		}
		z := lengthSigma * math.Sqrt2 * math.Erfinv(1-2*min(0.5, 0.01/by.met))
		for _, part := range [...]float64{0, math.Sqrt2 / 2} {
			long := max(pre, t.preGPU*t.crowd/free*e.lengthens(v, math.Exp(part*z-variance/2)))
			short := max(2, v.Output*math.Exp(by.biased*variance-variance/2-math.Sqrt(1-part*part)*z))
			added = max(added, (long+t.load*(short*t.token+pre)*pre)/(short-1))
		}
	}
	return added
}

// followed is the probability that a request is followed by another within a time in which as many come as mean says,
// where gaps are gamma distributed with a squared coefficient of variation: the first term of their distribution.
func followed(mean, cv2 float64) float64 { return min(0.9, math.Pow(mean/cv2, 1/cv2)) }

// computes returns the part of the GPU's part of a mean prefill that grows with the prompt: a launch-bound one does not
// at first.
func (e *evaluation) computes(v *Serving) float64 {
	compute := costs.PrefillOnSlice(e.share.SMs) * 2 * v.Parameters * v.Input /
		(e.machine.FLOPs * costs.Medians[costs.PrefillEfficiency])
	return compute / max(compute, costs.LaunchBusy*v.Layers*costs.Medians[costs.PrefillPerLayer]/1e3)
}

// lengthens returns the factor by which the GPU's part of a prefill is longer for a prompt that is long times the mean.
func (e *evaluation) lengthens(v *Serving, long float64) float64 { return max(1, long*e.computes(v)) }
