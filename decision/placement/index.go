package placement

import (
	"math"
	"math/bits"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// index has a row for each node of the snapshot that it last followed. It needs about 100 bytes a node, and 4 for
// each of its outlooks.
type index struct {
	order  ranker
	chunks []*[chunkSize]*node
	rows   []row
	// packed has any of each row.
	packed   []uint64
	outlooks map[shape][]float32
	version  int // of the rows
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
		x.chunks, x.rows, x.packed = make([]*[chunkSize]*node, len(s.chunks)), make([]row, s.len), make([]uint64, s.len)
		x.outlooks = map[shape][]float32{}
		x.version++
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
				x.version++
				x.rows[c*chunkSize+k], x.packed[c*chunkSize+k] = row, row.any
				for _, scores := range x.outlooks {
					scores[c*chunkSize+k] = unknown
				}
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

// rankerOf is the order in which a policy looks at nodes where nothing is foreseen: best fit, unless it has its own.
func rankerOf(p Policy) ranker {
	if r, ok := p.(ranker); ok {
		return r
	}
	return BestFit{}
}

const (
	// cpuSteps and milliSteps are the steps of CPU and of shares of a GPU, in thousandths, that outlooks are of.
	cpuSteps, milliSteps = 1000, 50
	// maxOutlooks bounds what an index keeps; beyond it, it drops one.
	maxOutlooks = 256
)

// unknown marks a score that is yet to be worked out.
var unknown = float32(math.NaN())

// scores returns the policy's scores for a request by node.
func (x *index) scores(r *Request) []float32 {
	of := r.shape()
	scores := x.outlooks[of]
	if scores == nil {
		if len(x.outlooks) >= maxOutlooks {
			for any := range x.outlooks {
				delete(x.outlooks, any)
				break
			}
		}
		scores = slices.Repeat([]float32{unknown}, len(x.rows))
		x.outlooks[of] = scores
	}
	return scores
}

// foreseen is the order in which nodes are looked at for a request: by what the policy makes of one much like it,
// an outlook, of a round share and the next fewer or more steps of CPU, whichever leaves a node with as many.
type foreseen struct {
	scorer      *Scorer
	s           *Snapshot
	low, high   Request
	lows, highs []float32
	over        int64 // CPU that is asked for over low
	open        node  // the node that is scored, as if all on it trusted everybody
}

// foresee returns nil under policies that look at nodes by rank or by chance.
func (p *Placer) foresee(s *Snapshot, r *Request) *foreseen {
	if _, ranks := p.scorer.policy.(ranker); ranks || !p.scorer.policy.ByShape() {
		return nil
	}
	digits := max(0, bits.Len64(uint64(r.GPUMemory))-3) // memory is rounded to three binary ones
	low := Request{CPUMilli: r.CPUMilli / cpuSteps * cpuSteps, GPUs: r.GPUs, Profile: r.Profile, Mechanisms: r.Mechanisms,
		Milli: max(min(1, r.Milli), r.Milli/milliSteps*milliSteps), GPUMemory: r.GPUMemory >> digits << digits}
	if p.scorer.predictor != nil {
		low.Workload = r.Workload
	}
	o := &foreseen{scorer: p.scorer, s: s, low: low, high: low, over: r.CPUMilli - low.CPUMilli}
	o.high.CPUMilli += cpuSteps
	if o.lows = p.index.scores(&o.low); o.over > 0 {
		o.highs = p.index.scores(&o.high)
	}
	return o
}

// score is that of node i, which has so much CPU.
func (o *foreseen) score(i int, cpu int64) float32 {
	if (cpu-o.low.CPUMilli)%cpuSteps < o.over && cpu >= o.high.CPUMilli {
		return o.at(o.highs, i, &o.high)
	}
	return o.at(o.lows, i, &o.low)
}

func (o *foreseen) at(scores []float32, i int, r *Request) float32 {
	if scores[i] != scores[i] {
		o.open = *o.s.node(i)
		o.open.tenant, o.open.mixed = "", false
		scores[i] = float32(math.Inf(-1))
		if offer, ok := o.scorer.score(&o.open, i, r); ok {
			scores[i] = float32(offer.Score)
		}
	}
	return scores[i]
}

const (
	// stage counts the nodes that are scored of all.
	stage = 64
	// narrow counts them for each request of a batch.
	narrow = 32
)

// Candidates returns the nodes to score for a request, at most 64, and all nodes that may take it: a node outside
// does not. Both are ascending, and valid until the next call. The candidates are those that the policy foresees to
// score best, or half of them have the least left, or what else the policy looks at first, and half are spread over
// the others. allow says which nodes may be candidates; nil all.
func (p *Placer) Candidates(s *Snapshot, r *Request, allow func(node int) bool) (first, all []int32) {
	p.index.follow(s)
	w := wantOf(r)
	return p.candidates(&w, allow, p.foresee(s, r), stage)
}

// candidates are at most n; o has what the policy foresees, if anything.
func (p *Placer) candidates(w *want, allow func(node int) bool, o *foreseen, n int) (first, all []int32) {
	first, all = p.first[:0], p.all[:0]
	random, draws := p.scorer.policy.(Random)
	best := n
	if o == nil {
		best = n / 2
	}
	var ranks [stage + 1]float32
	for i, any := range p.index.packed {
		if (any-w.need)&guards != guards || !w.met(&p.index.rows[i]) {
			continue
		}
		all = append(all, int32(i))
		rank := p.index.rows[i].rank
		switch {
		case draws:
			rank = -float32(random.node(w.Request, i) >> 40)
		case o != nil:
			rank = -o.score(i, int64(any>>cpuShift&cpuMax))
		}
		if len(first) == best && rank >= ranks[best-1] || allow != nil && !allow(i) {
			continue
		}
		at := len(first)
		for first = append(first, 0); at > 0 && rank < ranks[at-1]; at-- {
			first[at], ranks[at] = first[at-1], ranks[at-1]
		}
		first[at], ranks[at] = int32(i), rank
		first = first[:min(len(first), best)]
	}
	for k, at := best, 0; k < n; k++ {
		at = max(at, (len(all)-best)*(k-best)/(n-best))
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
