// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"math/rand/v2"
)

// fate holds the random numbers of a workload's requests in a world, drawn when first
// needed and used again in every simulation: common random numbers.
type fate struct {
	rng  *rand.Rand
	kind drive
	k    float64 // shape of the gaps between requests

	lengths float64 // sigma of their logarithm
	all     []draw  // with room for all, so that none moves
}

// draw holds the random numbers of a request: the gap before it, of mean 1, and its lengths or work over their means.
type draw struct{ gap, in, out float64 }

// drive is the process that generates a workload's requests.
type drive uint8

const (
	byThought drive = iota // it asks again after thinking
	byClients
	byPrompts // of a model server
)

const fates = 2048

func fateOf(rng *rand.Rand, t *tenant) *fate {
	f := &fate{rng: rng, lengths: t.lengths, k: 1 / (t.cv * t.cv), all: make([]draw, 0, fates)}
	switch {
	case t.llm != nil:
		f.kind = byPrompts
	case t.rate > 0:
		f.kind = byClients
	}
	return f
}

// at is a request's draw.
func (f *fate) at(i int) *draw {
	for len(f.all) <= i {
		f.all = append(f.all, f.draw())
	}
	return &f.all[i]
}

func (f *fate) draw() draw {
	length := func() float64 { return math.Exp(f.lengths*f.rng.NormFloat64() - f.lengths*f.lengths/2) }
	switch f.kind {
	case byPrompts:
		return draw{gamma(f.rng, f.k) / f.k, length(), length()}
	case byClients:
		return draw{gap: gamma(f.rng, f.k) / f.k, in: math.Exp(0.3*f.rng.NormFloat64() - 0.045)}
	}
	return draw{gap: f.rng.ExpFloat64(), in: 1}
}

// gamma draws from a gamma distribution of shape k and scale 1 (Marsaglia and Tsang).
func gamma(rng *rand.Rand, k float64) float64 {
	if k < 1 {
		return gamma(rng, k+1) * math.Pow(rng.Float64(), 1/k)
	}
	d := k - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		u := rng.Float64()
		if u < 1-0.0331*(x*x)*(x*x) || math.Log(u) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
