// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/layout"
)

// Assign applies an offer, under the request's name, to a layout that may be newer than the offer's. Everything is
// checked again, including objectives. The error is a layout.ErrNodeGone if the node is gone, or a layout.ErrConflict
// with the reason if changes made the offer invalid. c does not change.
func (s *Scorer) Assign(c *layout.Cluster, r *Request, o Offer) (*layout.Cluster, Placement, error) {
	if o.n < 0 || int(o.n) != r.GPUs {
		return nil, Placement{}, fmt.Errorf("%w: no offer for %d GPUs", ErrInvalid, r.GPUs)
	}
	n := c.Node(o.Node)
	if n == nil {
		return nil, Placement{}, fmt.Errorf("%w: %s", layout.ErrNodeGone, o.Node)
	}
	conflict := func(why filter.Reason) (*layout.Cluster, Placement, error) {
		return nil, Placement{}, fmt.Errorf("%w: %s on %s: %v", layout.ErrConflict, r.Name, n.Name, why)
	}
	w := s.work(n, r, false)
	defer s.scratch.Put(w)
	if !fits(n, r, &w.why) {
		return conflict(w.why)
	}
	p := Placement{Key: r.Name, Node: n.Name}
	for _, g := range o.gpus[:o.n] {
		if int(g) >= len(n.Devices) {
			lacks(&w.why, codes.GPUCount, int64(g)+1, int64(len(n.Devices)))
			return conflict(w.why)
		}
		var t take
		if !w.fit(n, int(g), r, &t, &w.why) {
			return conflict(w.why)
		}
		a := layout.Assignment{Key: r.Name, Workload: r.workload(), Device: int16(g), Mode: t.mechanism,
			Compute: int16(r.Milli), Busy: int16(r.Busy), Memory: t.memory - n.Devices[g].GPU.Context}
		if t.profile != nil {
			a.Profile, a.Start = t.profile, int8(o.Start)
		}
		p.Assignments = append(p.Assignments, a)
	}
	if o.n == 0 {
		p.Assignments = []layout.Assignment{{Key: r.Name, Workload: r.workload(), Device: layout.NoDevice}}
	}
	p.Assignments[0].CPUMilli, p.Assignments[0].HostMemory = int32(r.CPUMilli), r.Memory
	next, err := c.Assign(n.Name, p.Assignments...)
	if err != nil {
		return nil, Placement{}, err
	}
	return next, p, nil
}

// Placement holds the node and devices assigned to a replica.
type Placement struct {
	Key, Node   string
	Assignments []layout.Assignment
}

// GPUs returns the indexes of its GPUs in ascending order; nil for a replica without GPU.
func (p *Placement) GPUs() (out []int) {
	for i := range p.Assignments {
		if d := p.Assignments[i].Device; d >= 0 {
			out = append(out, int(d))
		}
	}
	return out
}

// String returns the place: "job on node-3 GPU [1] as 470m of mps".
func (p Placement) String() string {
	gpus := p.GPUs()
	if len(gpus) == 0 {
		return fmt.Sprintf("%s on %s", p.Key, p.Node)
	}
	a := &p.Assignments[0]
	switch {
	case a.Profile != nil:
		return fmt.Sprintf("%s on %s GPU %v as %s at %d", p.Key, p.Node, gpus, a.Profile.Name, a.Start)
	case a.Compute == 0:
		return fmt.Sprintf("%s on %s GPU %v as %v of %v", p.Key, p.Node, gpus, a.Memory, a.Mode)
	}
	return fmt.Sprintf("%s on %s GPU %v as %dm of %v", p.Key, p.Node, gpus, a.Compute, a.Mode)
}
