package placement

import (
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/cotenant/cotenant/sharing"
)

// Cotenant puts a request where it strands least of what is free, by two estimates in thousandths of a GPU:
//
//   - what a run of requests drawn from the mix leaves free on the node when each
//     takes what it needs until nothing fits: the mean over 16 such runs, seen
//     after 16, 64, 256 and 512 requests. It sees what FGD's single next request
//     can't: GPUs whose CPU others will have taken, and remainders that only a
//     rare kind fills.
//   - half of what the kinds can't use when each comes alone, as often as it
//     fits, weighed by how often it comes. It keeps whole nodes free for those
//     who need many GPUs, which a run of mostly small requests would not.
//
// MIG GPUs are valued by slices, as by Fragmentation. The runs are fixed: drawn once from a fixed seed, in the
// mix's proportions. Estimates are kept in a table of fixed size, so scoring does not allocate; they rest on CPU in
// steps of 0.5 cores and memory in steps of 2 GiB, rounded down.
//
// The numbers were chosen on the openb default trace together with four variations drawn from it (shares only,
// twice the CPU-only tasks, half of the demand for several GPUs, a third of the tasks bound to models), so that it
// allocates more than Fragmentation on each of the five. What it is given at run time is the mix, and nothing else.
type Cotenant struct {
	mix  *Mix
	runs [runCount]run
	memo []memoEntry
	// cheapest is, by the most thousandths that are free on one GPU, the least
	// CPU with which a kind could still use some.
	cheapest [1001]uint64
}

const (
	runCount  = 16
	runLength = 512
	// aloneWeight is the weight of the second estimate against the first.
	aloneWeight = 0.5
	cpuStep     = 500
	memoryStep  = 2 * sharing.GiB
	memoSize    = 1 << 18
)

// horizons are the numbers of requests after which a run is looked at; the last is its end.
var horizons = [...]int{16, 64, 256, runLength}

// NewCotenant returns the policy for a mix. It draws the runs and sets 4 MiB aside for estimates.
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
			r.needs[j] = kinds[k].pack()
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

// ByShape is true.
func (p *Cotenant) ByShape() bool { return true }

// Score is by how much less is stranded, in thousandths of a GPU; what a request makes use of counts as well, so it
// is positive where a request fills what would have been lost.
func (p *Cotenant) Score(o *Option) float64 {
	return p.Stranded(o.Before) - p.Stranded(o.After) - packing(o)
}

// Stranded is the free part of a node's GPUs that is expected to stay free.
func (p *Cotenant) Stranded(v *View) float64 {
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

// memoEntry is an estimate by the hash of what it is of. Two nodes with the same
// 64-bit hash would be taken for one, which we accept.
type memoEntry struct{ key, stranded atomic.Uint64 }
