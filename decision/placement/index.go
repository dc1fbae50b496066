// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"

	"github.com/cotenant/cotenant/decision/internal/traits"
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
	estimates map[shape]*estimate
	uses      int // of estimates
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
		x.estimates = map[shape]*estimate{}
		x.version++
	}
	for len(x.rows) < c.Len() {
		x.rows, x.packed = append(x.rows, row{}), append(x.packed, 0)
		x.version++
	}
	for _, e := range x.estimates {
		for len(e.scores) < len(x.rows) {
			e.scores = append(e.scores, unknown)
		}
	}
	for i, n := range c.Changed(cmp.Or(x.last, &layout.Cluster{})) {
		if x.rows[i], x.packed[i] = (row{}), 0; n != nil {
			x.rows[i] = rowOf(n)
			x.packed[i] = x.rows[i].any
		}
		x.version++
		for _, e := range x.estimates {
			e.scores[i] = unknown
		}
	}
	x.last = c
}

func rowOf(n *layout.Node) row {
	var v View
	v.fill(n)
	r := row{model: v.Model, tenant: n.Free().Tenant, mixed: n.Free().Several}
	if n.Closed != "" {
		return r
	}
	var any, own int32
	for i := range v.GPUs[:v.Len] {
		g, d := &v.GPUs[i], &n.Devices[i]
		if d.GPU == nil || d.Free().Faulty {
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
			if g.Tenants == 0 || !traits.Of(g.Mechanism).Trusting {
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
	// maxEstimates bounds the estimates of an index; a new one beyond it replaces the one that was used last of all.
	maxEstimates = 144
	// Where more than wholly nodes may take a request, about sample of those without an estimate get one; else all do.
	wholly, sample = 2000, 256
	// stage counts the nodes that are scored exactly.
	stage = 64
)

// estimate holds the policy's scores of nodes for a request, by position: NaN is yet to be computed, -Inf a node that
// does not take it.
type estimate struct {
	request Request
	scores  []float32
	used    int // the number of the last use
}

var unknown = float32(math.NaN())

// estimate returns what is known of a request.
func (x *index) estimate(r Request) *estimate {
	of := r.shape()
	e := x.estimates[of]
	if e == nil {
		if len(x.estimates) >= maxEstimates {
			oldest, least := of, math.MaxInt
			for of, e := range x.estimates {
				if e.used < least {
					oldest, least = of, e.used
				}
			}
			delete(x.estimates, oldest)
		}
		e = &estimate{r, slices.Repeat([]float32{unknown}, len(x.rows)), 0}
		x.estimates[of] = e
	}
	x.uses++
	e.used = x.uses
	return e
}

// predicted orders nodes for a request by the policy's scores of a similar one, an estimate: the share is rounded down,
// and the CPU rounded down or up, whichever leaves as many whole steps of CPU on the node.
type predicted struct {
	scorer    *Scorer
	c         *layout.Cluster
	packed    []uint64
	low, high *estimate
	over      int64 // CPU of the request above low
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
	o := &predicted{scorer: p.scorer, c: c, packed: p.index.packed, over: r.CPUMilli - low.CPUMilli}
	o.low = p.index.estimate(low)
	if o.high = o.low; o.over > 0 {
		low.CPUMilli += cpuSteps
		o.high = p.index.estimate(low)
	}
	return o
}

// of is the estimate that goes for a node.
func (o *predicted) of(i int32) *estimate {
	cpu := int64(o.packed[i] >> cpuShift & cpuMax)
	if (cpu-o.low.request.CPUMilli)%cpuSteps < o.over && cpu >= o.high.request.CPUMilli {
		return o.high
	}
	return o.low
}

// prepare scores nodes that have no estimate yet, as if all on them trusted everybody: all of a few, and of many a
// sample with even gaps, from the first-th on. It reports whether it left some out.
func (o *predicted) prepare(nodes []int32, first int) (more bool) {
	var todo []int32
	for _, i := range nodes {
		if s := o.of(i).scores[i]; s != s {
			todo = append(todo, i)
		}
	}
	step := 1
	if len(nodes) > wholly {
		step = max(1, len(todo)/sample)
	}
	score := func(from, by int) {
		for k := from; k < len(todo); k += by {
			i := todo[k]
			e := o.of(i)
			offer, ok := o.scorer.score(o.c.At(int(i)), &e.request, true)
			if e.scores[i] = float32(offer.Score); !ok {
				e.scores[i] = float32(math.Inf(-1))
			}
		}
	}
	workers := max(1, min(runtime.GOMAXPROCS(0), len(todo)/(16*step)))
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { score(first%step+w*step, workers*step) })
	}
	wg.Wait()
	return step > 1
}

// Candidates returns the nodes to score for a request, at most 64, and all nodes that may take it; no other node can.
// Both are positions in ascending order, valid until the next call. The candidates are those with the best expected
// scores. allow selects the candidates; nil = all.
func (p *Placer) Candidates(c *layout.Cluster, r *Request, allow func(position int) bool) (first, all []int32) {
	p.index.follow(c)
	w := wantOf(r)
	return p.candidates(&w, allow, p.predict(c, r))
}

func (p *Placer) candidates(w *want, allow func(node int) bool, o *predicted) (first, all []int32) {
	all = p.all[:0]
	for i, any := range p.index.packed {
		if (any-w.need)&guards == guards && w.met(&p.index.rows[i]) {
			all = append(all, int32(i))
		}
	}
	var ranks [stage + 1]float32
	for more := true; more && (len(first) == 0 || math.IsInf(float64(ranks[0]), 1)); {
		more = o.prepare(all, p.samples)
		p.samples++
		first = p.first[:0]
		for _, i := range all {
			rank := -o.of(i).scores[i]
			if rank != rank || len(first) == stage && rank >= ranks[stage-1] || allow != nil && !allow(int(i)) {
				continue
			}
			at := len(first)
			for first = append(first, 0); at > 0 && rank < ranks[at-1]; at-- {
				first[at], ranks[at] = first[at-1], ranks[at-1]
			}
			first[at], ranks[at] = i, rank
			first = first[:min(len(first), stage)]
		}
	}
	slices.Sort(first)
	p.first, p.all = first, all
	return first, all
}
