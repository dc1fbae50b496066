package telemetry

import (
	"fmt"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Tenant says what belongs to a tenant of a GPU.
type Tenant struct {
	Name string
	// PIDs and ProcessNames are the tenant's processes. An id counts for the
	// tenant as long as the series lasts, also where the system gave it to
	// another process later: name processes that come and go. Under MPS they are its
	// clients, which have memory of their own but whose kernels the driver
	// attributes to the MPS server.
	PIDs         []uint32
	ProcessNames []string
	// GPUInstances are the ids of the tenant's MIG GPU instances.
	GPUInstances []int
	// Weight is the tenant's part under MPS by the caller's knowledge: tokens
	// generated, engine busy time. All tenants have one or none has.
	Weight float64
	// ActiveThreadPercent is the tenant's limit under MPS, 0 for none. It
	// bounds what the tenant can have used.
	ActiveThreadPercent float64
}

// AttributionOptions say how a device was shared, and by whom.
type AttributionOptions struct {
	// Mechanism is Exclusive, TimeSlicing, HAMi (which time-slices), MPS or MIG.
	Mechanism sharing.Mechanism
	Tenants   []Tenant
	// IdleWatts is the device's power when nothing runs. 0 takes the lowest
	// power of the series.
	IdleWatts float64
	// ComputeSlices is how many compute slices the device has under MIG. 0 is 7;
	// an A30 has 4.
	ComputeSlices int
}

// Bounded is a figure with the bounds between which it must lie.
type Bounded struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

func (b *Bounded) add(value, low, high float64) {
	b.Value, b.Low, b.High = b.Value+value, b.Low+min(low, value), b.High+max(high, value)
}

// TenantUsage is a tenant's part of a device.
type TenantUsage struct {
	Name string `json:"name"`
	// GPUSeconds is the part of the device's busy time.
	GPUSeconds Bounded `json:"gpu_seconds"`
	// ReservedSeconds is the part of the device that a MIG tenant holds, busy
	// or not.
	ReservedSeconds Optional[float64] `json:"reserved_seconds,omitzero"`
	// Joules is the part of the energy above idle. Its bounds cover what the
	// bounds of GPUSeconds cover.
	Joules Optional[Bounded] `json:"joules,omitzero"`
	// MemoryByteSeconds is the memory held, summed over time; missing where no
	// process or instance of the tenant reported any.
	MemoryByteSeconds Optional[float64] `json:"memory_byte_seconds,omitzero"`
}

// Attribution divides a device's time and energy among its tenants. The
// tenants' GPUSeconds, Other's, UnattributedSeconds and IdleSeconds add up to
// Span; the Joules, with BaselineJoules and UnattributedJoules, to TotalJoules.
type Attribution struct {
	Device    int               `json:"device"`
	Mechanism sharing.Mechanism `json:"mechanism"`
	// SeriesBasis is the basis of the series; Basis is what dividing it rests
	// on: measured (per process or per instance), derived (the caller's
	// weights) or prior (equal parts).
	SeriesBasis sharing.Basis `json:"series_basis"`
	Basis       sharing.Basis `json:"basis"`
	// Quantity says what GPUSeconds count.
	Quantity string `json:"quantity"`
	// Assumptions are what the figures rest on beyond the readings.
	Assumptions []string `json:"assumptions"`

	// Span is the time attributed; Uncovered is the time that gaps and missing
	// figures took away.
	Span      time.Duration `json:"span_ns"`
	Uncovered time.Duration `json:"uncovered_ns"`
	Tenants   []TenantUsage `json:"tenants"`
	// Other is what processes and instances of no tenant used.
	Other               TenantUsage `json:"other"`
	UnattributedSeconds float64     `json:"unattributed_seconds"`
	IdleSeconds         float64     `json:"idle_seconds"`
	// ExcessSeconds is by how much the driver's figures per process exceeded
	// the device's; the tenants' parts were scaled down by it.
	ExcessSeconds float64 `json:"excess_seconds"`

	TotalJoules        Optional[float64] `json:"total_joules,omitzero"`
	BaselineJoules     Optional[float64] `json:"baseline_joules,omitzero"`
	UnattributedJoules Optional[float64] `json:"unattributed_joules,omitzero"`
	IdleWatts          Optional[float64] `json:"idle_watts,omitzero"`
}

// Attribute divides a device's time and energy in a series among its tenants.
//
// Under time-slicing it divides by the driver's utilization of each process,
// held against that of the device. Under MIG each GPU instance has counters of
// its own. Under MPS the driver gives nothing per client: time is divided by
// the caller's weights, or equally, between bounds that the active thread
// percentages set, and Basis says so.
func Attribute(s *Series, device int, opts AttributionOptions) (Attribution, error) {
	if err := s.check(device); err != nil {
		return Attribution{}, err
	}
	if err := opts.check(); err != nil {
		return Attribution{}, err
	}
	a := newAttributor(s, device, opts)
	for x := range s.of(device) {
		a.sample(x)
	}
	return a.result(), nil
}

func (o *AttributionOptions) check() error {
	var probs problem.List
	switch o.Mechanism {
	case sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismHAMi, sharing.MechanismMPS, sharing.MechanismMIG:
	default:
		probs.Addf("mechanism", "use exclusive, time-slicing, hami, mps or mig", "telemetry: %v cannot be attributed", o.Mechanism)
	}
	if len(o.Tenants) == 0 {
		probs.Addf("tenants", "name at least one", "telemetry: there are no tenants")
	}
	if o.Mechanism == sharing.MechanismExclusive && len(o.Tenants) > 1 {
		probs.Addf("tenants", "name one, or the mechanism by which they share", "telemetry: %d tenants of an exclusive GPU", len(o.Tenants))
	}
	if o.IdleWatts < 0 || o.ComputeSlices < 0 {
		probs.Addf("", "use 0 or more", "telemetry: a negative idle power or slice count")
	}
	weights := 0
	owner := map[string]string{}
	for i, t := range o.Tenants {
		path := fmt.Sprintf("tenants[%d]", i)
		claim := func(kind, what string) {
			if first, ok := owner[kind+what]; ok {
				probs.Addf(path, "give it to one", "telemetry: %s %s belongs to %q already", kind, what, first)
			}
			owner[kind+what] = t.Name
		}
		if t.Name == "" {
			probs.Addf(path+".name", "name the tenant", "telemetry: a tenant without a name")
		} else {
			claim("name", t.Name)
		}
		for _, pid := range t.PIDs {
			claim("process", fmt.Sprint(pid))
		}
		for _, n := range t.ProcessNames {
			claim("process name", n)
		}
		for _, id := range t.GPUInstances {
			claim("GPU instance", fmt.Sprint(id))
		}
		if !(t.Weight >= 0) || !(t.ActiveThreadPercent >= 0 && t.ActiveThreadPercent <= 100) {
			probs.Addf(path, "use a weight of 0 or more and 0 to 100 percent", "telemetry: weight %v, active thread percentage %v", t.Weight, t.ActiveThreadPercent)
		}
		if t.Weight > 0 {
			weights++
		}
		switch {
		case o.Mechanism == sharing.MechanismMIG && len(t.GPUInstances) == 0:
			probs.Addf(path+".gpu_instances", "name the tenant's GPU instances", "telemetry: a MIG tenant without an instance")
		case (o.Mechanism == sharing.MechanismTimeSlicing || o.Mechanism == sharing.MechanismHAMi) && len(t.PIDs)+len(t.ProcessNames) == 0:
			probs.Addf(path+".pids", "name the tenant's processes", "telemetry: a tenant without processes")
		}
	}
	if weights != 0 && weights != len(o.Tenants) {
		probs.Addf("tenants", "give every tenant a weight, or none", "telemetry: %d of %d tenants have a weight", weights, len(o.Tenants))
	}
	return probs.Err()
}

// tenantOf returns the index of the tenant of a process, or -1.
func (o *AttributionOptions) tenantOf(p *Process) int {
	byName := -1
	for i := range o.Tenants {
		t := &o.Tenants[i]
		if slices.Contains(t.PIDs, p.PID) {
			return i
		}
		if p.Name != "" && slices.Contains(t.ProcessNames, p.Name) {
			byName = i
		}
		if id, ok := p.GPUInstance.Get(); ok && slices.Contains(t.GPUInstances, id) {
			byName = i
		}
	}
	return byName
}
