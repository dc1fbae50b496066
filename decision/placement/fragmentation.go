package placement

import (
	"math"

	"github.com/cotenant/cotenant/sharing"
)

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

// ByShape is true.
func (p *Fragmentation) ByShape() bool { return true }

// Score is higher the less fragmentation grows.
func (p *Fragmentation) Score(o *Option) float64 {
	if o.Start >= 0 {
		return p.Stranded(o.Before) - p.Stranded(o.After) - packing(o)
	}
	d := p.Stranded(o.Before) - p.Stranded(o.After)
	return math.Floor(100 / (1 + math.Exp(-d/1000)))
}

// Stranded is the expected free part of a node's GPUs that one request drawn from the mix can't use.
func (p *Fragmentation) Stranded(v *View) float64 {
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
	return k.gpuMemory == 0 || !g.Total.IsZero() && k.gpuMemory <= g.Memory && g.Milli >= k.need(g.Total.Or(0))
}

// need is the thousandths that the kind takes of a GPU with so much memory.
func (k *kind) need(total sharing.Bytes) int32 {
	if k.milli > 0 || total == 0 {
		return k.milli
	}
	return milliOf(k.gpuMemory, total)
}
