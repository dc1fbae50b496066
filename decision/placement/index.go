// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// index has a row for each position of the layout that it last followed. It needs about 100 bytes a node, and 4 for
// each of its estimates.
type index struct {
	last *layout.Cluster
	rows []row
	// packed has any of each row; 0 where no node is.
	packed    []uint64
	estimates map[shape]scores
	version   int // of the rows
}

// row summarizes the free capacity of a node. A node takes no request with a need above its row.
type row struct {
	// any and own are packed CPU, memory and thousandths: those of the GPU with
	// most, and with most among the GPUs that an untrusted tenant may use.
	any, own           uint64
	gpuMemory          sharing.Bytes // most that is free on one GPU
	model, tenant      string
	mixed, models      bool   // of several tenants; GPUs of several models
	gpus, whole, units uint8  // GPUs outside MIG mode; those that are free; free units of one that may be partitioned
	mechanisms         uint32 // bits
}

// follow makes the index that of a layout, which may be older or newer than the last, or of other nodes: it reads the
// nodes that are not the same.
func (x *index) follow(c *layout.Cluster) {
	if c == x.last {
		return
	}
	if c.Len() < len(x.rows) {
		x.rows, x.packed, x.estimates, x.last = nil, nil, nil, nil
	}
	if x.estimates == nil {
		x.estimates = map[shape]scores{}
		x.version++
	}
	for len(x.rows) < c.Len() {
		x.rows, x.packed = append(x.rows, row{}), append(x.packed, 0)
		x.version++
	}
	for of, scores := range x.estimates {
		for len(scores) < len(x.rows) {
			scores = append(scores, unknown)
		}
		x.estimates[of] = scores
	}
	for chunk := 0; chunk*layout.ChunkSize < c.Len(); chunk++ {
		if c.Same(x.last, chunk) {
			continue
		}
		for i := chunk * layout.ChunkSize; i < min(c.Len(), (chunk+1)*layout.ChunkSize); i++ {
			n := c.At(i)
			if x.last != nil && x.last.At(i) == n {
				continue
			}
			if x.rows[i], x.packed[i] = (row{}), 0; n != nil {
				x.rows[i] = rowOf(n)
				x.packed[i] = x.rows[i].any
			}
			x.version++
			for _, scores := range x.estimates {
				scores[i] = unknown
			}
		}
	}
	x.last = c
}

func rowOf(n *layout.Node) row {
	var v View
	v.fill(n)
	r := row{model: v.Model}
	tenant, one := n.Tenant()
	r.tenant, r.mixed = tenant, !one
	if n.Closed != "" {
		return r
	}
	var any, own int32
	for i := range v.GPUs[:v.Len] {
		g, d := &v.GPUs[i], &n.Devices[i]
		if d.GPU == nil || d.Faulty() {
			continue
		}
		r.models = r.models || d.GPU.Name != v.Model
		if model := partition(d); model != nil {
			free := model.Units
			if g.MIG != nil {
				free = g.freeUnits()
			}
			r.units = max(r.units, uint8(free))
		}
		if f := d.Free(); g.MIG == nil && f.Slots > 0 {
			r.gpus++
			r.mechanisms |= 1 << g.Mechanism
			any = max(any, f.Compute)
			if g.Tenants == 0 || !filter.TraitsOf(g.Mechanism).Trusting {
				own = max(own, f.Compute)
			}
			if f.Compute == 1000 {
				r.whole++
			}
			if g.Total > 0 {
				r.gpuMemory = max(r.gpuMemory, g.Memory)
			}
		}
	}
	r.any, r.own = guards|pack(any, max(0, v.CPUMilli), max(0, v.Memory)),
		guards|pack(own, max(0, v.CPUMilli), max(0, v.Memory))
	return r
}

// want is a request with the conditions that a row must meet for it.
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
	case len(w.Models) > 0 && !r.models && !slices.Contains(w.Models, r.model):
		return false
	case w.Profile != "":
		return r.units >= max(1, w.slices)
	}
	return int(r.gpus) >= w.GPUs && (!w.whole() || int(r.whole) >= w.GPUs) && r.mechanisms&w.mechanisms != 0 &&
		w.GPUMemory <= r.gpuMemory && ((r.own-w.need)&guards == guards || r.mixed || r.tenant == w.workload().Tenant ||
		slices.Contains(w.workload().Trusts, r.tenant))
}

const (
	// cpuSteps and milliSteps are the steps of CPU and of shares of a GPU, in thousandths, that estimates are of.
	cpuSteps, milliSteps = 1000, 50
	// maxEstimates bounds the estimates of an index; a new one beyond it replaces another.
	maxEstimates = 144
)

// scores are those of nodes for a request, by position: NaN is yet to be worked out, -Inf a node that does not take it.
type scores []float32

var unknown = float32(math.NaN())

// scores returns the policy's scores for a request by node.
func (x *index) scores(r *Request) scores {
	of := r.shape()
	known := x.estimates[of]
	if known == nil {
		if len(x.estimates) >= maxEstimates {
			for any := range x.estimates {
				delete(x.estimates, any)
				break
			}
		}
		known = slices.Repeat(scores{unknown}, len(x.rows))
		x.estimates[of] = known
	}
	return known
}

// predicted orders nodes for a request by the policy's scores of a similar one, an estimate: the share is rounded down,
// and the CPU rounded down or up, whichever leaves as many whole steps of CPU on the node.
type predicted struct {
	scorer      *Scorer
	c           *layout.Cluster
	low, high   Request
	lows, highs scores
	over        int64 // CPU of the request above low
}

// predict prepares the order in which nodes are scored for a request.
func (p *Placer) predict(c *layout.Cluster, r *Request) *predicted {
	digits := max(0, bits.Len64(uint64(r.GPUMemory))-3) // memory is rounded to three binary ones
	low := Request{CPUMilli: r.CPUMilli / cpuSteps * cpuSteps, GPUs: r.GPUs, Profile: r.Profile, Mechanisms: r.Mechanisms,
		Milli: max(min(1, r.Milli), r.Milli/milliSteps*milliSteps), Busy: r.Busy / milliSteps * milliSteps,
		GPUMemory: r.GPUMemory >> digits << digits}
	if p.scorer.Forecaster != nil {
		low.Workload = &layout.Workload{Name: r.workload().Name}
	}
	o := &predicted{scorer: p.scorer, c: c, low: low, high: low, over: r.CPUMilli - low.CPUMilli}
	o.high.CPUMilli += cpuSteps
	if o.lows = p.index.scores(&o.low); o.over > 0 {
		o.highs = p.index.scores(&o.high)
	}
	return o
}

// prepare works out the scores of nodes that are not known yet, on all processors where they are many.
func (o *predicted) prepare(nodes []int32, packed []uint64) {
	var todo []int32
	for _, i := range nodes {
		if o.lows[i] != o.lows[i] {
			todo = append(todo, i)
		}
	}
	workers := runtime.GOMAXPROCS(0)
	if len(todo) < 16*workers {
		return
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for k := w; k < len(todo); k += workers {
				o.score(int(todo[k]), packed[todo[k]])
			}
		})
	}
	wg.Wait()
}

// score is that of the node at a position, which has so much left.
func (o *predicted) score(i int, left uint64) float32 {
	cpu := int64(left >> cpuShift & cpuMax)
	if (cpu-o.low.CPUMilli)%cpuSteps < o.over && cpu >= o.high.CPUMilli {
		return o.at(o.highs, i, &o.high)
	}
	return o.at(o.lows, i, &o.low)
}

// at scores a node as if all on it trusted everybody.
func (o *predicted) at(known scores, i int, r *Request) float32 {
	if known[i] != known[i] {
		offer, ok := o.scorer.score(o.c.At(i), r, true)
		if known[i] = float32(offer.Score); !ok {
			known[i] = float32(math.Inf(-1))
		}
	}
	return known[i]
}

// stage counts the nodes that are scored of all.
const stage = 64

// Candidates returns the nodes to score for a request, at most 64, and all nodes that may take it: a node outside
// does not. Both are ascending, and valid until the next call. The candidates are those that the policy predicts to
// score best. Nodes are their positions. allow selects the candidates; nil = all.
func (p *Placer) Candidates(c *layout.Cluster, r *Request, allow func(position int) bool) (first, all []int32) {
	p.index.follow(c)
	w := wantOf(r)
	return p.candidates(&w, allow, p.predict(c, r))
}

func (p *Placer) candidates(w *want, allow func(node int) bool, o *predicted) (first, all []int32) {
	first, all = p.first[:0], p.all[:0]
	for i, any := range p.index.packed {
		if (any-w.need)&guards == guards && w.met(&p.index.rows[i]) {
			all = append(all, int32(i))
		}
	}
	o.prepare(all, p.index.packed)
	var ranks [stage + 1]float32
	for _, at := range all {
		i := int(at)
		rank := -o.score(i, p.index.packed[i])
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
	slices.Sort(first)
	p.first, p.all = first, all
	return first, all
}
