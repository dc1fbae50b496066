package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

const chunkSize = 32

// Snapshot is the state of a cluster. It is immutable: Reserve and Release return another one, which shares all but
// the node that changed, so that keeping one costs next to nothing. It is safe for concurrent use. Nodes have the
// order in which they were given.
type Snapshot struct {
	chunks []*[chunkSize]*node
	len    int
	index  map[string]int // shared by all snapshots of a cluster
}

// Placement is a request that has its place. It is immutable.
type Placement struct {
	Request   *Request
	Node      string
	GPUs      []int // indexes on the node, ascending; empty for a request without GPU
	Milli     int   // thousandths of each GPU
	GPUMemory sharing.Bytes
	Mechanism sharing.Mechanism // None without GPU
	Profile   *mig.Profile      // of MIG
	Start     int               // of the MIG instance
}

// String returns the place: "job on node-3 GPU [1] as 470m of mps".
func (p *Placement) String() string {
	switch {
	case len(p.GPUs) == 0:
		return fmt.Sprintf("%s on %s", p.Request.Name, p.Node)
	case p.Profile != nil:
		return fmt.Sprintf("%s on %s GPU %v as %s at %d", p.Request.Name, p.Node, p.GPUs, p.Profile.Name, p.Start)
	}
	return fmt.Sprintf("%s on %s GPU %v as %dm of %v", p.Request.Name, p.Node, p.GPUs, p.Milli, p.Mechanism)
}

// NewSnapshot makes a snapshot of nodes and what runs on them. The error is an ErrInvalid that names every problem
// with its path: values out of range, duplicate names, running requests that are on no GPU or take more than there
// is, two mechanisms on one GPU.
func NewSnapshot(nodes []Node) (*Snapshot, error) {
	var l problem.List
	if len(nodes) > MaxNodeCount {
		l.Addf("Nodes", "", "%d nodes are over the limit of %d", len(nodes), MaxNodeCount)
		return nil, invalid(l.Err())
	}
	s := &Snapshot{len: len(nodes), index: make(map[string]int, len(nodes)),
		chunks: make([]*[chunkSize]*node, (len(nodes)+chunkSize-1)/chunkSize)}
	for i := range nodes {
		in := &nodes[i]
		path := fmt.Sprintf("Nodes[%d]", i)
		before := l.Len()
		in.check(path, &l)
		if first, ok := s.index[in.Name]; ok {
			l.Addf(problem.Join(path, "Name"), "", "%q is the name of Nodes[%d] as well", in.Name, first)
		}
		s.index[in.Name] = i
		if l.Len() > before {
			continue
		}
		n := &node{id: stateCount.Add(1), name: in.Name, view: in.view(), ground: in.Ground}
		for j, run := range in.Running {
			n = n.start(problem.Join(path, fmt.Sprintf("Running[%d]", j)), run, &l)
		}
		if s.chunks[i/chunkSize] == nil {
			s.chunks[i/chunkSize] = new([chunkSize]*node)
		}
		s.chunks[i/chunkSize][i%chunkSize] = n
	}
	if err := l.Err(); err != nil {
		return nil, invalid(err)
	}
	return s, nil
}

// start adds what runs already. On a problem it returns n as it is.
func (n *node) start(path string, run Running, l *problem.List) *node {
	before := l.Len()
	if run.Request == nil {
		l.Addf(path, "", "no request")
		return n
	}
	run.Request.check(problem.Join(path, "Request"), l)
	l.If(len(run.GPUs) != run.Request.GPUs, problem.Join(path, "GPUs"), "list the index of each",
		"%d GPUs for a request of %d", len(run.GPUs), run.Request.GPUs)
	c := Offer{Start: -1, n: len(run.GPUs)}
	for i, g := range run.GPUs {
		if g < 0 || g >= n.view.Len {
			l.Addf(problem.Join(path, fmt.Sprintf("GPUs[%d]", i)), "", "the node has no GPU %d", g)
		} else if slices.Contains(run.GPUs[:i], g) {
			l.Addf(problem.Join(path, fmt.Sprintf("GPUs[%d]", i)), "", "GPU %d is listed twice", g)
		} else if i < MaxGPUs {
			c.gpus[i] = uint8(g)
		}
	}
	if l.Len() > before {
		return n
	}
	if run.Request.Profile != "" {
		c.Start = run.Start
	}
	slices.Sort(c.gpus[:c.n])
	// What runs already was let in by others: trust and objectives are not judged again.
	p, f := n.placementOf(run.Request, &c)
	if f.Verdict == gate.VerdictReject || f.Verdict == gate.VerdictFixable || p == nil {
		l.Addf(path, "a label that lies about capacity, or two mechanisms on one GPU?", "%s can't run here: %v",
			run.Request.Name, f)
		return n
	}
	return n.with(p)
}

// Len returns the number of nodes.
func (s *Snapshot) Len() int { return s.len }

// Name returns the name of node i.
func (s *Snapshot) Name(i int) string { return s.node(i).name }

// View returns what is free on node i. It is read-only.
func (s *Snapshot) View(i int) *View { return &s.node(i).view }

// Placements returns what is placed on node i, oldest first. The slice is read-only.
func (s *Snapshot) Placements(i int) []*Placement { return s.node(i).placed }

func (s *Snapshot) node(i int) *node { return s.chunks[i/chunkSize][i%chunkSize] }

// Join returns the nodes of snapshots as one. Names must differ for Node to find each.
func Join(parts ...*Snapshot) *Snapshot {
	s := &Snapshot{index: map[string]int{}}
	for _, part := range parts {
		for i := range part.len {
			if s.len%chunkSize == 0 {
				s.chunks = append(s.chunks, new([chunkSize]*node))
			}
			n := part.node(i)
			s.chunks[s.len/chunkSize][s.len%chunkSize], s.index[n.name] = n, s.len
			s.len++
		}
	}
	return s
}

// With returns the snapshot with the first node of another in the place of node i, which should have its name.
func (s *Snapshot) With(i int, other *Snapshot) *Snapshot { return s.set(i, other.node(0)) }

// set returns a snapshot with another node i.
func (s *Snapshot) set(i int, n *node) *Snapshot {
	out := *s
	out.chunks = slices.Clone(s.chunks)
	c := *s.chunks[i/chunkSize]
	c[i%chunkSize] = n
	out.chunks[i/chunkSize] = &c
	return &out
}

// Reserve takes what an offer takes and returns the new snapshot. The offer may have been scored on an older
// snapshot: where it no longer fits the error is an ErrConflict that says why, and s is unchanged as always.
func (s *Snapshot) Reserve(r *Request, c Offer) (*Snapshot, *Placement, error) {
	if c.Node < 0 || c.Node >= s.len || c.n != r.GPUs {
		return nil, nil, fmt.Errorf("%w: no such offer", ErrInvalid)
	}
	n := s.node(c.Node)
	p, f := n.placementOf(r, &c)
	if p == nil || f.Verdict == gate.VerdictReject || f.Verdict == gate.VerdictFixable {
		return nil, nil, fmt.Errorf("%w: %s on %s: %v", ErrConflict, r.Name, n.name, f)
	}
	return s.set(c.Node, n.with(p)), p, nil
}

// Release gives back what a placement has and returns the new snapshot. p is one that Reserve or Placements
// returned; the error is ErrNotPlaced when s does not hold it, as none holds nil.
func (s *Snapshot) Release(p *Placement) (*Snapshot, error) {
	if p == nil {
		return nil, fmt.Errorf("%w: nil", ErrNotPlaced)
	}
	i, ok := s.index[p.Node]
	if !ok {
		return nil, fmt.Errorf("%w: there is no node %s", ErrNotPlaced, p.Node)
	}
	n := s.node(i)
	at := slices.Index(n.placed, p)
	if at < 0 {
		return nil, fmt.Errorf("%w: %v", ErrNotPlaced, p)
	}
	return s.set(i, n.without(at)), nil
}

// placementOf checks an offer against the node as it is and makes it a placement; nil when it does not fit.
func (n *node) placementOf(r *Request, c *Offer) (*Placement, gate.Reason) {
	var why gate.Reason
	if !n.fits(r, &why) {
		return nil, why
	}
	p := &Placement{Request: r, Node: n.name, Start: c.Start}
	for _, g := range c.gpus[:c.n] {
		if int(g) >= n.view.Len {
			return nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeGPUCount, Need: int64(g) + 1,
				Have: int64(n.view.Len)}
		}
		var t take
		// whoever scored it has judged objectives
		if !n.fit(int(g), r, nil, &t, &why) && why.Code != gate.CodeSlowdownUnknown {
			return nil, why
		}
		if t.profile != nil {
			if _, ok := n.view.GPUs[g].Slices.With(t.profile, c.Start); !ok {
				refuse(&why, gate.CodeSlices)
				return nil, why
			}
		}
		if len(p.GPUs) > 0 && (p.Mechanism != t.mechanism || p.Milli != int(t.milli)) {
			return nil, gate.Reason{Verdict: gate.VerdictReject, Code: gate.CodeGPUCount, Need: int64(r.GPUs),
				Have: int64(len(p.GPUs))}
		}
		p.GPUs = append(p.GPUs, int(g))
		p.Milli, p.GPUMemory, p.Mechanism, p.Profile = int(t.milli), t.memory, t.mechanism, t.profile
	}
	return p, gate.Pass()
}

// with returns the node with p on it.
func (n *node) with(p *Placement) *node {
	out := *n
	out.view.CPUMilli -= p.Request.CPUMilli
	out.view.Memory -= p.Request.Memory
	for _, i := range p.GPUs {
		out.view.GPUs[i].apply(&take{mechanism: p.Mechanism, milli: int32(p.Milli), memory: p.GPUMemory, profile: p.Profile},
			p.Start)
	}
	out.placed = append(n.placed[:len(n.placed):len(n.placed)], p)
	out.tenancy()
	return &out
}

// without returns the node without its placement at.
func (n *node) without(at int) *node {
	p := n.placed[at]
	out := *n
	out.placed = slices.Delete(slices.Clone(n.placed), at, at+1)
	v := &out.view
	v.CPUMilli += p.Request.CPUMilli
	v.Memory += p.Request.Memory
	for _, i := range p.GPUs {
		g := &v.GPUs[i]
		g.Tenants--
		g.Room++
		if p.Profile != nil {
			g.Slices, _ = g.Slices.Without(p.Profile, p.Start)
		} else {
			g.Milli += int32(p.Milli)
			g.Memory += p.GPUMemory
		}
		if g.Tenants == 0 && !g.fixed {
			g.Mechanism, g.MIG = sharing.MechanismNone, nil
		}
	}
	out.tenancy()
	return &out
}

// tenancy notes whose placements are on a node that was changed.
func (n *node) tenancy() {
	n.id = stateCount.Add(1)
	n.tenant, n.mixed = "", false
	for i, p := range n.placed {
		if i == 0 {
			n.tenant = p.Request.Tenant
		} else if p.Request.Tenant != n.tenant {
			n.mixed = true
		}
	}
}

// apply takes from a GPU what a request takes of it.
func (g *GPUView) apply(t *take, start int) {
	g.Tenants++
	g.Room--
	if t.profile != nil {
		g.Mechanism, g.MIG = sharing.MechanismMIG, t.profile.Model()
		g.Slices, _ = g.Slices.With(t.profile, start)
		return
	}
	g.Mechanism = t.mechanism
	g.Milli -= t.milli
	g.Memory -= t.memory
}

// Errors that calls of this package wrap; test for them with errors.Is.
var (
	// ErrInvalid says that an input breaks a rule; the error names every place.
	ErrInvalid = errors.New("placement: invalid input")
	// ErrNoFit says that no node takes a request. The error is an *UnplacedError.
	ErrNoFit = errors.New("placement: no node fits")
	// ErrConflict says that an offer no longer fits the snapshot it is
	// reserved on, because that is newer than the one it was scored on.
	ErrConflict = errors.New("placement: the offer no longer fits")
	// ErrNotPlaced says that a snapshot does not hold a placement.
	ErrNotPlaced = errors.New("placement: not placed here")
)

// UnplacedError holds the reasons why no node takes a request. It is an ErrNoFit.
type UnplacedError struct {
	Request string
	Nodes   int
	// Reasons counts the nodes by reason, ordered by count and then code.
	Reasons []ReasonCount
}

// ReasonCount is a number of nodes that have one reason, with an example.
type ReasonCount struct {
	Code    gate.Code    `json:"code"`
	Verdict gate.Verdict `json:"verdict"`
	Nodes   int          `json:"nodes"`
	Example string       `json:"example"` // what the first of the nodes says
}

// Error counts the nodes by reason: "0 of 3 nodes take job-7: 2 gpu-share (...)".
func (e *UnplacedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: 0 of %d nodes take %s", ErrNoFit, e.Nodes, e.Request)
	for i, r := range e.Reasons {
		sep := ": "
		if i > 0 {
			sep = "; "
		}
		fmt.Fprintf(&b, "%s%d %v (%s)", sep, r.Nodes, r.Code, r.Example)
	}
	return b.String()
}

// Is reports whether target is ErrNoFit.
func (e *UnplacedError) Is(target error) bool { return target == ErrNoFit }

// Unplaced explains why no node takes a request, by filtering every node. It
// returns nil where one does. p is as for Snapshot.Fit.
func (s *Snapshot) Unplaced(r *Request, p Forecaster) *UnplacedError {
	e := &UnplacedError{Request: r.Name, Nodes: s.Len()}
	for i := range s.Len() {
		f := s.Fit(i, r, p)
		if f.Verdict == gate.VerdictPass {
			return nil
		}
		at := slices.IndexFunc(e.Reasons, func(c ReasonCount) bool { return c.Code == f.Code && c.Verdict == f.Verdict })
		if at < 0 {
			at = len(e.Reasons)
			e.Reasons = append(e.Reasons, ReasonCount{Code: f.Code, Verdict: f.Verdict, Example: f.String()})
		}
		e.Reasons[at].Nodes++
	}
	slices.SortStableFunc(e.Reasons, func(a, b ReasonCount) int {
		return cmp.Or(b.Nodes-a.Nodes, cmp.Compare(a.Code, b.Code))
	})
	return e
}
