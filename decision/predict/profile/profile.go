// SPDX-License-Identifier: Apache-2.0

// Package profile holds measurements of workloads on GPUs: isolated ([SoloProfile], [Profiles], [Solo]) and co-located
// ([Rows]), their figures ([Metric], [Interval], [Outcome]) and limits of these.
//
// It makes no predictions. Profiles may be read concurrently. Experimental: its API may change.
package profile

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// ErrNoProfile is returned for a workload without a measurement in isolation.
var ErrNoProfile = errors.New("predict: no profile of the isolated workload")

// SoloProfile holds the measurements of one workload in isolation on a GPU, under one mechanism: the input of a
// Predictor. An unknown figure makes predictions wider or impossible, and never counts as 0.
type SoloProfile struct {
	Version int  `yaml:"version,required" json:"version"` // 1, or 2 where Kind may be other than a server
	Kind    Kind `yaml:"kind" json:"kind,omitzero"`
	// Engine names the program that serves, e.g. "vllm"; "" is unknown. Predictions for engines outside the calibration
	// have wider intervals. It needs version 2.
	Engine string `yaml:"engine" json:"engine,omitempty"`
	// Mechanism is time-slicing (the uncontended baseline) or MPS (with its cost to an isolated tenant).
	Mechanism sharing.Mechanism `yaml:"mechanism,required" json:"mechanism"`
	Server    Server            `yaml:"server,required" json:"server"`
	Load      Load              `yaml:"load" json:"load,omitzero"` // of servers

	GPU    string `yaml:"gpu_name" json:"gpu_name,omitempty"` // product name; "" is unknown
	Driver string `yaml:"driver" json:"driver,omitempty"`
	Run    string `yaml:"run" json:"run,omitempty"` // which run measured it

	Requests sharing.Optional[int] `yaml:"requests" json:"requests,omitzero"` // or steps
	Outcome

	Utilization
	Response

	MemoryUsed sharing.Optional[sharing.Bytes] `yaml:"memory_used" json:"memory_used,omitzero"`

	// Fit holds figures fitted to the server's own metrics in production; nil without such a fit. It needs version 2.
	Fit *ServingFit `yaml:"fit" json:"fit,omitempty"`
}

// Utilization holds shares of time or capacity over a run, 0 to 1.
type Utilization struct {
	// GPUBusyFraction is GPM's graphics_util.
	GPUBusyFraction sharing.Optional[float64] `yaml:"gpu_busy_fraction" json:"gpu_busy_fraction,omitzero"`
	SMFraction      sharing.Optional[float64] `yaml:"sm_fraction" json:"sm_fraction,omitzero"`
	TensorFraction  sharing.Optional[float64] `yaml:"tensor_fraction" json:"tensor_fraction,omitzero"`
	DRAMFraction    sharing.Optional[float64] `yaml:"dram_fraction" json:"dram_fraction,omitzero"` // of peak bandwidth
	EngineFraction  sharing.Optional[float64] `yaml:"engine_fraction" json:"engine_fraction,omitzero"`
}

// Response holds measurements of a workload next to standard neighbours, as package colocation takes them.
type Response struct {
	// SlicesPerStep is the mean number of time slices of a decode step next to a neighbour that always spins
	// ([predict.Predictor.SlicesNextToSpinner]). A latency does not determine it if the step's length is near a whole
	// number of slices.
	SlicesPerStep sharing.Optional[float64] `yaml:"turns" json:"turns,omitzero"`
	// TTFTGrowth is the delay of the first token next to that neighbour, per millisecond of added time per token (medians
	// of TTFT and TPOT): it shows how prompts wait, also for each other, and under MPS too.
	TTFTGrowth sharing.Optional[float64] `yaml:"ttft_growth" json:"ttft_growth,omitzero"`
	// Pressure was measured with package probe's reporter and stress kernels; nil if it was not.
	Pressure *Pressure `yaml:"pressure" json:"pressure,omitempty"`
}

// ParseProfiles reads a list of profiles, YAML or JSON, strictly: the error names every problem with its path.
func ParseProfiles(data []byte) ([]SoloProfile, error) {
	var list []SoloProfile
	if err := strictyaml.Decode(data, &list, strictyaml.Options{}); err != nil {
		return nil, err
	}
	if err := checkAll(list); err != nil {
		return nil, err
	}
	return list, nil
}

func checkAll(profiles []SoloProfile) error {
	var list problem.List
	for i := range profiles {
		profiles[i].check(&list, fmt.Sprintf("[%d]", i))
	}
	return list.Err()
}

// Validate returns an error that names every problem of p, or nil.
func (p *SoloProfile) Validate() error {
	var list problem.List
	p.check(&list, "")
	return list.Err()
}

func (p *SoloProfile) check(list *problem.List, path string) {
	at := func(name string) string { return problem.Join(path, name) }
	list.If(p.Version != firstVersion && p.Version != VersionOfKinds, at("version"),
		fmt.Sprintf("this package reads %d and %d", firstVersion, VersionOfKinds), "is %d", p.Version)
	checkRun(list, path, p.Mechanism, p.Version, p.Kind, p.Engine, p.Server, p.Load)
	list.If(p.Requests.Or(0) < 0, at("requests"), "", "is negative")
	p.Outcome.check(list, path)
	need := func(name, remedy string, v sharing.Optional[float64]) {
		if _, ok := optional.Positive(v); !ok {
			list.Addf(at(name), remedy, "is missing from a profile")
		}
	}
	if p.Kind == KindServer {
		need("tokens_per_s", "measure the workload isolated", p.TokensPerS)
		if p.Load.Output > 1 {
			if p.Version < VersionOfKinds {
				need("itl_ms.p50", "record the gaps between tokens: the median of them is one decode step", p.ITL.P50)
			}
			need("tpot_ms.p50", "", p.TPOT.P50)
		}
		need("e2e_ms.p50", "", p.E2E.P50)
	} else {
		need("step_ms.p50", "measure the workload isolated", p.Step.P50)
		need("steps_per_s", "measure the workload isolated", p.StepsPerS)
	}
	p.checkUnits(list, at)
	checkFraction(list, at("gpu_busy_fraction"), p.GPUBusyFraction, 1)
	checkFraction(list, at("sm_fraction"), p.SMFraction, 1)
	checkFraction(list, at("tensor_fraction"), p.TensorFraction, 1)
	checkFraction(list, at("dram_fraction"), p.DRAMFraction, 1)
	checkFraction(list, at("engine_fraction"), p.EngineFraction, 1)
	const again = "run the workload next to a spinning neighbour again"
	perStep, growth := p.SlicesPerStep.Or(leastSlices), p.TTFTGrowth.Or(0)
	list.If(!(perStep >= leastSlices && perStep <= maxSlices), at("turns"), again, "must lie between %v and %v, is %v",
		leastSlices, maxSlices, perStep)
	list.If(!(growth >= 0 && growth <= maxSlices), at("ttft_growth"), again, "must lie between 0 and %v, is %v", maxSlices,
		growth)
	if p.Fit != nil {
		p.Fit.check(list, at("fit"))
		list.If(p.Version < VersionOfKinds, at("fit"), fmt.Sprintf("write version: %d", VersionOfKinds),
			"needs the second version of profiles")
	}
	p.Pressure.check(list, at("pressure"), cmp.Or(p.ITL.P50.Or(0), p.Step.P50.Or(0)))
}

// checkUnits holds figures that follow from one another against each other.
func (p *SoloProfile) checkUnits(list *problem.List, at func(string) string) {
	f, steps := p.Figures(), float64(p.Load.Output-1)
	served := p.Load.Rate * float64(p.Load.Output) // tokens a second that clients receive
	if e2e := p.E2E.Average(); p.Load.Closed() && e2e > 0 {
		served = 1e3 * float64(p.Load.Concurrency*p.Load.Output) / e2e
	}
	decoding := steps * f[MetricTPOTP50]
	whole, busy := 0.0, 0.0
	if f[MetricTTFTP50] > 0 {
		whole = decoding + f[MetricTTFTP50]
	}
	if p.Kind == KindStepper {
		busy = 1e3 / f[MetricStepP50]
	}
	for _, c := range [...]struct {
		name      string
		is, about float64
		unit      string
	}{{"itl_ms.p50", p.ITL.P50.Or(0), f[MetricTPOTP50], "milliseconds"},
		{"e2e_ms.p50", f[MetricE2EP50], whole, "milliseconds"},
		{"tokens_per_s", f[MetricTokensPerSecond], served, "tokens a second"},
		{"steps_per_s", f[MetricStepsPerSecond], busy, "steps a second, and step_ms in milliseconds"}} {
		if c.is > 0 && c.about > 0 && (c.is > apart*c.about || c.about > apart*c.is) {
			list.Addf(at(c.name), "write "+c.unit, "is %v, and by the other figures about %.3g", c.is, c.about)
		}
	}
	if e2e := f[MetricE2EP50]; e2e > 0 && decoding > apart*e2e {
		list.Addf(at("tpot_ms.p50"), "write milliseconds", "is %v, and a request ends in %v ms", f[MetricTPOTP50], e2e)
	}
}

// Batch returns the number of sequences in a decode step of a closed loop.
func (p *SoloProfile) Batch() float64 {
	return float64(min(p.Load.Concurrency, p.Server.Slots.Or(costs.UsualSlots)))
}

// GapsHoldPrompts reports whether the median gap between a closed loop's tokens contains prefills and so is no decode
// step: with such short answers others' prompts fall into at least every second gap, and the median exceeds the mean.
func (p *SoloProfile) GapsHoldPrompts() bool {
	return 2*(p.Batch()-1) >= float64(p.Load.Output-1) && p.ITL.P50.Or(0) > p.TPOT.P50.Or(0) && p.Load.Closed()
}

// Mechanisms lists the mechanisms that can be predicted from profiles of whole GPUs.
var Mechanisms = [...]sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS}

// checkRun checks that a run is of a kind that can be predicted.
func checkRun(list *problem.List, path string, m sharing.Mechanism, version int, kind Kind, engine string,
	s Server, l Load) {
	list.If(!slices.Contains(Mechanisms[:], m), problem.Join(path, "mechanism"),
		"use time-slicing (also for a run without MPS) or mps", "%s cannot be predicted", m)
	s.check(list, problem.Join(path, "server"))
	list.If(engine != "" && version < VersionOfKinds, problem.Join(path, "engine"),
		fmt.Sprintf("write version: %d", VersionOfKinds), "needs the second version of rows and profiles")
	switch {
	case kind == KindServer:
		list.AddErr(problem.Join(path, "load"), l.Validate())
	case version < VersionOfKinds:
		list.Addf(problem.Join(path, "kind"), fmt.Sprintf("write version: %d", VersionOfKinds),
			"a %s needs the second version of rows and profiles", kind)
	case l != Load{}:
		list.Addf(problem.Join(path, "load"), "leave it out", "a %s serves no requests", kind)
	}
}

// ProfileRef names a workload's measured profile by its server and load.
type ProfileRef struct {
	Server Server `yaml:"server,required" json:"server"`
	Load   Load   `yaml:"load" json:"load,omitzero"` // zero for tenants without tokens
}

// Profiles finds the profile of a workload. The zero value is empty.
type Profiles struct {
	byKey map[profileKey]*SoloProfile
	order []*SoloProfile
	sms   map[profileKey]*SoloProfile // those with the share of the SMs from GPM
	// by server without a percentage, the engine that it is
	engines map[Server]string

	mu   sync.Mutex
	made map[string]any // see Made
}

type profileKey struct {
	mechanism sharing.Mechanism
	server    Server
	load      Load
}

// NewProfiles returns a set of valid profiles; see [Profiles.Add].
func NewProfiles(profiles ...SoloProfile) (*Profiles, error) {
	ps := &Profiles{}
	if err := ps.Add(profiles...); err != nil {
		return nil, err
	}
	return ps, nil
}

// Add adds valid profiles. Of two profiles of the same workload under the same mechanism the one with more requests is
// used, or else the first. A server with two engines is an error.
func (ps *Profiles) Add(profiles ...SoloProfile) error {
	if err := checkAll(profiles); err != nil {
		return err
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	engines := map[Server]string{}
	maps.Copy(engines, ps.engines)
	var list problem.List
	for i, p := range profiles {
		if p.Engine == "" {
			continue
		}
		server := p.Server.uncapped()
		engine := cmp.Or(engines[server], p.Engine)
		list.If(p.Engine != engine, fmt.Sprintf("[%d].engine", i), "tell the two servers apart by server.variant",
			"is %s, and another profile of %s has %s", p.Engine, server, engine)
		engines[server] = engine
	}
	if err := list.Err(); err != nil {
		return err
	}
	ps.made, ps.engines = nil, engines
	if ps.byKey == nil {
		ps.byKey, ps.sms = map[profileKey]*SoloProfile{}, map[profileKey]*SoloProfile{}
	}
	for _, p := range profiles {
		key := profileKey{p.Mechanism, p.Server, p.Load.Same()}
		if !p.SMFraction.IsZero() && !p.GPUBusyFraction.IsZero() && ps.sms[key] == nil {
			found := p
			ps.sms[key] = &found
		}
		old, ok := ps.byKey[key]
		switch {
		case !ok:
			ps.byKey[key] = &p
			ps.order = append(ps.order, &p)
		case p.Requests.Or(0) > old.Requests.Or(0):
			*old = p
		}
	}
	return nil
}

// Made returns the result of build for the key, which is cached until profiles are added. It is safe for concurrent
// use.
func (ps *Profiles) Made(key string, build func() any) any {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	v, ok := ps.made[key]
	if !ok {
		v = build()
		if ps.made == nil {
			ps.made = map[string]any{}
		}
		ps.made[key] = v
	}
	return v
}

// All ranges over the profiles in the order in which they were added.
func (ps *Profiles) All() iter.Seq[*SoloProfile] { return slices.Values(ps.order) }

// find returns the profile of a workload under a mechanism, nil where there is none or ps is nil.
func (ps *Profiles) find(m sharing.Mechanism, s Server, l Load) *SoloProfile {
	if ps == nil {
		return nil
	}
	return ps.byKey[profileKey{m, s, l.Same()}]
}

// Solo holds all data on a workload in isolation: the input of a prediction.
type Solo struct {
	Server Server
	Load   Load
	// TimeSlicing and MPS are the profiles under each mechanism; nil if missing.
	TimeSlicing, MPS *SoloProfile
	// Siblings are profiles of the same server at any load, which separate its prefill's use of the SMs from its decode's.
	Siblings []*SoloProfile
	// Elsewhere is a profile of the workload on another machine or under the other mechanism, with the share of the SMs
	// that its kernels hold, from GPM; nil if missing. A program runs the same kernels there.
	Elsewhere *SoloProfile
	// CapPercent is the active thread percentage to which the MPS profile must be scaled, since it was not measured in
	// isolation; missing if no scaling is needed.
	CapPercent sharing.Optional[float64]
}

// Uncontended returns the profile without MPS if there is one, else the profile under MPS.
func (s *Solo) Uncontended() *SoloProfile {
	return cmp.Or(s.TimeSlicing, s.MPS)
}

// Solo returns the data of ps, which may be nil, on a workload. If a server was not measured in isolation with its
// active thread percentage, the data of the same server without one is used. Without a profile the error is
// ErrNoProfile.
func (ps *Profiles) Solo(s Server, l Load) (Solo, error) {
	solo := Solo{Server: s, Load: l, TimeSlicing: ps.find(sharing.MechanismTimeSlicing, s, l),
		MPS: ps.find(sharing.MechanismMPS, s, l)}
	from := s
	if s.SMPercent.Or(100) < 100 {
		if solo.MPS == nil {
			from, solo.CapPercent = s.uncapped(), s.SMPercent
			solo.MPS = ps.find(sharing.MechanismMPS, from, l)
		}
		if solo.TimeSlicing == nil {
			solo.TimeSlicing = ps.find(sharing.MechanismTimeSlicing, s.uncapped(), l) // a cap is MPS's; it means nothing here
		}
	}
	if solo.MPS == nil && solo.TimeSlicing == nil {
		return Solo{}, fmt.Errorf("%w: %s with %s", ErrNoProfile, s, l)
	}
	for _, m := range slices.Backward(Mechanisms[:]) {
		solo.Elsewhere = cmp.Or(ps.sms[profileKey{m, from, l.Same()}], solo.Elsewhere)
	}
	for _, p := range ps.order {
		if p.Server == from {
			solo.Siblings = append(solo.Siblings, p)
		}
	}
	return solo, nil
}

// VersionOfKinds is the version of the JSON form of SoloProfile and Row that allows any Kind; 1 has servers only.
const (
	VersionOfKinds = 2
	firstVersion   = 1
)

const leastSlices, maxSlices = 0.01, 1e4
