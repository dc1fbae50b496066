package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// seat is the kind of device that a replica holds.
type seat struct {
	mechanism sharing.Mechanism
	profile   string // of a MIG instance
}

func (s seat) String() string { return strings.TrimSpace(s.mechanism.String() + " " + s.profile) }

// node is a node with who runs on it.
type node struct {
	*decision.Node
	run map[string]int // replicas by workload
}

// Shape describes how a node hands out its GPUs.
type Shape struct {
	Mechanism sharing.Mechanism `json:"mechanism"`           // of the GPUs outside MIG mode
	Replicas  int               `json:"replicas,omitempty"`  // pods to one of them, where they are shared
	Layouts   []map[string]int  `json:"layouts,omitempty"`   // a new node's MIG instances by profile, GPU by GPU
	Instances map[string]int    `json:"instances,omitempty"` // all of them

	whole int // GPUs outside MIG mode
}

// ShapeOf returns how a node hands out its GPUs today.
func ShapeOf(n *decision.Node) Shape {
	return Shape{Mechanism: cmp.Or(n.Mechanism, sharing.MechanismExclusive), Replicas: max(1, n.Replicas),
		Instances: n.Instances, whole: n.GPUs - n.InMIG}
}

// String writes the shape for people: "mps, 3 pods to a GPU".
func (s Shape) String() string {
	var parts []string
	switch {
	case s.whole > 0 && s.Mechanism == sharing.MechanismExclusive:
		parts = append(parts, "whole GPUs")
	case s.whole > 0:
		parts = append(parts, fmt.Sprintf("%v, %d pods to a GPU", s.Mechanism, s.Replicas))
	}
	for _, p := range slices.Sorted(maps.Keys(s.Instances)) {
		parts = append(parts, fmt.Sprintf("%d x %s", s.Instances[p], p))
	}
	return strings.Join(parts, " and ")
}

// seats is the number of devices of a kind; of whole GPUs those GPUs.
func (s *Shape) seats(k seat) int {
	switch {
	case k.mechanism == sharing.MechanismMIG:
		return s.Instances[k.profile]
	case k.mechanism != s.Mechanism:
		return 0
	case k.mechanism == sharing.MechanismExclusive:
		return s.whole
	}
	return s.whole * s.Replicas
}

// want is a workload's replicas that need devices of a kind.
type want struct {
	workload string
	seat     seat
	each     int // devices of one replica
	n        int // replicas
}

// load lists the replicas that a node is to hold.
type load struct {
	node  *node
	shape Shape
	run   map[string]int // replicas by workload
	used  map[seat]int   // devices
	fresh bool           // it is to get its shape
}

// free is the number of replicas for which devices are free.
func (l *load) free(w *want) int { return (l.shape.seats(w.seat) - l.used[w.seat]) / w.each }

// put gives as many of n replicas devices as are free, and returns their number.
func (l *load) put(w *want, n int) int {
	n = min(n, l.free(w))
	if n <= 0 {
		return 0
	}
	l.run[w.workload] += n
	l.used[w.seat] += n * w.each
	return n
}

func newLoad(n *node, s Shape) *load { return &load{n, s, map[string]int{}, map[seat]int{}, false} }

// yard is a pool while its nodes are laid out.
type yard struct {
	density map[sharing.Mechanism]int // pods that share a GPU of a new node
	model   *mig.Model                // nil without MIG
	trusts  func(a, b string) bool    // whether two workloads may share a GPU without hardware between them
}

// welcome reports whether those on a node trust a workload, who may meet it on any GPU that is shared.
func (y *yard) welcome(l *load, w *want) bool {
	if w.seat.mechanism == sharing.MechanismExclusive || w.seat.mechanism == sharing.MechanismMIG {
		return true
	}
	for other := range l.run {
		if !y.trusts(w.workload, other) {
			return false
		}
	}
	return true
}

// join puts replicas beside others that trust them.
func (y *yard) join(l *load, w *want) int {
	if !y.welcome(l, w) {
		return 0
	}
	return l.put(w, w.n)
}

// mostTried bounds how many numbers of nodes that stay as they are are tried.
const mostTried = 64

// assign seats what is wanted of the pool on its nodes: on the fewest nodes, and of those ways the one that leaves most
// nodes as they are. nil says that the nodes are too few.
func (y *yard) assign(wants []want, nodes []*node) []*load {
	seats := map[string]seat{}
	for i := range wants {
		seats[wants[i].workload] = wants[i].seat
	}
	stay := func(n *node) (devices int) {
		s := ShapeOf(n.Node)
		for w, k := range n.run {
			if seat, ok := seats[w]; ok && s.seats(seat) > 0 {
				devices += k
			}
		}
		return devices
	}
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(x, y *node) int {
		return cmp.Or(cmp.Compare(stay(y), stay(x)), cmp.Compare(len(y.run), len(x.run)), cmp.Compare(x.Name, y.Name))
	})
	var best []*load
	fewest := 0
	for step, k := max(1, len(nodes)/mostTried), len(nodes); k >= 0; k -= step {
		loads := y.try(wants, nodes[:k], nodes[k:])
		used := 0
		for _, l := range loads {
			if len(l.run) > 0 {
				used++
			}
		}
		if loads != nil && (best == nil || used < fewest) {
			best, fewest = loads, used
		}
	}
	return best
}

// try seats what is wanted on nodes that stay as they are, and the rest on those of the others that it needs.
func (y *yard) try(wants []want, keep, rest []*node) []*load {
	left := slices.Clone(wants)
	var loads []*load
	for _, n := range keep {
		l := newLoad(n, ShapeOf(n.Node))
		for i := range left { // what is there already
			if here := min(n.run[left[i].workload], left[i].n); here > 0 {
				left[i].n -= l.put(&left[i], here)
			}
		}
		loads = append(loads, l)
	}
	fullest := slices.Clone(loads)
	slices.SortStableFunc(fullest, func(x, y *load) int { return cmp.Compare(len(y.run), len(x.run)) })
	for i := range left {
		for _, l := range fullest {
			left[i].n -= y.join(l, &left[i])
		}
	}
	rest = slices.Clone(rest)
	slices.SortFunc(rest, func(x, y *node) int {
		return cmp.Or(cmp.Compare(replicas(x.run), replicas(y.run)), cmp.Compare(x.Name, y.Name))
	})
	loads, rest, ok := y.fresh(loads, left, rest)
	if !ok {
		return nil
	}
	return emptied(loads, rest)
}

// emptied adds loads of the nodes that nothing needs.
func emptied(loads []*load, rest []*node) []*load {
	for _, n := range rest {
		loads = append(loads, newLoad(n, ShapeOf(n.Node)))
	}
	return loads
}

func replicas(run map[string]int) (n int) {
	for _, k := range run {
		n += k
	}
	return n
}

// fresh seats what is left on nodes that get another shape, each of one mechanism, in their order and the largest
// replicas first, and returns the nodes that are over and whether they were enough.
func (y *yard) fresh(loads []*load, left []want, rest []*node) ([]*load, []*node, bool) {
	for _, m := range sharing.Mechanisms() {
		of := slices.DeleteFunc(slices.Clone(left), func(w want) bool { return w.n == 0 || w.seat.mechanism != m })
		slices.SortStableFunc(of, func(x, y want) int { return cmp.Compare(y.each, x.each) })
		shapes := func(n *node) (Shape, bool) {
			return Shape{Mechanism: m, Replicas: max(2, y.density[m]), whole: n.GPUs}, true
		}
		switch m {
		case sharing.MechanismExclusive:
			shapes = func(n *node) (Shape, bool) { return Shape{Mechanism: m, Replicas: 1, whole: n.GPUs}, true }
		case sharing.MechanismMIG:
			shapes = layouts(of, y.model)
		}
		for len(of) > 0 {
			if len(rest) == 0 {
				return nil, nil, false
			}
			shape, ok := shapes(rest[0])
			l := newLoad(rest[0], shape)
			l.fresh, rest = true, rest[1:]
			for i := range of {
				of[i].n -= y.join(l, &of[i])
			}
			if len(l.run) == 0 || !ok {
				return nil, nil, false
			}
			loads = append(loads, l)
			of = slices.DeleteFunc(of, func(w want) bool { return w.n == 0 })
		}
	}
	return loads, rest, true
}

// layouts gives nodes the MIG instances that are wanted, packed onto the fewest GPUs.
func layouts(of []want, model *mig.Model) func(*node) (Shape, bool) {
	var counts []mig.Count
	for _, w := range of {
		counts = append(counts, mig.Count{Profile: w.seat.profile, N: w.n * w.each})
	}
	var gpus []map[string]int
	if model != nil {
		if packed, err := model.Pack(counts); err == nil {
			for _, g := range packed.Groups {
				for range g.GPUs {
					one := map[string]int{}
					for _, c := range g.Layout.Counts() {
						one[c.Profile] += c.N
					}
					gpus = append(gpus, one)
				}
			}
		}
	}
	return func(n *node) (Shape, bool) {
		k := min(n.GPUs, len(gpus))
		s := Shape{Mechanism: sharing.MechanismExclusive, Replicas: 1, Layouts: gpus[:k], Instances: map[string]int{},
			whole: n.GPUs - k}
		for _, one := range gpus[:k] {
			for p, c := range one {
				s.Instances[p] += c
			}
		}
		gpus = gpus[k:]
		return s, k > 0
	}
}

// seatings are the GPUs and instances of nodes with who is on them, as the device plugin deals shared GPUs: each next
// pod gets one of those with the fewest (its allocation policy "distributed", which it uses for replicas).
func seatings(loads []*load, seats map[string]seat) []decision.Seating {
	var out []decision.Seating
	for _, l := range loads {
		dealt := make([]map[string]int, l.shape.whole)
		next := 0
		for _, w := range slices.Sorted(maps.Keys(l.run)) {
			k := seats[w]
			if k.mechanism == sharing.MechanismExclusive || k.mechanism == sharing.MechanismMIG || len(dealt) == 0 {
				out = append(out, decision.Seating{Pool: l.node.Pool, Mechanism: k.mechanism, Profile: k.profile,
					Tenants: []decision.TenantResult{{Workload: w, Replicas: 1}}})
				continue
			}
			for range l.run[w] {
				if dealt[next] == nil {
					dealt[next] = map[string]int{}
				}
				dealt[next][w]++
				next = (next + 1) % len(dealt)
			}
		}
		for _, of := range dealt {
			if of == nil {
				continue
			}
			s := decision.Seating{Pool: l.node.Pool, Mechanism: l.shape.Mechanism}
			for _, w := range slices.Sorted(maps.Keys(of)) {
				s.Tenants = append(s.Tenants, decision.TenantResult{Workload: w, Replicas: of[w]})
			}
			out = append(out, s)
		}
	}
	return out
}
