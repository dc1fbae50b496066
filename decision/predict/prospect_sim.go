package predict

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	simulatedRequests = 2000    // of the tenant with the fewest
	fewestSimulated   = 400     // with fewer a P99 is chance
	mostSimulated     = 120_000 // events
	mostQueued        = 400     // with more a server can't keep up
	warmUp            = 20      // one request in as many is not counted
	windowRequests    = 1000    // by which somebody will judge a P99
	waitTogether      = 2       // requests that wait for the same: so many tell as much as one
	leastSpread       = 0.05    // of the logarithm of a P99: that of 2,000 requests varies by as much
)

// Simulate takes the place of the closed forms' medians: it plays the tenants
// request by request, every quantity at its median, and moves the bounds that
// [Prospects] found along. What uncertain quantities do is left as it is, the
// error of the closed forms goes. It takes milliseconds; the same input gives
// the same output. Latencies without a limit are left as they are. The prospects must be those of the same arguments.
func Simulate(m Machine, share Share, tenants []Tenant, confidence float64, out []Prospect) {
	z := distuv.UnitNormal.Quantile(confidence)
	e := evaluation{machine: m, share: share, tenants: tenants}
	players := e.play()
	for i := range out {
		p, o := &players[i], &out[i]
		o.Simulated = true
		if !p.d.online() {
			if rate := p.rate(); rate > 0 && rate < 1 && o.Rate.Value < 1 {
				// What is uncertain of a delay grows with it.
				part := min(1, math.Log(rate)/math.Log(o.Rate.Value))
				o.Rate = Bounds{rate, rate * math.Pow(o.Rate.Low/o.Rate.Value, part), rate * math.Pow(o.Rate.High/o.Rate.Value, part)}
			}
			continue
		}
		for k := range LatencyCount {
			if p.d.Limits[k] == 0 {
				continue
			}
			v, spread := p.p99(k)
			if v == 0 || o.P99[k].Value <= 0 || math.IsInf(o.P99[k].Value, 1) {
				continue
			}
			if p.d.Serving == nil { // its P99 alone is stated: the simulation tells how it grows
				alone, _ := tail(p.lone, windowRequests)
				v *= p.d.Alone[k] / alone
			}
			o.P99[k].instead(z*formError[k], z*min(spread, formError[k]))
			o.P99[k].scale(v / o.P99[k].Value)
		}
	}
}

func (b *Bounds) scale(f float64) { b.Value, b.Low, b.High = f*b.Value, f*b.Low, f*b.High }

// instead takes one part out of the bounds' logarithms and puts another in.
func (b *Bounds) instead(out, in float64) {
	side := func(bound float64) float64 {
		d := math.Log(bound / b.Value)
		return math.Sqrt(max(0, d*d-out*out) + in*in)
	}
	b.Low, b.High = b.Value*math.Exp(-side(b.Low)), b.Value*math.Exp(side(b.High))
}

// player is a tenant while it is played. Times are in seconds.
type player struct {
	state
	d       *Tenant
	rng     *rand.Rand
	shape   float64 // of the gamma distribution of the gaps between requests
	perS    float64 // requests a second, 0 = it asks again after a pause
	pause   float64 // mean
	service float64 // mean, of what is no model server
	slots   int
	context float64 // tokens of a request in the mean
	next    float64 // arrival
	waiting []job
	running []job
	entry   float64 // part of a prefill or service that is left
	pre     [2]float64
	ticks   float64 // decode steps done
	samples [LatencyCount][]float64
	lone    []float64 // what it would have been alone, of what is no model server
	free    float64   // when its server would be free, alone
	took    float64   // seconds of all that is done, of work that asks again after a pause
	done    int
	stuck   bool

	// Of what it does until it arrives or finishes; see refresh. duty is 0 while
	// it is idle.
	duty      float64 // what its activity costs a neighbour
	host, gpu float64 // seconds of a step, or of a whole prefill or service
	mark      float64 // steps at which something happens
	unit      float64 // seconds for a step, or a whole prefill or service, now
}

type job struct{ at, first, mark, out, in float64 }

// play runs the tenants event by event.
func (e *evaluation) play() []player {
	players := make([]player, len(e.tenants))
	streams := e.streams()
	until := 0.0
	for i := range players {
		p := &players[i]
		p.d = &e.tenants[i]
		e.prepare(p.d, &p.state, &medians)
		p.rng = rand.New(rand.NewPCG(simulationSeed, streams[i]))
		p.shape = 1 / (medians[burstiness] * medians[burstiness])
		p.slots = 1
		switch v := p.d.Serving; {
		case v != nil:
			p.perS, p.context = v.PerS, v.Input+v.Output/2
			p.slots = int(orDefault(v.Sequences, 64))
		case p.d.online():
			p.service = 0.1
			cv2 := medians[burstiness] * medians[burstiness]
			for _, a := range [...]float64{p.d.Alone[LatencyTTFT], p.d.Alone[LatencyE2E]} {
				if a > 0 {
					p.service = a / tailOf(p.load, cv2)
				}
			}
			p.perS = p.load / p.service
		default:
			p.service = 0.1
			p.pause = p.service * (1 - p.load) / max(p.load, 0.001)
			until = max(until, simulatedRequests*(p.service+p.pause))
		}
		if p.perS > 0 {
			until = max(until, simulatedRequests/p.perS)
		}
		p.next = p.gap()
	}
	for i := range players {
		if p := &players[i]; p.perS > 0 {
			for k := range p.samples {
				p.samples[k] = make([]float64, 0, int(min(1.1*until*p.perS, mostSimulated/2))+16)
			}
		}
	}
	mps := e.share.Mechanism == sharing.MechanismMPS
	turns := e.share.Mechanism == sharing.MechanismTimeSlicing
	now := 0.0
	for range mostSimulated {
		total := 0.0
		for i := range players {
			total += players[i].duty
		}
		step, who, arrives := until-now, -1, false
		for i := range players {
			p := &players[i]
			if d := p.next - now; d < step {
				step, who, arrives = max(0, d), i, true
			}
			if p.duty == 0 {
				continue
			}
			crowd := 1.0
			if mps || turns {
				crowd += total - p.duty
				if turns && total > p.duty {
					crowd *= 1 + medians[turnsOverhead]
				}
			}
			p.unit = p.host + p.gpu*crowd
			if d := p.unit * p.left(); d < step {
				step, who, arrives = d, i, false
			}
		}
		if who < 0 {
			break
		}
		now += step
		for i := range players {
			if p := &players[i]; p.duty > 0 {
				p.advance(step / p.unit)
			}
		}
		p := &players[who]
		if arrives {
			p.arrive(now)
		} else {
			p.finish(now)
		}
		if p.refresh(mps); p.stuck {
			break
		}
	}
	for i := range players {
		players[i].stuck = players[i].stuck || len(players[i].waiting) > mostQueued/4
	}
	return players
}

// streams are the tenants' streams of random numbers, by what they do and not by
// their order: so that chance does not tell the same tenants apart.
func (e *evaluation) streams() []uint64 {
	order := make([]int, len(e.tenants))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		s, t := &e.tenants[a], &e.tenants[b]
		v, w := orIdle(s.Serving), orIdle(t.Serving)
		return cmp.Or(cmp.Compare(v.PerS, w.PerS), cmp.Compare(v.Weights, w.Weights), cmp.Compare(v.Input, w.Input), cmp.Compare(v.Output, w.Output),
			cmp.Compare(s.Busy, t.Busy), slices.Compare(s.Alone[:], t.Alone[:]))
	})
	out := make([]uint64, len(order))
	for rank, i := range order {
		out[i] = uint64(rank)
	}
	return out
}

func orIdle(v *Serving) *Serving {
	if v == nil {
		return &Serving{}
	}
	return v
}

// refresh works out what the player does from now on.
func (p *player) refresh(mps bool) {
	if p.duty = 0; p.entry == 0 && len(p.running) == 0 {
		return
	}
	p.host, p.gpu = p.parts()
	p.duty = p.gpu / (p.host + p.gpu)
	if mps {
		p.duty *= p.blocking
	}
	p.mark = math.Inf(1)
	for i := range p.running {
		p.mark = min(p.mark, p.running[i].mark)
	}
}

// parts are the host's and the GPU's seconds of what the player does now: a
// decode step, a prefill or a request.
func (p *player) parts() (host, gpu float64) {
	switch {
	case p.d.Serving == nil:
		return p.service * p.stepHost, p.service * p.stepGPU
	case p.entry > 0:
		return p.pre[0], p.pre[1]
	}
	return p.stepHost, p.stepGPU + p.kvGPU*float64(len(p.running))
}

// left is how many units are left until something happens.
func (p *player) left() float64 {
	if p.entry > 0 {
		return p.entry
	}
	return max(0, p.mark-p.ticks)
}

func (p *player) advance(units float64) {
	if p.entry > 0 {
		p.entry = max(1e-12, p.entry-units)
		return
	}
	p.ticks += units
}

// gap draws the time to the next request.
func (p *player) gap() float64 {
	if p.perS == 0 {
		return p.pause * p.rng.ExpFloat64()
	}
	return distuv.Gamma{Alpha: p.shape, Beta: p.shape * p.perS, Src: p.rng}.Rand()
}

func (p *player) arrive(now float64) {
	j := job{at: now, mark: 1}
	switch v := p.d.Serving; {
	case v != nil:
		j.in, j.out = p.length(v.Input), p.length(v.Output)
	case p.perS > 0:
		j.mark = math.Exp(serviceSigma*p.rng.NormFloat64() - serviceSigma*serviceSigma/2)
		p.free = max(p.free, now) + p.service*j.mark
		p.lone = append(p.lone, p.free-now)
	}
	p.waiting = append(p.waiting, j)
	p.next = math.Inf(1)
	if p.perS > 0 {
		p.next = now + p.gap()
		p.stuck = len(p.waiting) > mostQueued
	}
	p.start()
}

func (p *player) length(mean float64) float64 {
	return max(1, math.Round(mean*math.Exp(lengthSigma*p.rng.NormFloat64()-lengthSigma*lengthSigma/2)))
}

// start begins a prefill or a service where one waits and there is a slot.
func (p *player) start() {
	if p.entry > 0 || len(p.waiting) == 0 || len(p.running) >= p.slots {
		return
	}
	if p.d.Serving == nil {
		p.entry = p.waiting[0].mark
		return
	}
	p.entry = 1
	gpu := max(p.perInput*p.waiting[0].in, launchBusy*p.preFloor)
	p.pre = [2]float64{max(0, p.preFloor-gpu) + 1e-6, gpu * p.slowPrefill}
}

func (p *player) finish(now float64) {
	switch {
	case p.entry > 0:
		p.entry = 0
		j := p.waiting[0]
		p.waiting = slices.Delete(p.waiting, 0, 1)
		if p.perS == 0 {
			p.took, p.done = p.took+now-j.at, p.done+1
			p.next = now + p.gap()
			break
		}
		if p.d.Serving == nil {
			p.sample(LatencyE2E, now-j.at)
			break
		}
		p.sample(LatencyTTFT, now-j.at)
		if j.first, j.mark = now, p.ticks+j.out-1; j.out > 1 {
			p.running = append(p.running, j)
		}
	default:
		p.running = slices.DeleteFunc(p.running, func(j job) bool {
			if j.mark > p.ticks+1e-9 {
				return false
			}
			p.sample(LatencyTPOT, (now-j.first)/(j.out-1))
			p.sample(LatencyE2E, now-j.at)
			return true
		})
	}
	p.start()
}

func (p *player) sample(k int, v float64) { p.samples[k] = append(p.samples[k], v) }

// p99 is what its clients saw, in seconds: infinite where it can't keep up, 0
// where too few requests were played to say. spread is how much the P99s of as
// many requests as it will be judged by differ.
func (p *player) p99(k int) (v, spread float64) {
	if p.stuck {
		return math.Inf(1), leastSpread
	}
	s := p.samples[k]
	if p.d.Serving == nil && k == LatencyTTFT {
		s = p.samples[LatencyE2E] // one answer, at the end
	}
	if k == LatencyTPOT && p.d.Serving == nil {
		return 0, 0
	}
	if k == LatencyTPOT {
		return tail(s, windowRequests)
	}
	return tail(s, windowRequests/waitTogether)
}

// tail is the P99 of latencies, and the standard deviation of its logarithm over
// windows of n of them: where the largest lie far apart it depends on which of
// them a window happens to hold.
func tail(v []float64, n float64) (p99, spread float64) {
	if len(v) < fewestSimulated {
		return 0, 0
	}
	v = slices.Clone(v[len(v)/warmUp:])
	slices.Sort(v)
	off := math.Sqrt(0.99 * 0.01 / n)
	return stats.NearestRank(v, 0.99), max(leastSpread, math.Log(stats.NearestRank(v, 0.99+off)/stats.NearestRank(v, 0.99-off))/2)
}

// rate is the part of its rate alone that work without objectives got.
func (p *player) rate() float64 {
	if p.done < fewestSimulated {
		return 0
	}
	return (p.service + p.pause) / (p.took/float64(p.done) + p.pause)
}
