// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/objective"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// ErrInvalid is wrapped by errors about invalid input; they name every problem.
var ErrInvalid = errors.New("placement: invalid input")

// Request states the needs of one workload's replica, such as a pod. It must not be modified after it was passed to
// this package.
type Request struct {
	// Name is the replica's key in the layout, and its name in messages.
	Name     string
	CPUMilli int64         // thousandths of a core
	Memory   sharing.Bytes // of the host

	// GPUs is the number of GPUs that it needs, on one node and by one mechanism; 0 means none.
	GPUs int
	// Milli is the thousandths of each GPU's compute: 1000 requests whole GPUs. GPUMemory is its memory on each GPU. They
	// are independent; 0 means no amount.
	Milli     int
	GPUMemory sharing.Bytes
	// Busy is the thousandths of each GPU's compute that it is measured, or expected, to use. It only orders places:
	// overloaded GPUs come last, but are not refused.
	Busy int
	// Profile requests one MIG instance instead, by the profile's name on the GPU.
	Profile string

	Models []string // the acceptable GPU models; empty = any
	// Mechanisms lists the acceptable mechanisms, best first. Empty means whole GPUs, or with a Profile MIG: sharing
	// is never assumed.
	Mechanisms []sharing.Mechanism
	// Linked requires GPUs connected by NVLink. Otherwise they are only preferred.
	Linked bool

	// Workload is its workload, with trusted tenants and objective; nil means a workload without a name. Replicas of one
	// workload share one pointer.
	Workload *layout.Workload
	// Demand states the workload's needs; nil = not known. On nodes of a pool with a target ([Scorer].Targets), the
	// filter's checks then apply too.
	Demand *filter.Demand
}

// Limits of inputs: larger numbers are errors.
const (
	MaxCPUMilli = 1_000_000_000
	MaxMemory   = 1 << 50
	MaxGPUs     = 16 // of one request; of larger nodes only the first 16 are considered
)

// placeable lists the mechanisms that placement supports: not MIG with MPS inside,
// and none without a GPU of the node.
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
	on := func(bad bool, field, remedy, format string, args ...any) {
		l.If(bad, problem.Join(path, field), remedy, format, args...)
	}
	add := func(field, remedy, format string, args ...any) { on(true, field, remedy, format, args...) }
	on(r.CPUMilli < 0 || r.CPUMilli > MaxCPUMilli, "CPUMilli", "thousandths of a core", "%d is out of range", r.CPUMilli)
	on(r.Memory < 0 || r.Memory > MaxMemory, "Memory", "", "%d bytes are out of range", int64(r.Memory))
	on(r.GPUMemory < 0 || r.GPUMemory > MaxMemory, "GPUMemory", "", "%d bytes are out of range", int64(r.GPUMemory))
	switch {
	case r.GPUs < 0 || r.GPUs > MaxGPUs:
		add("GPUs", fmt.Sprintf("use 0 to %d", MaxGPUs), "%d GPUs", r.GPUs)
	case r.GPUs == 0 && (r.Milli != 0 || r.GPUMemory != 0 || r.Busy != 0 || r.Profile != ""):
		add("GPUs", "state how many", "a share of a GPU but no GPU")
	case r.Profile != "":
		on(r.GPUs != 1, "GPUs", "ask for each MIG instance by itself", "%d GPUs with a MIG profile", r.GPUs)
		on(r.Milli != 0, "Milli", "leave one of them out", "a MIG profile and thousandths exclude each other")
		_, err := mig.ParseName(r.Profile)
		l.AddErr(problem.Join(path, "Profile"), err)
	case r.Milli < 0 || r.Milli > 1000:
		add("Milli", "thousandths of each GPU: 1 to 1000", "%d is out of range", r.Milli)
	case r.Busy < 0 || r.Busy > 1000:
		add("Busy", "thousandths of each GPU: 1 to 1000", "%d is out of range", r.Busy)
	case r.GPUs > 0 && r.Milli == 0 && r.GPUMemory == 0 && r.Busy == 0:
		add("Milli", "state Milli, GPUMemory or Profile; 1000 is a whole GPU", "the share of a GPU is missing")
	}
	for i, m := range r.Mechanisms {
		on(!slices.Contains(placeable, m), fmt.Sprintf("Mechanisms[%d]", i), "", "placement does not handle %v", m)
	}
	o := &r.workload().Objective
	on(!(o.Slowdown == 0 || o.Slowdown >= 1 && !math.IsInf(o.Slowdown, 1)), "Workload.Objective.Slowdown",
		"1 is as fast as isolated; 0 sets no objective", "%v is no slowdown", o.Slowdown)
	for _, d := range []time.Duration{o.TTFTP99, o.TPOTP50, o.TPOTP99, o.E2EP99} {
		on(d < 0, "Workload.Objective", "0 sets no limit", "%v is no limit of a latency", d)
	}
}

// unnamed is the workload of requests that name none.
var unnamed = &layout.Workload{}

func (r *Request) workload() *layout.Workload {
	if r.Workload == nil {
		return unnamed
	}
	return r.Workload
}

// whole reports whether the request wants its GPUs for itself.
func (r *Request) whole() bool { return r.Milli == 1000 }

// shape is a hash of all of a request that decides where it fits and how it scores: all but its name. A collision of
// 64-bit hashes would mix two shapes up, which is accepted.
type shape uint64

var shapeSeed = maphash.MakeSeed()

func (r *Request) shape() shape {
	w := r.workload()
	var h maphash.Hash
	h.SetSeed(shapeSeed)
	maphash.WriteComparable(&h, [...]any{r.CPUMilli, r.Memory, r.GPUs, r.Milli, r.GPUMemory, r.Busy, r.Profile, r.Linked,
		r.Demand, w.Name, w.Tenant, w.Objective, len(r.Models), len(r.Mechanisms)})
	for _, text := range slices.Concat(r.Models, w.Trusts) {
		maphash.WriteComparable(&h, text)
	}
	for _, m := range r.Mechanisms {
		maphash.WriteComparable(&h, m)
	}
	return shape(h.Sum64())
}

// RequestOf returns the request of one replica of a workload for a GPU under a mechanism, and under MIG a profile, from
// the filter's demand. The busy share only orders places, as in Decide. w lists the trusted tenants; if it has no
// objective, a copy with the demand's is used. The caller adds the host's CPU and memory.
func RequestOf(name string, w *layout.Workload, d *filter.Demand, m sharing.Mechanism, profile string) *Request {
	r := &Request{Name: name, GPUs: d.GPUs, GPUMemory: d.Memory.Under(m), Mechanisms: []sharing.Mechanism{m}, Demand: d,
		Workload: w}
	if limits := objective.Of(&d.SLO); limits != (layout.Objective{}) {
		if own := *r.workload(); own.Objective == (layout.Objective{}) {
			own.Objective = limits
			r.Workload = &own
		}
	}
	switch m {
	case sharing.MechanismExclusive:
		r.Milli = 1000
	case sharing.MechanismMIG:
		r.Profile, r.GPUs = profile, 1
	default:
		// Its load, out of the work that the mechanism leaves to its tenants.
		r.Busy = min(1000, max(1, int(math.Ceil(1000*d.Busy/traits.Of(m).Capacity-1e-9))))
	}
	return r
}
