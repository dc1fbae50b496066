// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// unitP99 returns the P99 of the latency of a lone G/G/1 server over its mean service
// time, by its utilisation and the coefficient of variation of the gaps between
// requests: interpolated in a table of simulations, each made when it is first needed.
var unitP99 = func() func(busy, cv float64) float64 {
	const steps = 20
	cvs := [...]float64{0.5, 1, 1.25, 1.5, 1.75, 2, 2.5, 3.5}
	var table [len(cvs)][steps]float64
	var mu sync.Mutex
	fill := func(c, b int) float64 {
		if table[c][b] == 0 {
			busy := (float64(b) + 0.5) / steps
			rng := rand.New(rand.NewPCG(uint64(c), uint64(b)))
			k := 1 / (cvs[c] * cvs[c])
			free, at := 0.0, 0.0
			var v []float64
			for range 40_000 {
				at += gamma(rng, k) / (k * busy)
				free = max(free, at) + math.Exp(0.3*rng.NormFloat64()-0.045)
				v = append(v, free-at)
			}
			slices.Sort(v)
			table[c][b] = v[int(0.99*float64(len(v)))]
		}
		return table[c][b]
	}
	return func(busy, cv float64) float64 {
		mu.Lock()
		defer mu.Unlock()
		b := min(max(busy*steps-0.5, 0), steps-1.001)
		c := 0
		for c < len(cvs)-2 && cv > cvs[c+1] {
			c++
		}
		fc := min(max((cv-cvs[c])/(cvs[c+1]-cvs[c]), 0), 1)
		fb := b - math.Floor(b)
		i := int(b)
		at := func(c int) float64 { return fill(c, i)*(1-fb) + fill(c, i+1)*fb }
		return at(c)*(1-fc) + at(c+1)*fc
	}
}()
