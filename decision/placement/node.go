package placement

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// MaxGPUs is the most GPUs that one node may have.
const MaxGPUs = 16

// Optional holds a value that may be missing; the zero Optional is missing. Get returns the value and whether it is
// there, Or the value or a fallback, IsZero whether it is missing; Equal compares two, String writes "-" for a
// missing one, and JSON null, or nothing with omitzero:
//
//	if v, ok := o.Get(); ok { use(v) } // or use(o.Or(0))
type Optional[T any] = optional.Value[T]

// Some returns an Optional that holds v.
func Some[T any](v T) Optional[T] { return optional.Of(v) }

// Node is a node as it enters a snapshot, with what is there when nothing is
// placed on it; Running says what is placed already.
type Node struct {
	Name     string
	CPUMilli int64         // thousandths of a core
	Memory   sharing.Bytes // of the host
	Model    string        // GPU model, as requests name it
	GPUs     []GPU
	Running  []Running
	// Ground holds the gates' facts about its GPUs; nil = none. Requests with a Demand are held against it.
	Ground *gate.Ground
}

// GPU is one GPU of a node.
type GPU struct {
	// Mechanism is the one that all tenants of the GPU share it by. None stands for an idle GPU that takes its
	// first tenant's mechanism and is free of it when the last one leaves.
	Mechanism sharing.Mechanism
	Memory    Optional[sharing.Bytes]
	// MaxTenants bounds the tenants (replicas of the device plugin, HAMi's
	// shares). 0 is the mechanism's own bound, as [gate.Ground.Seats] has it.
	MaxTenants int
	// MIG is the model that partitions it, when Mechanism is MIG. An idle GPU (None) that names its model is
	// partitioned for a request with a profile, and leaves MIG mode with the last instance: whoever carries
	// placements out sets the mode, which can take a reset. One that names none is never partitioned.
	MIG *mig.Model
}

// Running is a request that runs on a node already.
type Running struct {
	Request *Request
	GPUs    []int // their indexes
	Start   int   // of the MIG instance
}

// View is the free capacity of a node, as policies see it. Policies must not change it.
type View struct {
	CPUMilli int64
	Memory   sharing.Bytes
	Model    string
	Len      int // of GPUs
	GPUs     [MaxGPUs]GPUView
}

// GPUView is the free capacity of a GPU.
type GPUView struct {
	Mechanism sharing.Mechanism
	fixed     bool  // the mechanism stays when the last tenant leaves
	seats     int32 // that are stated; 0 = the mechanism's
	gate.Left
	MIG    *mig.Model // of a GPU in MIG mode
	Slices mig.Occupancy

	idleMIG *mig.Model // what it is partitioned by when it is idle; nil = never
}

// FreeMilli returns the free thousandths of all GPUs; a free unit of a MIG GPU counts as its part of 1000.
func (v *View) FreeMilli() float64 {
	sum := 0.0
	for i := range v.GPUs[:v.Len] {
		sum += v.GPUs[i].free()
	}
	return sum
}

// partition is the model by which the GPU is partitioned, or would be now; nil where it is not.
func (g *GPUView) partition() *mig.Model {
	if g.Mechanism == sharing.MechanismNone {
		return g.idleMIG
	}
	return g.MIG
}

func (g *GPUView) free() float64 {
	if g.MIG == nil {
		return float64(g.Milli)
	}
	return 1000 / float64(g.MIG.Units) * float64(g.MIG.Units-bits.OnesCount32(g.Slices.Mask()))
}

// stateCount numbers the states of nodes, to tell them apart.
var stateCount atomic.Uint64

// node is a node of a snapshot. It is immutable.
type node struct {
	id     uint64 // of this state of the node
	name   string
	view   View
	ground *gate.Ground
	placed []*Placement
	// tenant is the only tenant of all that is placed, unless mixed.
	tenant string
	mixed  bool
}

func (n *Node) check(path string, l *problem.List) {
	add := func(field, remedy, format string, args ...any) {
		l.Addf(problem.Join(path, field), remedy, format, args...)
	}
	if n.Name == "" {
		add("Name", "", "a node has no name")
	}
	if n.CPUMilli < 0 || n.CPUMilli > MaxCPUMilli {
		add("CPUMilli", "thousandths of a core", "%d is out of range", n.CPUMilli)
	}
	if n.Memory < 0 || n.Memory > MaxMemory {
		add("Memory", "", "%d bytes are out of range", int64(n.Memory))
	}
	if len(n.GPUs) > MaxGPUs {
		add("GPUs", fmt.Sprintf("a node has at most %d", MaxGPUs), "%d GPUs", len(n.GPUs))
	}
	for i, g := range n.GPUs {
		at := fmt.Sprintf("GPUs[%d].", i)
		if g.Mechanism != sharing.MechanismNone && !slices.Contains(placeable, g.Mechanism) {
			add(at+"Mechanism", "", "placement does not handle %v", g.Mechanism)
		}
		switch {
		case g.Mechanism == sharing.MechanismMIG && g.MIG == nil:
			add(at+"MIG", "name the GPU's model, see mig.Lookup", "a MIG GPU without its model")
		case g.Mechanism != sharing.MechanismMIG && g.Mechanism != sharing.MechanismNone && g.MIG != nil:
			add(at+"MIG", "set Mechanism to MIG, or to None for one that may be partitioned, or leave MIG out",
				"a MIG model on a GPU that runs %v", g.Mechanism)
		case g.MIG != nil && !g.MIG.PlacementsKnown():
			add(at+"MIG", "read them from a device", "where instances may be placed on a %s is not known", g.MIG.Key)
		}
		if b, known := g.Memory.Get(); known && (b <= 0 || b > MaxMemory) {
			add(at+"Memory", "leave it out where it is not known", "%d bytes are out of range", int64(b))
		}
		if g.MaxTenants < 0 || g.MaxTenants > math.MaxInt16 {
			add(at+"MaxTenants", "0 = the mechanism's bound", "%d is out of range", g.MaxTenants)
		}
	}
}

func (n *Node) view() View {
	v := View{CPUMilli: n.CPUMilli, Memory: n.Memory, Model: n.Model, Len: len(n.GPUs)}
	for i, g := range n.GPUs {
		room := g.MaxTenants
		if room == 0 {
			room = math.MaxInt16
		}
		v.GPUs[i] = GPUView{Mechanism: g.Mechanism, fixed: g.Mechanism != sharing.MechanismNone, seats: int32(g.MaxTenants),
			Left: gate.Left{Milli: 1000, Room: int32(room), Memory: g.Memory.Or(0), Total: g.Memory}}
		if g.Mechanism == sharing.MechanismMIG {
			v.GPUs[i].MIG = g.MIG
		} else {
			v.GPUs[i].idleMIG = g.MIG
		}
	}
	return v
}
