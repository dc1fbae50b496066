package prospect

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/internal/memo"
	"github.com/cotenant/cotenant/internal/stats"
)

// p99 holds the latencies of clients, in seconds: infinite where they can't be kept up with, 0 where too few requests
// were played to say. spread is how much the P99s of as many requests as it will be judged by differ.
func p99(same []player, k int) (v, spread float64) {
	if slices.ContainsFunc(same, func(p player) bool { return p.stuck }) {
		return math.Inf(1), leastSpread
	}
	if k == costs.LatencyTPOT { // none where it is no model server
		return tail(same, k, windowRequests)
	}
	if same[0].d.Serving == nil {
		k = costs.LatencyE2E // one answer, at the end
	}
	return tail(same, k, windowRequests/waitTogether)
}

// tail is the P99 of the players' latencies, but those of the start, and the standard deviation of its logarithm over
// windows of n of them: where the largest lie far apart it depends on which of them a window happens to hold.
func tail(same []player, k int, n float64) (p99, spread float64) {
	all := 0
	for i := range same {
		v := same[i].samples[k]
		all += len(v) - len(v)/warmUp
	}
	if all < fewestSimulated {
		return 0, 0
	}
	rank := func(q float64) int { return int(stats.Rank(q, int64(all))) }
	off := math.Sqrt(0.99 * 0.01 / n)
	first := rank(0.99 - off)
	most := make([]float64, all-first+1) // the largest, ascending: sorting all takes a fifth of the simulation's time
	for i := range same {
		v := same[i].samples[k]
		for _, x := range v[len(v)/warmUp:] {
			if x > most[0] {
				i, _ := slices.BinarySearch(most, x)
				copy(most, most[1:i])
				most[i-1] = x
			}
		}
	}
	p99 = most[rank(0.99)-first]
	return p99, max(leastSpread, math.Log(most[rank(0.99+off)-first]/most[0])/2)
}

// rate is the part of their rate alone that players without objectives got.
func rate(same []player) float64 {
	took, done := 0.0, 0
	for i := range same {
		took, done = took+same[i].took, done+same[i].done
	}
	if done < fewestSimulated {
		return 0
	}
	return same[0].cycle / (took/float64(done) + same[0].pause)
}

// sight holds the latencies that a tenant saw which was played: its P99s, and how much they differ from
// window to window, where it has limits, in seconds.
type sight struct {
	rate        float64
	p99, spread [costs.LatencyCount]float64
	alone       float64 // its P99 if it had been alone, of what is no model server
}

// simulated keeps the results of simulations by their input: deciding tries the same tenants beside each other again
// and again, for one workload and for the next that is like it, and once more for each thing that may turn out
// otherwise.
var simulated memo.Table[string, []sight]

// mostSights bounds what is kept to some megabytes.
const mostSights = 2048

// key tells evaluations apart whose tenants see different things when they are played.
func (e *evaluation) key() string {
	b := floats(make([]byte, 0, 64+128*len(e.tenants)), float64(e.share.Mechanism), e.share.SMs, e.share.Bandwidth,
		e.machine.Bandwidth, e.machine.FLOPs)
	if e.uneven != nil {
		b = floats(b, e.uneven[costs.LengthSigma])
	}
	for i := range e.tenants {
		b = e.tenants[i].key(b)
	}
	return string(b)
}

// key appends what tells tenants apart when they are played.
func (d *Tenant) key(b []byte) []byte {
	v := cmp.Or(d.Serving, &Serving{})
	b = floats(b, v.PerS, v.Weights, v.Input, v.Output, d.Busy, d.Host)
	b = floats(b, d.Alone[:]...)
	b = floats(b, d.Limits[:]...)
	b = floats(b, v.Parameters, v.KVPerToken, v.Layers, v.Sequences, v.LengthSigma)
	b = strconv.AppendBool(b, d.Decodes)
	b = strconv.AppendBool(b, d.Online)
	return strconv.AppendBool(b, d.Serving != nil)
}

// floats appends numbers of 0 and more so that bytes are ordered as they are.
func floats(b []byte, v ...float64) []byte {
	for _, x := range v {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// sights plays the tenants, unless the same were played before.
func (e *evaluation) sights() []sight {
	out, _ := simulated.Of(e.key(), mostSights, func() ([]sight, error) { return e.played(), nil })
	return out
}

func (e *evaluation) played() (out []sight) {
	on := stages.Get().(*stage)
	defer stages.Put(on)
	for _, same := range alike(e.play(on)) {
		var s sight
		if !same[0].d.online() {
			s.rate = rate(same)
		} else if same[0].d.Serving == nil {
			s.alone, _ = tail(same, costs.LatencyCount, windowRequests)
		}
		for k, limit := range same[0].d.Limits {
			if limit > 0 {
				s.p99[k], s.spread[k] = p99(same, k)
			}
		}
		out = append(out, slices.Repeat([]sight{s}, len(same))...)
	}
	return out
}
