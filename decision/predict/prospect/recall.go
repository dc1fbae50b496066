package prospect

import (
	"encoding/binary"
	"math"

	"github.com/cotenant/cotenant/internal/memo"

	"github.com/cotenant/cotenant/decision/predict/costs"
)

// sight is what a tenant that was played saw: its P99s, and how much they differ from
// window to window, where it has limits, in seconds.
type sight struct {
	rate        float64
	p99, spread [costs.LatencyCount]float64
	alone       float64 // its P99 if it had been alone, of what is no model server
}

// simulated is what simulations showed, by what was played: deciding tries the same tenants beside each other again and
// again, for one workload and for the next that is like it, and once more for each thing that may turn out otherwise.
var simulated memo.Table[string, []sight]

// mostSights bounds what is kept to some megabytes.
const mostSights = 2048

// key tells evaluations apart whose tenants see different things when they are played.
func (e *evaluation) key() string {
	b := make([]byte, 0, 64+128*len(e.tenants))
	add := func(v ...float64) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	flag := func(set bool) {
		if set {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	add(float64(e.share.Mechanism), e.share.SMs, e.share.Bandwidth, e.machine.Bandwidth, e.machine.FLOPs)
	for i := range e.tenants {
		d := &e.tenants[i]
		add(d.Busy)
		add(d.Alone[:]...)
		add(d.Limits[:]...)
		flag(d.Decodes)
		flag(d.Online)
		flag(d.Serving != nil)
		if v := d.Serving; v != nil {
			add(v.PerS, v.Input, v.Output, v.Weights, v.Parameters, v.KVPerToken, v.Layers, v.Sequences)
		}
	}
	return string(b)
}

// sights plays the tenants, unless the same were played before.
func (e *evaluation) sights() []sight {
	key := e.key()
	if v, ok := simulated.Get(key); ok {
		return v
	}
	on := stages.Get().(*stage)
	defer stages.Put(on)
	out := make([]sight, len(e.tenants))
	for i, p := range e.play(on) {
		s := &out[i]
		if !p.d.online() {
			s.rate = p.rate()
			continue
		}
		for k, limit := range p.d.Limits {
			if limit > 0 {
				s.p99[k], s.spread[k] = p.p99(k)
			}
		}
		if p.d.Serving == nil {
			s.alone, _ = tail(p.lone, windowRequests)
		}
	}
	simulated.Put(key, out, mostSights)
	return out
}
