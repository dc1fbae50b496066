package predict

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/cotenant/cotenant/sharing"
)

// Grouping is a division of tenants among GPUs.
type Grouping struct {
	// Groups holds the tenants' indices, each group ascending, groups by their
	// first member.
	Groups [][]int
	// Cost is the mean over the tenants of the predicted slow-down; the best
	// grouping has the least.
	Cost float64
}

// maxGrouped bounds GroupTenants, which is exact.
const maxGrouped = 12

// GroupTenants divides tenants among the given number of GPUs, at most perGPU
// on each (0 means no limit), so that their mean predicted slow-down under the
// mechanism is least. It is exact: every group is predicted once, by the closed
// forms, and the best division found by dynamic programming. At most 12
// tenants. Ties go to the division whose first groups are smaller in order.
func (p *Predictor) GroupTenants(mechanism sharing.Mechanism, tenants []Solo, gpus, perGPU int) (Grouping, error) {
	n := len(tenants)
	switch {
	case n == 0 || n > maxGrouped:
		return Grouping{}, fmt.Errorf("predict: exact grouping takes 1 to %d tenants, not %d", maxGrouped, n)
	case gpus < 1:
		return Grouping{}, errors.New("predict: no GPU to group tenants on")
	}
	if perGPU <= 0 || perGPU > n {
		perGPU = n
	}
	if gpus*perGPU < n {
		return Grouping{}, fmt.Errorf("predict: %d tenants do not fit %d GPUs of %d each", n, gpus, perGPU)
	}
	slow := make([]float64, 1<<n) // by set: the sum of its tenants' slow-downs
	for set := 1; set < 1<<n; set++ {
		slow[set] = math.Inf(1)
		if bits.OnesCount(uint(set)) > perGPU {
			continue
		}
		members := members(set)
		group := make([]Solo, len(members))
		for k, i := range members {
			group[k] = tenants[i]
		}
		predictions, err := p.Predict(mechanism, group, MethodClosedForm)
		if err != nil {
			return Grouping{}, err
		}
		slow[set] = 0
		for k := range predictions {
			slow[set] += predictions[k].Slowdown.Value
		}
	}
	// best[g][set] is the least cost of set on g GPUs; the group of the set's
	// first tenant is split off.
	all := 1<<n - 1
	best := make([][]float64, gpus+1)
	first := make([][]int, gpus+1)
	for g := range best {
		best[g], first[g] = make([]float64, 1<<n), make([]int, 1<<n)
		for set := 1; set <= all; set++ {
			best[g][set] = math.Inf(1)
			if g == 0 {
				continue
			}
			low := set & -set
			for rest := (set ^ low); ; rest = (rest - 1) & (set ^ low) {
				with := low | rest
				if c := slow[with] + best[g-1][set^with]; c < best[g][set]-1e-12 {
					best[g][set], first[g][set] = c, with
				}
				if rest == 0 {
					break
				}
			}
		}
	}
	out := Grouping{Cost: best[gpus][all] / float64(n)}
	for g, set := gpus, all; set != 0; g-- {
		with := first[g][set]
		out.Groups = append(out.Groups, members(with))
		set ^= with
	}
	slices.SortFunc(out.Groups, func(a, b []int) int { return a[0] - b[0] })
	return out, nil
}

func members(set int) []int {
	var out []int
	for i := 0; set != 0; i, set = i+1, set>>1 {
		if set&1 == 1 {
			out = append(out, i)
		}
	}
	return out
}

// BreakEvenStep is a number of copies of a workload on one GPU from which a
// mechanism is predicted to be the better.
type BreakEvenStep struct {
	Tenants int               `json:"tenants"`
	Better  sharing.Mechanism `json:"better"`
	// TimeSlicing and MPS are the predicted TPOT P50 in milliseconds.
	TimeSlicing Interval `json:"time_slicing_tpot_ms_p50"`
	MPS         Interval `json:"mps_tpot_ms_p50"`
	// Sure says that the intervals do not overlap.
	Sure bool `json:"sure"`
}

// BreakEven predicts copies of a workload under time-slicing and MPS, from one
// copy to limit, and lists where the mechanism with the lower TPOT changes:
// "MPS pays from 2 tenants on", with the figures.
func (p *Predictor) BreakEven(s Solo, limit int) ([]BreakEvenStep, error) {
	var out []BreakEvenStep
	for n := 1; n <= min(limit, MaxGroup); n++ {
		group := slices.Repeat([]Solo{s}, n)
		at := BreakEvenStep{Tenants: n, Better: sharing.MechanismTimeSlicing}
		for i, to := range []*Interval{&at.TimeSlicing, &at.MPS} {
			predictions, err := p.Predict(mechanisms[i], group, MethodClosedForm)
			if err != nil {
				return nil, err
			}
			*to, _ = predictions[0].Get(MetricTPOTP50)
		}
		if at.MPS.Value < at.TimeSlicing.Value {
			at.Better = sharing.MechanismMPS
		}
		at.Sure = at.MPS.High < at.TimeSlicing.Low || at.TimeSlicing.High < at.MPS.Low
		if len(out) == 0 || out[len(out)-1].Better != at.Better {
			out = append(out, at)
		}
	}
	return out, nil
}
