// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/cotenant/cotenant/sharing"
)

// BestFit prefers the node with the least free CPU and GPUs, equally weighted as fractions of 128 cores and 8 GPUs, the
// largest node of the public benchmark trace, in whole hundredths like Kubernetes scores. A MIG instance goes to the
// GPU with the fewest free units. It does not look ahead.
var BestFit Policy = bestFit{}

type bestFit struct{}

func (bestFit) Name() string { return "best-fit" }

// Score is at most 100, for a node without remaining capacity.
func (bestFit) Score(o *Option) float64 {
	if o.Start >= 0 {
		return 100 - o.Before.GPUs[o.GPUs[0]].free()/10
	}
	left := float64(o.After.CPUMilli)/bestFitCPU + o.After.freeMilli()/bestFitGPUs
	return math.Floor(100 * (1 - left))
}

// Half of a node's fullness is its CPU, by 128 cores, and half its GPUs, by eight.
const (
	bestFitCPU  = 2 * 128_000
	bestFitGPUs = 2 * 8_000
)

// lookAhead is the policy of NewCotenant.
type lookAhead struct {
	mix  *mix
	runs [runCount]run
	memo []memoEntry
	// cheapest is, by the most thousandths that are free on one GPU, the least CPU with which a kind could still use some.
	cheapest [1001]uint64
}

const (
	runCount  = 16
	runLength = 512
	// byKindWeight is the weight of the second estimate against the first.
	byKindWeight = 0.5
	cpuStep      = 500
	memoryStep   = 2 * sharing.GiB
	memoSize     = 1 << 16
)

// horizons are the numbers of requests after which a run is looked at; the last is its end.
var horizons = [...]int{16, 64, 256, runLength}

// NewCotenant returns the policy for a mix, the typical requests, such as those of the last weeks: it puts a request on
// the node with the least stranded capacity after it, by two estimates in thousandths of a GPU:
//
//   - the capacity left free on the node after a run of random requests from the mix (Monte Carlo): the mean over 16
//     runs, after 16, 64, 256 and 512 requests. Unlike fragmentation gradient descent (FGD, USENIX ATC '23) it looks
//     beyond the next request, so it covers GPUs without CPU for later requests, and remainders for rare kinds.
//   - half of the capacity left after each kind alone has filled the node, weighted by its frequency. It keeps whole
//     nodes free for requests of many GPUs.
//
// For MIG GPUs it counts the slices that a random request of the mix can't use. The runs are drawn once from a fixed
// seed, in the mix's proportions. Estimates are cached in a table of fixed size. The constants were chosen on the openb
// default trace and four variations of it, so that the policy allocates more than FGD on each of the five.
//
// Names and order of the typical requests do not matter. The policy sets 1 MiB aside for estimates. The error is an
// ErrInvalid that names every problem.
func NewCotenant(typical []Typical) (Policy, error) {
	m, err := newMix(typical)
	if err != nil {
		return nil, err
	}
	p := &lookAhead{mix: m, memo: make([]memoEntry, memoSize)}
	p.draw(m.kinds)
	return p, nil
}

// draw fills the runs: all of them together hold each kind in proportion, each run nearly so, in random order.
func (p *lookAhead) draw(kinds []kind) {
	const total = runCount * runLength
	at, upTo := 0, kinds[0].weight
	for i := range total {
		x := (float64(i) + 0.5) / total
		for at < len(kinds)-1 && upTo < x {
			at++
			upTo += kinds[at].weight
		}
		p.runs[i%runCount].kinds[i/runCount] = int32(at)
	}
	rng := rand.New(rand.NewPCG(1, 0))
	for i := range p.runs {
		r := &p.runs[i]
		rng.Shuffle(runLength, func(a, b int) { r.kinds[a], r.kinds[b] = r.kinds[b], r.kinds[a] })
		for j, k := range r.kinds {
			need := kinds[k].pack()
			r.needs[j] = need
			if block := &r.blocks[j/blockLength]; j%blockLength == 0 {
				*block = need
			} else {
				*block = leastOf(*block, need)
			}
		}
	}
	for most := range p.cheapest {
		p.cheapest[most] = cpuMax + 1
		for i := range kinds {
			if k := &kinds[i]; k.gpus > 0 && k.profile == "" && int(k.milli) <= most {
				p.cheapest[most] = min(p.cheapest[most], uint64(k.cpu))
			}
		}
	}
}

func (p *lookAhead) Name() string { return "cotenant" }

// Score is the decrease of stranded capacity in thousandths of a GPU, including the capacity that the request uses: it
// is positive if the request fills capacity that would have been stranded.
func (p *lookAhead) Score(o *Option) float64 {
	return p.stranded(o.Before) - p.stranded(o.After) - packing(o)
}

// stranded is the free part of a node's GPUs that is expected to stay free.
func (p *lookAhead) stranded(v *View) float64 {
	slices := p.mix.strandedSlices(v)
	if !p.mix.shares {
		return slices
	}
	var b bin
	if b.from(v, p.mix.model(v)); b.free == 0 {
		return slices
	}
	key := b.key()
	entry := &p.memo[key%memoSize]
	// Two words that must belong together: the first is the key xored with the
	// value, so that a torn pair is not taken for an answer.
	if bits := entry.stranded.Load(); entry.key.Load()^bits == key {
		return slices + math.Float64frombits(bits)
	}
	stranded := p.afterRuns(&b) + float64(byKindWeight*p.byKind(&b))
	bits := math.Float64bits(stranded)
	entry.key.Store(key ^ bits)
	entry.stranded.Store(bits)
	return slices + stranded
}

// memoEntry is an estimate by the hash of a node's state. A collision of 64-bit
// hashes would mix two states up, which is accepted.
type memoEntry struct{ key, stranded atomic.Uint64 }
