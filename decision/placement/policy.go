// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/cotenant/cotenant/sharing"
)

// BestFit takes the node with the least CPU and GPUs left, both weighted alike: free CPU in 128 cores and free
// GPUs in eighths of a node, the largest of the public trace it is compared on, in whole hundredths as Kubernetes
// scores are. A MIG instance goes to the GPU with the fewest free units. It does not look ahead.
type BestFit struct{}

// Name is "best-fit".
func (BestFit) Name() string { return "best-fit" }

// Score is at most 100, for a node that is left with nothing.
func (BestFit) Score(o *Option) float64 {
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

// Spread takes the emptiest GPU on the emptiest node: the least sharing, and the most fragmentation.
type Spread struct{}

// Name is "spread".
func (Spread) Name() string { return "spread" }

// Score is the free thousandths of the GPUs that are taken, before the node's as a whole.
func (Spread) Score(o *Option) float64 {
	if len(o.GPUs) == 0 {
		return float64(o.After.CPUMilli)
	}
	free := 0.0
	for _, g := range o.GPUs {
		free += o.After.GPUs[g].free()
	}
	return free/float64(len(o.GPUs)) + o.After.freeMilli()/(1000*MaxGPUs)
}

// Fragmentation is fragmentation gradient descent (FGD, USENIX ATC '23): a request goes where the free part of the
// GPUs that a request drawn from the mix can't use, for want of a large enough share or of CPU, memory or the right
// model, grows least. MIG GPUs count in slices. Scores for shares are whole numbers from 0 to 100 as in the
// published simulator; ties go to the first node. Unrounded it allocates 1.4 points less on the openb trace: with
// rounding, near-ties fill nodes in their order.
type Fragmentation struct{ mix *Mix }

// NewFragmentation returns the policy for a mix.
func NewFragmentation(m *Mix) *Fragmentation {
	m.prepared.Do(m.prepare)
	return &Fragmentation{m}
}

// Name is "fgd".
func (p *Fragmentation) Name() string { return "fgd" }

// Score is higher the less fragmentation grows.
func (p *Fragmentation) Score(o *Option) float64 {
	d := p.stranded(o.Before) - p.stranded(o.After)
	if o.Start >= 0 {
		return d - packing(o)
	}
	return math.Floor(100 / (1 + math.Exp(-d/1000)))
}

// stranded is the expected free part of a node's GPUs that one request drawn from the mix can't use.
func (p *Fragmentation) stranded(v *View) float64 {
	sum := p.mix.strandedSlices(v)
	if !p.mix.shares {
		return sum
	}
	free := 0.0
	for i := range v.GPUs[:v.Len] {
		if v.GPUs[i].MIG == nil {
			free += float64(v.GPUs[i].Milli)
		}
	}
	if free == 0 {
		return sum
	}
	bit := p.mix.model(v)
	for i := range p.mix.kinds {
		k := &p.mix.kinds[i]
		if k.profile == "" {
			sum += float64(k.weight * (free - k.usable(v, bit))) // rounded here on every machine
		}
	}
	return sum
}

// usable is the free thousandths of those GPUs that one more request of the kind
// could be put on; 0 where the node can't take one.
func (k *kind) usable(v *View, bit uint64) float64 {
	if k.gpus == 0 || k.cpu > v.CPUMilli || k.memory > int64(v.Memory) || !k.accepts(bit) {
		return 0
	}
	sum, gpus := int32(0), int32(0)
	for i := range v.GPUs[:v.Len] {
		if g := &v.GPUs[i]; k.fits(g) {
			sum += g.Milli
			gpus++
		}
	}
	if gpus < k.gpus {
		return 0
	}
	return float64(sum)
}

// fits reports whether a GPU that is not in MIG mode has room for the kind.
func (k *kind) fits(g *GPUView) bool {
	if g.MIG != nil || g.Milli < k.milli || k.mechanisms>>g.Mechanism&1 == 0 {
		return false
	}
	return k.gpuMemory == 0 || g.Total > 0 && k.gpuMemory <= g.Memory && g.Milli >= k.need(g.Total)
}

// need is the thousandths that the kind takes of a GPU with so much memory.
func (k *kind) need(total sharing.Bytes) int32 {
	if k.milli > 0 || total == 0 {
		return k.milli
	}
	return milliOf(k.gpuMemory, total)
}

// Cotenant puts a request on the node with the least stranded capacity after it, by two estimates in thousandths of a
// GPU:
//
//   - the capacity left free on the node after a run of requests drawn from the
//     mix (Monte Carlo): the mean over 16 runs, after 16, 64, 256 and 512 requests.
//     Unlike FGD's single next request it covers GPUs without CPU for later
//     requests, and remainders that only a rare kind fills.
//   - half of the capacity left by each kind in isolation, as often as it fits,
//     weighted by its frequency. It keeps whole nodes free for requests of many
//     GPUs, which runs of mostly small requests would not.
//
// MIG GPUs are valued by slices, as by Fragmentation. The runs are fixed: drawn once from a fixed seed, in the
// mix's proportions. Estimates are kept in a table of fixed size, so scoring does not allocate; they rest on CPU in
// steps of 0.5 cores and memory in steps of 2 GiB, rounded down.
//
// The numbers were chosen on the openb default trace together with four variations drawn from it (shares only,
// twice the CPU-only tasks, half of the demand for several GPUs, a third of the tasks bound to models), so that it
// allocates more than Fragmentation on each of the five. At run time its only input is the mix.
type Cotenant struct {
	mix  *Mix
	runs [runCount]run
	memo []memoEntry
	// cheapest is, by the most thousandths that are free on one GPU, the least CPU with which a kind could still use some.
	cheapest [1001]uint64
}

const (
	runCount  = 16
	runLength = 512
	// aloneWeight is the weight of the second estimate against the first.
	aloneWeight = 0.5
	cpuStep     = 500
	memoryStep  = 2 * sharing.GiB
	memoSize    = 1 << 16
)

// horizons are the numbers of requests after which a run is looked at; the last is its end.
var horizons = [...]int{16, 64, 256, runLength}

// NewCotenant returns the policy for a mix. It draws the runs and sets 1 MiB aside for estimates.
func NewCotenant(m *Mix) *Cotenant {
	m.prepared.Do(m.prepare)
	p := &Cotenant{mix: m, memo: make([]memoEntry, memoSize)}
	p.draw(m.kinds)
	return p
}

// draw fills the runs: all of them together hold each kind in proportion, each run nearly so, in random order.
func (p *Cotenant) draw(kinds []kind) {
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

// Name is "cotenant".
func (p *Cotenant) Name() string { return "cotenant" }

// Score is the decrease of stranded capacity, in thousandths of a GPU, including the capacity that the request itself
// uses: it is positive where a request fills capacity that would have been stranded.
func (p *Cotenant) Score(o *Option) float64 {
	return p.stranded(o.Before) - p.stranded(o.After) - packing(o)
}

// stranded is the free part of a node's GPUs that is expected to stay free.
func (p *Cotenant) stranded(v *View) float64 {
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
	stranded := p.afterRuns(&b) + float64(aloneWeight*p.alone(&b))
	bits := math.Float64bits(stranded)
	entry.key.Store(key ^ bits)
	entry.stranded.Store(bits)
	return slices + stranded
}

// memoEntry is an estimate by the hash of a node's state. A collision of 64-bit
// hashes would mix two states up, which is accepted.
type memoEntry struct{ key, stranded atomic.Uint64 }
