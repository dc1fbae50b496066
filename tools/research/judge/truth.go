// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// truth checks plans in one world: memory, and one long simulation.
func truth(s *scene, w *world) func(*plan) bool {
	return func(p *plan) bool {
		tenants, how := p.tenants(s, w)
		if p.overcommits(s, w, tenants) {
			return false
		}
		for i, v := range play(tenants, how, w, oneStuck) {
			if tenants[i].miss(v) != "" {
				return false
			}
		}
		return true
	}
}

// Worlds in which a plan is simulated at least, those after which it may be shown to do, and those after which it is
// counted in how many it does.
const worldsFew, worldsSure, worldsMost = 5, 20, 200

// shown checks plans by what can be known beforehand. In worlds drawn from the published spreads each limit must hold
// at the confidence: far from it by the spread of the logarithms of the P99s above their median, and near it in as many
// worlds as that; memory must suffice at the worst that the spreads allow, since a server without memory fails.
func shown(s *scene, sp *spreads, seed uint64, z float64) func(*plan) bool {
	var worlds []*world
	world := func(k int) *world {
		if k == len(worlds) {
			worlds = append(worlds, sp.draw(rand.New(rand.NewPCG(seed, uint64(k))), len(s.full.Workloads), false))
		}
		return worlds[k]
	}
	tight := sp.worst(len(s.full.Workloads))
	allowed := int(math.Round(worldsMost * distuv.UnitNormal.Survival(z)))
	return func(p *plan) bool {
		if tenants, _ := p.tenants(s, tight); p.overcommits(s, tight, tenants) {
			return false
		}
		logs := map[[2]int][]float64{} // P99s over their limits, by tenant and metric
		for k := range worldsMost {
			w := world(k)
			tenants, how := p.tenants(s, w)
			for i, v := range play(tenants, how, w, oneStuck) {
				see := func(m int, over float64) {
					logs[[2]int{i, m}] = append(logs[[2]int{i, m}], min(math.Log(over), most))
				}
				if tenants[i].rate == 0 {
					see(-1, keepsRate/v.rate)
				}
				for m, limit := range tenants[i].slo {
					if limit > 0 && (v.p99[m] > 0 || v.saturated) {
						see(m, v.p99[m]/limit)
					}
				}
			}
			n, worst, doubt := k+1, math.Inf(-1), 0.0
			for _, l := range logs {
				missed := 0
				for _, v := range l {
					if v > 0 {
						missed++
					}
				}
				if missed > allowed || n == 3 && stat.Mean(l, nil) > 0 { // no use to look further
					return false
				}
				if n >= worldsFew {
					middle, up := upward(l)
					if at := middle + z*up; at > worst {
						worst, doubt = at, 3*up*math.Sqrt((1+z*z/2)/float64(n)) // standard errors
					}
				}
			}
			if n >= worldsFew && worst > doubt || n >= worldsSure && worst < -doubt {
				return worst < 0
			}
		}
		return true
	}
}

// most bounds the logarithm of a P99 over its limit: of more, and of what could not be served, nothing is told apart.
const most = 2.0

// upward returns the median of values and their root mean square distance from it above it.
func upward(v []float64) (middle, up float64) {
	sorted := slices.Sorted(slices.Values(v))
	middle = sorted[len(sorted)/2]
	above := 0.0
	for _, x := range sorted[len(sorted)/2:] {
		above += (x - middle) * (x - middle)
	}
	return middle, math.Sqrt(2 * above / float64(len(sorted)))
}
