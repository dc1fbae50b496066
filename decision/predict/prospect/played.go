package prospect

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/internal/batching"
	"github.com/cotenant/cotenant/internal/memo"
	"github.com/cotenant/cotenant/sharing"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	simulatedRequests = 2000    // of the tenant with the fewest
	simulatedTogether = 8000.0  // of those that do the same: more tell no more
	unevenPart        = 0.5     // of them in uneven bursts, which make a bound and not a median
	fewestSimulated   = 400     // with fewer a P99 is chance
	mostSimulated     = 160_000 // events
	mostQueued        = 400     // with more a server can't keep up
	warmUp            = 20      // one request in as many is not counted
	windowRequests    = 1000    // by which somebody will judge a P99
	waitTogether      = 2       // requests that wait for the same: so many tell as much as one
	leastSpread       = 0.05    // of the logarithm of a P99: that of 2,000 requests varies by as much
)

// Simulate takes the place of the closed forms' medians: it plays the tenants request by request, every quantity at its
// median, and moves the bounds that [Prospects] found along. What uncertain quantities do is left as it is, the error
// of the closed forms goes. It takes milliseconds; the same input gives the same output. Latencies without a limit are
// left as they are. The prospects must be those of the same arguments.
func Simulate(m costs.Machine, share costs.Share, tenants []Tenant, confidence float64, out []Prospect) {
	z := distuv.UnitNormal.Quantile(confidence)
	e := evaluation{machine: m, share: share}
	order := make([]int, len(tenants)) // by what they do: it is not chance that tells the same tenants apart
	keys := make([][]byte, len(tenants))
	for i := range tenants {
		order[i], keys[i] = i, tenants[i].key(nil)
	}
	slices.SortStableFunc(order, func(a, b int) int { return bytes.Compare(keys[a], keys[b]) })
	for _, i := range order {
		e.tenants = append(e.tenants, tenants[i])
	}
	uneven := e
	uneven.uneven = &movesAt(confidence).to[together][1]
	both := []*evaluation{&e, &uneven}
	if _, hang := hangs(tenants, out); !hang {
		both = both[:1] // by closed forms
	}
	_, end := memo.Ahead(len(both), func(i int) ([]sight, error) { return both[i].sights(), nil })
	defer end()
	usual := e.sights()
	for k, s := range usual {
		i := order[k]
		d, o := &tenants[i], &out[i]
		o.Simulated = true
		if !d.online() {
			if rate := s.rate; rate > 0 && rate < 1 && o.Rate.Value < 1 {
				// What is uncertain of a delay grows with it.
				part := min(1, math.Log(rate)/math.Log(o.Rate.Value))
				o.Rate = Bounds{rate, rate * math.Pow(o.Rate.Low/o.Rate.Value, part),
					rate * math.Pow(o.Rate.High/o.Rate.Value, part)}
			}
			continue
		}
		for k := range costs.LatencyCount {
			if d.Limits[k] == 0 {
				continue
			}
			v, spread := s.p99[k], s.spread[k]
			if v == 0 || o.P99[k].Value <= 0 || math.IsInf(o.P99[k].Value, 1) {
				continue
			}
			if d.Serving == nil { // its P99 alone is stated: the simulation tells how it grows
				v *= d.Alone[k] / s.alone
			}
			o.P99[k].instead(z*formError[k], z*formError[k], z*min(spread, formError[k]))
			o.P99[k].Scale(v / o.P99[k].Value)
		}
		o.raise(d, o.Floor)
	}
	// Bursts of uneven requests are played where the bound of a time per output token hangs on them.
	if kept, hang := hangs(tenants, out); !kept || !hang {
		return
	}
	for k, s := range uneven.sights() {
		b := &out[order[k]].P99[costs.LatencyTPOT]
		if v := usual[k].p99[costs.LatencyTPOT]; v > 0 && s.p99[costs.LatencyTPOT] > 0 {
			b.instead(0, out[order[k]].uneven, max(0, math.Log(s.p99[costs.LatencyTPOT]/v)))
		}
	}
}

// hangs says whether all tenants keep their objectives without bursts of uneven requests, and whether any may miss one
// with them.
func hangs(tenants []Tenant, out []Prospect) (kept, hang bool) {
	kept = true
	for i := range out {
		least, limit := out[i], tenants[i].Limits[costs.LatencyTPOT]
		if most := least.P99[costs.LatencyTPOT]; tenants[i].Serving != nil {
			most.instead(0, least.uneven, mostUneven)
			least.P99[costs.LatencyTPOT].instead(0, least.uneven, 0)
			hang = hang || limit > 0 && most.High > limit
		}
		kept = kept && least.Kept(&tenants[i]) == sharing.AnswerYes
	}
	return kept, hang
}

// mostUneven is more than bursts of uneven requests add to the logarithm of a time per output token.
const mostUneven = 1.4

// Scale multiplies the figure and its bounds.
func (b *Bounds) Scale(f float64) { b.Value, b.Low, b.High = f*b.Value, f*b.Low, f*b.High }

// instead takes a part of each bound out of their logarithms and puts another in, below only where something is taken.
func (b *Bounds) instead(low, high, in float64) {
	side := func(bound, out float64) float64 {
		d := math.Log(bound / b.Value)
		return math.Sqrt(max(0, d*d-out*out) + in*in)
	}
	b.High = b.Value * math.Exp(side(b.High, high))
	if low > 0 {
		b.Low = b.Value * math.Exp(-side(b.Low, low))
	}
}

// player is a tenant while it is played: a replica on the GPU that all share, and its clients. A request to what is no
// model server is a prefill of one token. Prefills that wait run one after another, before anybody decodes again, and
// tenants slow each other down by the prior's crowd, as the closed forms have it: turns and SMs need profiles. Times
// are in ms where the replica has them, else in seconds.
type player struct {
	batching.Replica
	state
	d       *Tenant
	draws   *draws
	drawn   int
	due     *draw   // of the next request
	perS    float64 // requests a second, 0 = it asks again after a pause
	pause   float64 // mean
	cycle   float64 // seconds from one request to the next, alone
	service float64 // mean, of what is no model server
	index   int
	coming  *arrivals
	samples [costs.LatencyCount + 1][]float64 // the last alone on the GPU, of what is no model server
	free    float64                           // when its server would be free, alone
	took    float64                           // seconds of all that is done, of work that asks again after a pause
	done    int
	stuck   bool
	spare   batching.Spares
}

// serviceParts is the number of parts in which a request's service is counted, where it is no model server.
const serviceParts = 1 << 20

func (e *evaluation) play(on *stage) []player {
	players := on.ready(len(e.tenants))
	g := &batching.GPU{Beside: e.beside}
	coming := &arrivals{at: make([]float64, len(players))}
	for i := range players {
		p := &players[i]
		p.index, p.coming = i, coming
		p.prepare(e, i)
		p.draws = on.stream(i, p.source(), p.d.Serving, &costs.Medians)
		if p.d.Serving != nil && e.uneven != nil {
			p.draws = on.stream(i, sourceUneven, p.d.Serving, e.uneven)
		}
		p.Replica = batching.Replica{To: p, Rates: p.rates(e), GPU: g}
		coming.set(i, 1e3*p.gap())
		g.Replicas = append(g.Replicas, &p.Replica)
	}
	g.Retime()
	until, part := 0.0, 1.0
	if e.uneven != nil {
		part = unevenPart
	}
	for _, same := range alike(players) {
		until = max(until, 1e3*same[0].cycle*part*min(simulatedRequests, simulatedTogether/float64(len(same))))
	}
	for range mostSimulated {
		at := min(until, coming.first())
		if g.Next <= at {
			g.Fire()
			continue
		}
		if at == until {
			break
		}
		p := &players[coming.who]
		if p.send(at); p.stuck {
			break
		}
	}
	for i := range players {
		players[i].stuck = players[i].stuck || players[i].Waiting.Len() > mostQueued/4
	}
	return players
}

// prepare fills in what the tenant does.
func (p *player) prepare(e *evaluation, i int) {
	p.d = &e.tenants[i]
	e.prepare(p.d, &p.state, &costs.Medians)
	switch v := p.d.Serving; {
	case v != nil:
		p.perS = v.PerS
	case p.d.online():
		p.service = 0.1
		cv2 := costs.Medians[costs.Burstiness] * costs.Medians[costs.Burstiness]
		for _, a := range [...]float64{p.d.Alone[costs.LatencyTTFT], p.d.Alone[costs.LatencyE2E]} {
			if a > 0 {
				p.service = a / tailOf(p.load, cv2)
			}
		}
		p.perS = p.load / p.service
	default:
		p.service = 0.1
		p.pause = p.service * (1 - p.load) / max(p.load, 0.001)
		p.cycle = p.service + p.pause
	}
	if p.perS > 0 {
		p.cycle = 1 / p.perS
	}
}

// alike parts the players by what they do. Those that do the same are asked together: only chance sets them apart, and
// the worst of them would be the unluckiest.
func alike(players []player) (all [][]player) {
	for from, to := 0, 0; from < len(players); from = to {
		key := players[from].d.key(nil)
		for to < len(players) && bytes.Equal(key, players[to].d.key(nil)) {
			to++
		}
		all = append(all, players[from:to])
	}
	return all
}

// rates are the tenant's costs as a replica has them.
func (p *player) rates(e *evaluation) batching.Rates {
	c := batching.Rates{Share: 1, Sequences: 1, PrefillsFirst: true, SlowPrefill: 1}
	if e.share.Mechanism == sharing.MechanismMPS {
		c.Share = p.blocking
	}
	v := p.d.Serving
	if v == nil {
		c.Token, c.HostToken = 1e3*p.service*p.stepGPU/serviceParts, 1e3*p.service*p.stepHost/serviceParts
		return c
	}
	c.Step, c.Host, c.Sequence = 1e3*(p.stepHost+p.stepGPU), 1e3*p.stepHost, 1e3*p.kvGPU
	c.Prefill, c.Token = 1e3*preFloor(v, &costs.Medians), 1e3*e.perInput(v, &costs.Medians)
	c.Busy, c.SlowPrefill = costs.LaunchBusy, p.slowPrefill
	c.Sequences = int(cmp.Or(v.Sequences, usualSequences))
	return c
}

// beside sets the units on a GPU whose tenants are played at priors: the work of
// each takes longer by what the others do.
func (e *evaluation) beside(g *batching.GPU) {
	total := 0.0
	for _, r := range g.Replicas {
		if a := &r.Act; a.Kind.Works() && !e.alone() {
			if a.Cost == 0 { // to a neighbour: the share of the GPU that it takes
				a.Cost = a.GPU / a.Alone() * a.Share
			}
			total += a.Cost
		}
	}
	for _, r := range g.Replicas {
		if a := &r.Act; a.Kind.Works() {
			a.Unit = a.Alone()
			if others := total - a.Cost; others > 1e-9 {
				a.Unit = max(1e-9, a.Host+a.GPU*crowded(others, r.To.(*player).turns, 1))
			}
		}
	}
}

func (p *player) source() source {
	switch {
	case p.d.Serving != nil:
		return sourcePrompts
	case p.perS > 0:
		return sourceClients
	}
	return sourcePauses
}

func (p *player) gap() float64 {
	p.due = p.draws.at(p.drawn)
	p.drawn++
	if p.perS == 0 {
		return p.pause * p.due.gap
	}
	return p.due.gap / p.perS
}

func (p *player) send(now float64) {
	f := p.spare.Next(batching.Flight{Came: now, Input: serviceParts, Output: 1})
	switch v, due := p.d.Serving, p.due; {
	case v != nil:
		f.Input, f.Output = length(v.Input*due.in), length(v.Output*due.out)
	case p.perS > 0:
		f.Input = int(serviceParts * due.in)
		p.free = max(p.free, now/1e3) + p.service*float64(f.Input)/serviceParts
		p.sample(costs.LatencyCount, 1e3*p.free-now)
	}
	next := math.Inf(1)
	if p.perS > 0 {
		next = now + 1e3*p.gap()
	}
	p.coming.set(p.index, next)
	p.GPU.Arrive(&p.Replica, f, now)
	p.stuck = p.perS > 0 && p.Waiting.Len() > mostQueued
}

func length(tokens float64) int { return int(max(1, math.Round(tokens))) }

// Started implements batching.Audience.
func (p *player) Started(f *batching.Flight) {
	if p.d.Serving != nil {
		p.sample(costs.LatencyTTFT, f.First-f.Came)
	}
}

// Ended implements batching.Audience.
func (p *player) Ended(f *batching.Flight, now float64) {
	if p.perS == 0 {
		p.took, p.done = p.took+(now-f.Came)/1e3, p.done+1
	} else {
		p.sample(costs.LatencyE2E, now-f.Came)
	}
	if f.Output > 1 {
		p.sample(costs.LatencyTPOT, (now-f.First)/float64(f.Output-1))
	}
	p.spare = append(p.spare, f)
	if p.perS == 0 {
		p.coming.set(p.index, now+1e3*p.gap())
	}
}

// Tokens implements batching.Audience.
func (p *player) Tokens(int64, float64) {}

func (p *player) sample(k int, ms float64) { p.samples[k] = append(p.samples[k], ms/1e3) }
