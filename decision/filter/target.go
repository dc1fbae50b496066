// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// GPUKind is a kind of GPU and the way it is offered.
type GPUKind struct {
	Name   string // of the pool
	GPU    *sharing.GPU
	Driver sharing.Driver // zero = not known
	// Mechanisms lists the allowed mechanisms; empty means all that Delivery supports, or without a delivery those of the
	// driver itself.
	Mechanisms       []sharing.Mechanism
	Delivery         sharing.Delivery
	Installed        []sharing.Mechanism // counts as delivered and allowed, regardless of Delivery and Mechanisms
	VGPU             bool                // a hypervisor with vGPU manager and licences
	StaticPartitions sharing.Answer      // whether MPS static SM partitions are on
	Together         int                 // largest number of GPUs of one replica; 0 = 1
}

// Target is a kind of GPU prepared for the checks. It is read-only once made and safe for concurrent use.
type Target struct {
	name      string
	gpu       *sharing.GPU
	model     *mig.Model    // nil where the catalogue has none
	memory    sharing.Bytes // 0 = not known
	together  int
	delivery  sharing.Delivery
	vgpu      bool
	allowed   [sharing.MechanismCount]bool
	delivered [sharing.MechanismCount]bool
	available [sharing.MechanismCount]sharing.Finding
	isolation [sharing.MechanismCount][sharing.AxisCount]sharing.Property
	// answers and levels repeat the parts of available and isolation that the
	// checks read, without texts, so that they stay in the CPU's cache.
	answers   [sharing.MechanismCount]sharing.Answer
	levels    [sharing.MechanismCount][sharing.AxisCount]sharing.Level
	noEncoder bool       // the GPU is known to have none
	clients   int        // MPS client limit; 0 = not known
	slices    []MIGSlice // most per GPU first
}

// MIGSlice is a MIG profile with the figures that the checks use.
type MIGSlice struct {
	Profile *mig.Profile
	PerGPU  int // instances on an empty GPU
	// SlowdownBound is the whole GPU's SMs over the slice's, the largest possible slowdown by having fewer SMs.
	SlowdownBound float64

	Memory sharing.Bytes // of an instance; 0 = not known

	slower, slowerDecoding float64 // see slowdown
}

// NewTarget prepares a kind of GPU. It fails without a GPU.
func NewTarget(k GPUKind) (*Target, error) {
	if k.GPU == nil {
		return nil, fmt.Errorf("filter: pool %q has no GPU", k.Name)
	}
	t := &Target{name: k.Name, gpu: k.GPU, together: max(1, k.Together), delivery: k.Delivery, vgpu: k.VGPU}
	t.memory, _ = k.GPU.Memory.Get()
	env := sharing.Environment{GPU: k.GPU, Driver: k.Driver,
		Modes: map[sharing.Mode]sharing.Answer{sharing.ModeStaticSMPartitions: k.StaticPartitions}}
	for m := range t.allowed {
		mech := sharing.Mechanism(m)
		installed := slices.Contains(k.Installed, mech)
		t.allowed[m] = len(k.Mechanisms) == 0 || mech == sharing.MechanismExclusive || installed ||
			slices.Contains(k.Mechanisms, mech)
		t.delivered[m] = k.delivers(mech) || installed
		t.vgpu = t.vgpu || installed && (mech == sharing.MechanismVGPU || mech == sharing.MechanismMIGBackedVGPU)
		t.available[m] = sharing.Available(mech, env)
		t.answers[m] = t.available[m].Answer
		for a := range sharing.AxisCount {
			t.isolation[m][a] = sharing.IsolationIn(mech, sharing.Axis(a), env)
			t.levels[m][a] = t.isolation[m][a].Level
		}
	}
	if limit, _ := sharing.MPSClientLimit(k.GPU, k.Driver); limit.Known {
		t.clients = limit.Value
	}
	t.cut()
	return t, nil
}

// delivers reports whether the installed software carries a mechanism out. For a
// delivery without a source the pool's list of mechanisms decides.
func (k *GPUKind) delivers(m sharing.Mechanism) bool {
	switch m {
	case sharing.MechanismExclusive, sharing.MechanismInServer, sharing.MechanismResearch:
		return true // they need nothing of a delivery
	case sharing.MechanismVGPU, sharing.MechanismMIGBackedVGPU:
		return true // codes.NeedsVGPUHost asks
	}
	listed := slices.Contains(k.Mechanisms, m)
	if k.Delivery == sharing.DeliveryBare {
		return listed || slices.Contains(ofTheDriver, m)
	}
	switch sharing.Delivers(k.Delivery, m).Answer {
	case sharing.AnswerYes:
		return true
	case sharing.AnswerUnknown:
		return listed
	}
	return false
}

// Denial returns the reason why no workload can run under a mechanism here, regardless of the pool's allowed
// mechanisms; its verdict is VerdictPass if one can.
func (t *Target) Denial(m sharing.Mechanism) Reason {
	r := Reason{Verdict: VerdictPass, Mechanism: m}
	switch {
	case t.answers[m] == sharing.AnswerNo:
		r.Verdict, r.Code = VerdictReject, codes.Hardware
	case !t.delivered[m]:
		r.Verdict, r.Code = VerdictFixable, codes.NotDelivered
	case (m == sharing.MechanismVGPU || m == sharing.MechanismMIGBackedVGPU) && !t.vgpu:
		r.Verdict, r.Code = VerdictFixable, codes.NeedsVGPUHost
	}
	return r.About(nil, t)
}

// ofTheDriver are the mechanisms of NVIDIA's driver, which every pool of a GPU that has them can use.
var ofTheDriver = []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG}

// cut prepares the base profiles but the whole GPU's.
func (t *Target) cut() {
	model, err := mig.Lookup(t.gpu.Name)
	if err != nil || t.gpu.MIG.Known && t.gpu.MIG.Value == sharing.AnswerNo {
		return
	}
	t.model = model
	encoders, known := model.Engines.NVENC.Get()
	t.noEncoder = known && encoders == 0
	whole, wholeKnown := t.gpu.SMs.Get()
	for _, prof := range model.Profiles {
		if strings.ContainsAny(prof.Name, "+-") || len(prof.Placements) == 0 || prof.PlacementUnits >= model.Units {
			continue
		}
		part := float64(prof.ComputeSlices) / float64(max(1, model.ComputeSlices))
		if sms, known := prof.SMs.Get(); known && wholeKnown && whole > 0 {
			part = float64(sms) / float64(whole)
		}
		s := MIGSlice{Profile: prof, PerGPU: prof.MaxInstances, SlowdownBound: 1 / part}
		s.Memory, _ = prof.Memory.Get()
		sms, bandwidth := s.Shares()
		s.slower, s.slowerDecoding = costs.SliceSlowdown(sms, bandwidth)
		t.slices = append(t.slices, s)
	}
	slices.SortFunc(t.slices, func(a, b MIGSlice) int {
		return cmp.Or(b.PerGPU-a.PerGPU, a.Profile.PlacementUnits-b.Profile.PlacementUnits,
			strings.Compare(a.Profile.Name, b.Profile.Name))
	})
}

// GPU returns the capability row of the GPU. It must not be modified.
func (t *Target) GPU() *sharing.GPU { return t.gpu }

// Model returns the GPU's MIG model, nil if the catalogue has none.
func (t *Target) Model() *mig.Model { return t.model }

// Isolation returns a mechanism's isolation on an axis here.
func (t *Target) Isolation(m sharing.Mechanism, a sharing.Axis) *sharing.Property {
	return &t.isolation[m][a]
}

// Slices returns the MIG profiles smaller than the GPU, those with most instances per GPU first. The result is
// read-only.
func (t *Target) Slices() []MIGSlice { return t.slices }

// slowdown is the factor by which the workload is slower on the slice than on the whole
// GPU: a prior. Decoding is bound by memory bandwidth, other work by SMs.
func (s *MIGSlice) slowdown(d *Demand) float64 {
	if d.Decodes {
		return s.slowerDecoding
	}
	return s.slower
}

func (t *Target) slowdown(p *mig.Profile, d *Demand) float64 {
	at := slices.IndexFunc(t.slices, func(s MIGSlice) bool { return s.Profile == p })
	if at < 0 || d == nil {
		return 1
	}
	return t.slices[at].slowdown(d)
}

func (t *Target) gpuName() string {
	if t.gpu == nil {
		return "GPU"
	}
	return t.gpu.Name
}

// Shares returns the parts of the whole GPU's SMs and memory bandwidth of an instance of the profile, 0 to 1.
func (s *MIGSlice) Shares() (sms, bandwidth float64) {
	m := s.Profile.Model()
	return 1 / s.SlowdownBound, float64(s.Profile.PlacementUnits) / float64(max(1, m.Units))
}
