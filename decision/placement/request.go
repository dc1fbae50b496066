package placement

import (
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict/profile"
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

func invalid(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w:\n%w", ErrInvalid, err)
}

func (r *Request) check(path string, l *problem.List) {
	add := func(field, remedy, format string, args ...any) {
		l.Addf(problem.Join(path, field), remedy, format, args...)
	}
	if r.CPUMilli < 0 || r.CPUMilli > MaxCPUMilli {
		add("CPUMilli", "thousandths of a core", "%d is out of range", r.CPUMilli)
	}
	if r.Memory < 0 || r.Memory > MaxMemory {
		add("Memory", "", "%d bytes are out of range", int64(r.Memory))
	}
	if r.GPUMemory < 0 || r.GPUMemory > MaxMemory {
		add("GPUMemory", "", "%d bytes are out of range", int64(r.GPUMemory))
	}
	switch {
	case r.GPUs < 0 || r.GPUs > MaxGPUs:
		add("GPUs", fmt.Sprintf("use 0 to %d", MaxGPUs), "%d GPUs", r.GPUs)
	case r.GPUs == 0 && (r.Milli != 0 || r.GPUMemory != 0 || r.Profile != ""):
		add("GPUs", "say how many", "a share of a GPU but no GPU")
	case r.Profile != "":
		if r.GPUs != 1 {
			add("GPUs", "ask for each MIG instance by itself", "%d GPUs with a MIG profile", r.GPUs)
		}
		if r.Milli != 0 {
			add("Milli", "leave one of them out", "a MIG profile and thousandths exclude each other")
		}
		if _, err := mig.ParseName(r.Profile); err != nil {
			l.AddErr(problem.Join(path, "Profile"), err)
		}
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
	if math.IsNaN(r.MaxSlowdown) || math.IsInf(r.MaxSlowdown, 0) || r.MaxSlowdown != 0 && r.MaxSlowdown < 1 {
		add("MaxSlowdown", "1 is as fast as alone; 0 sets no objective", "%v is no slowdown", r.MaxSlowdown)
	}
	l.AddErr(problem.Join(path, "SLO"), r.SLO.Validate())
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
