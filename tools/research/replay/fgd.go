// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/sharing"
)

// fgd is fragmentation gradient descent (FGD, USENIX ATC '23), the published policy to compare with: a request goes
// where the free part of the GPUs that a request drawn from the mix can't use, for want of a large enough share or of
// CPU, memory or the right model, grows least. Scores are whole numbers from 0 to 100 as in the published simulator;
// ties go to the first node. Unrounded it allocates 1.4 points less on the openb trace: with rounding, near-ties fill
// nodes in their order.
type fgd []kind

// kind is a typical request and its part of all of them.
type kind struct {
	weight float64
	cpu    int64
	memory sharing.Bytes
	gpus   int
	milli  int32
	models []string // empty = any
}

func newFGD(mix []placement.Typical) fgd {
	var kinds fgd
	total := 0.0
	for i := range mix {
		r := &mix[i].Request
		total += mix[i].Weight
		kinds = append(kinds, kind{mix[i].Weight, r.CPUMilli, r.Memory, r.GPUs, int32(r.Milli), r.Models})
	}
	for i := range kinds {
		kinds[i].weight /= total
	}
	order := func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.memory, b.memory), cmp.Compare(a.gpus, b.gpus),
			cmp.Compare(a.milli, b.milli), strings.Compare(strings.Join(a.models, "|"), strings.Join(b.models, "|")))
	}
	slices.SortStableFunc(kinds, order)
	merged := kinds[:0]
	for _, k := range kinds {
		if n := len(merged); n > 0 && order(merged[n-1], k) == 0 {
			merged[n-1].weight += k.weight
		} else {
			merged = append(merged, k)
		}
	}
	return merged
}

// Name is "fgd".
func (fgd) Name() string { return "fgd" }

// Score is higher the less fragmentation grows.
func (p fgd) Score(o *placement.Option) float64 {
	return math.Floor(100 / (1 + math.Exp((p.stranded(o.After)-p.stranded(o.Before))/1000)))
}

// stranded is the expected free part of a node's GPUs that one request drawn from the mix can't use.
func (p fgd) stranded(v *placement.View) float64 {
	free, sum := 0.0, 0.0
	for i := range v.GPUs[:v.Len] {
		free += float64(v.GPUs[i].Milli)
	}
	if free == 0 {
		return 0
	}
	for i := range p {
		sum += float64(p[i].weight * (free - p[i].usable(v))) // rounded here on every machine
	}
	return sum
}

// usable is the free thousandths of those GPUs that one more request of the kind could be put on; 0 where the node
// can't take one.
func (k *kind) usable(v *placement.View) float64 {
	if k.gpus == 0 || k.cpu > v.CPUMilli || k.memory > v.Memory ||
		len(k.models) > 0 && !slices.Contains(k.models, v.Model) {
		return 0
	}
	sum, gpus := int32(0), 0
	for i := range v.GPUs[:v.Len] {
		if v.GPUs[i].Milli >= k.milli {
			sum += v.GPUs[i].Milli
			gpus++
		}
	}
	if gpus < k.gpus {
		return 0
	}
	return float64(sum)
}
