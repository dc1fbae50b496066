package placement

import (
	"math/bits"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// index has a row for each node of the snapshot that it last followed. It needs about 100 bytes a node.
type index struct {
	order  ranker
	chunks []*[chunkSize]*node
	rows   []row
}

// row sums up what is left of a node. A node can take no request that its row lacks something for.
type row struct {
	// any and own are packed CPU, memory and thousandths: those of the GPU that has
	// most, and of the one that has most among those that a stranger may have.
	any, own           uint64
	gpuMemory          sharing.Bytes // most that is free on one GPU
	model, tenant      string
	mixed              bool    // of several tenants
	gpus, whole, units uint8   // GPUs outside MIG mode; those that are free; free units of one that may be partitioned
	mechanisms         uint32  // bits
	left               float32 // as BestFit weighs it
	rank               float32 // of the policy
}

// follow makes the index that of a snapshot, which may be older or newer than the
// last, or of other nodes: it reads the nodes that are not the same.
func (x *index) follow(s *Snapshot) {
	if len(x.rows) != s.len {
		x.chunks, x.rows = make([]*[chunkSize]*node, len(s.chunks)), make([]row, s.len)
	}
	for c, next := range s.chunks {
		last := x.chunks[c]
		if last == next {
			continue
		}
		for k, n := range next[:min(chunkSize, s.len-c*chunkSize)] {
			if last == nil || last[k] != n {
				row := rowOf(n)
				row.rank = x.order.rank(&row)
				x.rows[c*chunkSize+k] = row
			}
		}
	}
	x.chunks = s.chunks
}

func rowOf(n *node) row {
	v := &n.view
	r := row{model: v.Model, tenant: n.tenant, mixed: n.mixed,
		left: float32(float64(v.CPUMilli)/bestFitCPU + v.FreeMilli()/bestFitGPUs)}
	var any, own int32
	for i := range v.GPUs[:v.Len] {
		g := &v.GPUs[i]
		if model := g.partition(); model != nil {
			r.units = max(r.units, uint8(model.Units-bits.OnesCount32(g.Slices.Mask())))
		}
		if g.MIG != nil {
			continue
		}
		r.gpus++
		r.mechanisms |= 1 << g.Mechanism
		any = max(any, g.Milli)
		if g.Tenants == 0 || !gate.TraitsOf(g.Mechanism).Trusting {
			own = max(own, g.Milli)
		}
		if g.Milli == 1000 {
			r.whole++
		}
		if !g.Total.IsZero() {
			r.gpuMemory = max(r.gpuMemory, g.Memory)
		}
	}
	r.any, r.own = guards|pack(any, v.CPUMilli, v.Memory), guards|pack(own, v.CPUMilli, v.Memory)
	return r
}

// want has what an index asks of a row for a request.
type want struct {
	*Request
	need       uint64
	mechanisms uint32
	slices     uint8
}

func wantOf(r *Request) want {
	w := want{Request: r, need: pack(int32(r.Milli), r.CPUMilli, r.Memory), mechanisms: r.mechanisms()}
	if name, err := mig.ParseName(r.Profile); err == nil {
		w.slices = uint8(name.Slices)
	}
	return w
}

// met reports whether a node that has CPU, memory and thousandths enough may take the request.
func (w *want) met(r *row) bool {
	switch {
	case w.GPUs == 0:
		return true
	case len(w.Models) > 0 && !slices.Contains(w.Models, r.model):
		return false
	case w.Profile != "":
		return r.units >= max(1, w.slices)
	}
	return int(r.gpus) >= w.GPUs && (!w.whole() || int(r.whole) >= w.GPUs) && r.mechanisms&w.mechanisms != 0 &&
		w.GPUMemory <= r.gpuMemory && ((r.own-w.need)&guards == guards || r.mixed || r.tenant == w.Tenant ||
		slices.Contains(w.Trusts, r.tenant))
}

// ranker is a policy that says by a row how early a node is looked at: the lowest rank first.
type ranker interface{ rank(r *row) float32 }

// rankerOf is the order in which a policy looks at nodes: best fit, unless it has its own.
func rankerOf(p Policy) ranker {
	switch p := p.(type) {
	case Interference:
		return rankerOf(p.base())
	case ranker:
		return p
	}
	return BestFit{}
}

// stage counts the nodes that each of the two rules of the first stage picks.
const stage = 32

// Candidates returns the nodes to score for a request, at most 64, and all nodes that may take it: a node outside
// does not. Both are ascending, and valid until the next call. Half of the candidates have the least left, or what
// else the policy looks at first, and half are spread over the others. allow says which nodes may be candidates;
// nil all.
func (p *Placer) Candidates(s *Snapshot, r *Request, allow func(node int) bool) (first, all []int32) {
	p.index.follow(s)
	w := wantOf(r)
	first, all = p.first[:0], p.all[:0]
	random, draws := p.scorer.policy.(Random)
	var ranks [stage + 1]float32
	for i := range p.index.rows {
		row := &p.index.rows[i]
		if (row.any-w.need)&guards != guards || !w.met(row) {
			continue
		}
		all = append(all, int32(i))
		rank := row.rank
		if draws {
			rank = -float32(random.node(r, i) >> 40)
		}
		if len(first) == stage && rank >= ranks[stage-1] || allow != nil && !allow(i) {
			continue
		}
		at := len(first)
		for first = append(first, 0); at > 0 && rank < ranks[at-1]; at-- {
			first[at], ranks[at] = first[at-1], ranks[at-1]
		}
		first[at], ranks[at] = int32(i), rank
		first = first[:min(len(first), stage)]
	}
	for k, at := 0, 0; k < stage; k++ {
		at = max(at, (len(all)-stage)*k/stage)
		for at < len(all) && (slices.Contains(first, all[at]) || allow != nil && !allow(int(all[at]))) {
			at++
		}
		if at < len(all) {
			first = append(first, all[at])
		}
	}
	slices.Sort(first)
	p.first, p.all = first, all
	return first, all
}
