package judge

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"
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

// Worlds in which a plan is simulated, and how many more where those leave its answer open.
const (
	worldsFew  = 5
	worldsMost = 40
)

// shown checks plans by what can be known beforehand. In worlds drawn from the published spreads the limits must
// hold at the confidence, with the logarithms of the P99s taken as normal; memory must suffice at the worst that
// the spreads allow, since a server without memory fails.
func shown(s *scene, sp *spreads, seed uint64, z float64) func(*plan) bool {
	var worlds []*world
	world := func(k int) *world {
		if k == len(worlds) {
			worlds = append(worlds, sp.draw(rand.New(rand.NewPCG(seed, uint64(k))), len(s.full.Workloads), false))
		}
		return worlds[k]
	}
	tight := sp.worst(len(s.full.Workloads))
	return func(p *plan) bool {
		if tenants, _ := p.tenants(s, tight); p.overcommits(s, tight, tenants) {
			return false
		}
		logs := map[[2]int][]float64{} // P99s over their limits, by tenant and metric
		for k := range worldsMost {
			w := world(k)
			tenants, how := p.tenants(s, w)
			for i, v := range play(tenants, how, w, oneStuck) {
				if v.saturated {
					return false
				}
				if tenants[i].rate == 0 {
					logs[[2]int{i, -1}] = append(logs[[2]int{i, -1}], math.Log(keepsRate/v.rate))
				}
				for m, limit := range tenants[i].slo {
					if limit > 0 && v.p99[m] > 0 {
						logs[[2]int{i, m}] = append(logs[[2]int{i, m}], math.Log(v.p99[m]/limit))
						if v.p99[m] > 3*limit {
							return false
						}
					}
				}
			}
			n := k + 1
			if n == 3 {
				for _, l := range logs {
					if stat.Mean(l, nil) > 0 {
						return false // no use to look further
					}
				}
			}
			if n >= worldsFew {
				worst, doubt := math.Inf(-1), 0.0
				for _, l := range logs {
					mean, sd := moments(l)
					if at := mean + z*sd; at > worst {
						worst, doubt = at, 2.5*sd*math.Sqrt((1+z*z/2)/float64(n)) // standard errors
					}
				}
				if math.Abs(worst) > doubt || n == worldsMost {
					return worst <= 0
				}
			}
		}
		return false
	}
}

// moments are the mean of one or more values and the standard deviation that they are a sample of: of one value none,
// as it says nothing of a spread.
func moments(v []float64) (mean, sd float64) {
	if len(v) == 1 {
		return v[0], 0
	}
	return stat.MeanStdDev(v, nil)
}
