package placement

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Request states the needs of one workload's replica (a pod, say). It must not be
// modified once it was given to this package.
type Request struct {
	Name     string        // in messages, and for Random
	CPUMilli int64         // thousandths of a core
	Memory   sharing.Bytes // of the host

	// GPUs is the number of GPUs that it needs, all of one node and by one mechanism; 0 is none at all.
	GPUs int
	// Milli is the thousandths of each GPU: 1000 asks for whole ones. 0 with
	// GPUMemory leaves it to the memory: its share of the GPU's.
	Milli     int
	GPUMemory sharing.Bytes // of each GPU; 0 = not limited
	// Profile asks for one MIG instance instead, by its name on the GPU.
	Profile string

	Models     []string            // the GPU models that will do; empty = any
	Mechanisms []sharing.Mechanism // those that will do, best first; empty = what the GPU runs

	// Tenant and Trusts decide who may share a GPU where the mechanism does not isolate: replicas of one tenant,
	// and tenants that name each other. An unstated tenant is a tenant of its own, named "".
	Tenant string
	Trusts []string

	// Demand states the needs of the workload that it is a replica of; nil =
	// not known. On nodes with a Ground, decision's gates are then asked as well.
	Demand *gate.Demand
	// Workload is the request's name for a Forecaster.
	Workload string
	// MaxSlowdown is the objective: how many times slower than alone neighbours may make it. 0 = there is none.
	MaxSlowdown float64
	// SLO are limits of its latencies, beside neighbours. The zero value sets none.
	SLO profile.SLO
}

// Limits of an input: larger numbers are taken for mistakes.
const (
	MaxCPUMilli  = 1_000_000_000
	MaxMemory    = 1 << 50
	MaxNodeCount = 1_000_000
)

// Mechanisms that placement knows how to fill. MIG with MPS inside, and what has
// no GPU of its own to place on, are left to other tools.
var placeable = []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS,
	sharing.MechanismMIG, sharing.MechanismHAMi,
	sharing.MechanismHAMiWithMPS, sharing.MechanismVGPU, sharing.MechanismMIGLikeEmulation}

// Validate checks a request. The error is an ErrInvalid that names every problem with its field.
func (r *Request) Validate() error {
	var l problem.List
	r.check("", &l)
	return invalid(l.Err())
}

func invalid(err error) error { return problem.Under(ErrInvalid, err) }

func (r *Request) check(path string, l *problem.List) {
	add := func(field, remedy, format string, args ...any) {
		l.Addf(problem.Join(path, field), remedy, format, args...)
	}
	checkHost(path, r.CPUMilli, r.Memory, l)
	if r.GPUMemory < 0 || r.GPUMemory > MaxMemory {
		add("GPUMemory", "", "%d bytes are out of range", int64(r.GPUMemory))
	}
	switch {
	case r.GPUs < 0 || r.GPUs > MaxGPUs:
		add("GPUs", fmt.Sprintf("use 0 to %d", MaxGPUs), "%d GPUs", r.GPUs)
	case r.GPUs == 0 && (r.Milli != 0 || r.GPUMemory != 0 || r.Profile != ""):
		add("GPUs", "say how many", "a share of a GPU but no GPU")
	case r.Profile != "":
		l.If(r.GPUs != 1, problem.Join(path, "GPUs"), "ask for each MIG instance by itself", "%d GPUs with a MIG profile",
			r.GPUs)
		l.If(r.Milli != 0, problem.Join(path, "Milli"), "leave one of them out",
			"a MIG profile and thousandths exclude each other")
		_, err := mig.ParseName(r.Profile)
		l.AddErr(problem.Join(path, "Profile"), err)
	case r.Milli < 0 || r.Milli > 1000:
		add("Milli", "thousandths of each GPU: 1 to 1000", "%d is out of range", r.Milli)
	case r.GPUs > 0 && r.Milli == 0 && r.GPUMemory == 0:
		add("Milli", "state Milli, GPUMemory or Profile; 1000 is a whole GPU", "how much of a GPU is not said")
	}
	for i, m := range r.Mechanisms {
		if !slices.Contains(placeable, m) {
			add(fmt.Sprintf("Mechanisms[%d]", i), "", "placement does not handle %v", m)
		}
	}
	l.If(!(r.MaxSlowdown == 0 || r.MaxSlowdown >= 1 && !math.IsInf(r.MaxSlowdown, 1)), problem.Join(path, "MaxSlowdown"),
		"1 is as fast as alone; 0 sets no objective", "%v is no slowdown", r.MaxSlowdown)
	l.AddErr(problem.Join(path, "SLO"), r.SLO.Validate())
}

// checkHost checks what a request asks of a node's host, or what there is.
func checkHost(path string, cpuMilli int64, memory sharing.Bytes, l *problem.List) {
	l.If(cpuMilli < 0 || cpuMilli > MaxCPUMilli, problem.Join(path, "CPUMilli"), "thousandths of a core",
		"%d is out of range", cpuMilli)
	l.If(memory < 0 || memory > MaxMemory, problem.Join(path, "Memory"), "", "%d bytes are out of range", int64(memory))
}

// whole reports whether the request wants its GPUs for itself.
func (r *Request) whole() bool { return r.Milli == 1000 }

// mechanisms has a bit for what a GPU outside MIG mode may run for the request.
func (r *Request) mechanisms() (bits uint32) {
	for m := range sharing.Mechanism(sharing.MechanismCount) {
		if m != sharing.MechanismMIG && chooseMechanism(m, r, &take{}, &gate.Reason{}) {
			bits |= 1 << m
		}
	}
	return bits
}

// trusts reports whether two requests may stand on one GPU that does not isolate them.
func trusts(a, b *Request) bool {
	x, y := gate.Party{Tenant: a.Tenant, Trusts: a.Trusts}, gate.Party{Tenant: b.Tenant, Trusts: b.Trusts}
	return x.MayShare(&y)
}

// shape has the fields of a request that decide where it fits and how it scores: all but its name.
type shape struct {
	cpu, memory, gpuMemory   int64
	gpus, milli              int
	profile, lists, workload string
	tenant, trusts           string
	slowdown                 float64
	slo                      profile.SLO
	demand                   *gate.Demand
}

func (r *Request) shape() shape {
	s := shape{int64(r.CPUMilli), int64(r.Memory), int64(r.GPUMemory), r.GPUs, r.Milli, r.Profile, "", r.Workload,
		r.Tenant, "", r.MaxSlowdown, r.SLO, r.Demand}
	if len(r.Models)+len(r.Mechanisms) > 0 {
		s.lists = fmt.Sprintf("%q%d", r.Models, r.Mechanisms)
	}
	if len(r.Trusts) > 0 {
		s.trusts = fmt.Sprintf("%q", r.Trusts)
	}
	return s
}

// MaxGPUs is the most GPUs that one node may have.
const MaxGPUs = 16

// Optional holds a value that may be missing, as the zero one's is: if v, ok := o.Get(); ok { use(v) } or use(o.Or(0)).
// IsZero says that it is, and Equal compares two; String writes "-" for a missing one, JSON null, or omitzero nothing.
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
	checkHost(path, n.CPUMilli, n.Memory, l)
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
		v.GPUs[i] = GPUView{Mechanism: g.Mechanism, fixed: g.Mechanism != sharing.MechanismNone, seats: int32(g.MaxTenants),
			Left: gate.Left{Milli: 1000, Room: int32(cmp.Or(g.MaxTenants, math.MaxInt16)),
				Memory: g.Memory.Or(0), Total: g.Memory}}
		if g.Mechanism == sharing.MechanismMIG {
			v.GPUs[i].MIG = g.MIG
		} else {
			v.GPUs[i].idleMIG = g.MIG
		}
	}
	return v
}

// RequestOf returns the request of one replica of a workload for a GPU under a mechanism, from what decision's
// gates know of it: [decision.CompiledWorkload.Demand]. The mechanism, and under MIG the profile, are those that
// were chosen for it. The caller adds the host's CPU and memory, and who trusts whom.
//
// [decision.CompiledWorkload.Demand]: https://pkg.go.dev/github.com/cotenant/cotenant/decision#CompiledWorkload.Demand
func RequestOf(name string, d *gate.Demand, m sharing.Mechanism, profile string) *Request {
	r := &Request{Name: name, GPUs: d.GPUs, GPUMemory: d.Memory.Under(m), Mechanisms: []sharing.Mechanism{m}, Demand: d,
		SLO: d.SLO}
	switch m {
	case sharing.MechanismExclusive:
		r.Milli = 1000
	case sharing.MechanismMIG:
		r.Profile, r.GPUs = profile, 1
	default:
		// Its load, out of the work that the mechanism leaves to its tenants.
		r.Milli = min(999, max(1, int(math.Ceil(1000*d.Busy/gate.TraitsOf(m).Capacity-1e-9))))
	}
	return r
}

// NodeOf is a node of count GPUs of a kind that decision's gates know, which run m: a pool's is
// [decision.CompiledPool.Ground]. None are idle GPUs, which take their first tenant's mechanism; they may be
// partitioned where the catalogue knows how. The caller adds the host's CPU and memory, and what runs already.
//
// [decision.CompiledPool.Ground]: https://pkg.go.dev/github.com/cotenant/cotenant/decision#CompiledPool.Ground
func NodeOf(name string, g *gate.Ground, count int, m sharing.Mechanism) Node {
	n := Node{Name: name, GPUs: make([]GPU, count), Ground: g}
	gpu := GPU{Mechanism: m}
	if known := g.GPU(); known != nil {
		n.Model = known.Name
		if memory, ok := known.Memory.Get(); ok {
			gpu.Memory = Some(memory)
		}
	}
	if model := g.Model(); model != nil && model.PlacementsKnown() && (m == sharing.MechanismMIG ||
		m == sharing.MechanismNone) {
		gpu.MIG = model
	}
	for i := range n.GPUs {
		n.GPUs[i] = gpu
	}
	return n
}
