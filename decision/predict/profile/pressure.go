// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"

	"github.com/cotenant/cotenant/internal/problem"
)

// Pressure holds the mutual effects of a tenant and co-located kernels under MPS, as package probe measures them. Times
// with US in the name are in microseconds.
type Pressure struct {
	// Waits are launches of package probe's reporter next to the tenant at work: the tenant's pressure on others.
	Waits []Wait `yaml:"waits" json:"waits,omitempty"`
	// Stresses are the tenant's steps next to continuous kernels: its sensitivity to others.
	Stresses []Stress `yaml:"presses" json:"presses,omitempty"`
	// StepMS is the median step of the tenant without other kernels, in milliseconds.
	StepMS float64 `yaml:"step_ms" json:"step_ms,omitempty"`
	// Seconds is the time for which the tenant was measured in this way.
	Seconds float64 `yaml:"seconds" json:"seconds,omitempty"`
}

// Wait is the time of a launch by the reporter, from the call until the host observes its end.
type Wait struct {
	Kernels  int     `yaml:"kernels" json:"kernels"`     // one after another, in one graph
	Wide     bool    `yaml:"wide" json:"wide,omitempty"` // one block on each SM; else a single block
	KernelUS float64 `yaml:"kernel_us" json:"kernel_us"` // length of each
	// The medians and means without the tenant, and next to it.
	IsolatedUS      float64 `yaml:"alone_us" json:"alone_us"`
	CoLocatedUS     float64 `yaml:"beside_us" json:"beside_us"`
	IsolatedMeanUS  float64 `yaml:"alone_mean_us" json:"alone_mean_us"`
	CoLocatedMeanUS float64 `yaml:"beside_mean_us" json:"beside_mean_us"`
	StepMS          float64 `yaml:"step_ms" json:"step_ms,omitempty"` // the median of the tenant's step next to it
}

// Stress is the tenant's step next to kernels that fill the GPU, or that read memory at full speed.
type Stress struct {
	KernelUS float64 `yaml:"kernel_us" json:"kernel_us"`         // length of each, isolated
	Reads    bool    `yaml:"reads" json:"reads,omitempty"`       // they read device memory; else they calculate
	GBPerS   float64 `yaml:"gb_per_s" json:"gb_per_s,omitempty"` // that they read next to the tenant
	StepMS   float64 `yaml:"step_ms" json:"step_ms"`             // the median of the tenant's step
}

// check validates the pressure of a tenant with a step of stepMS, 0 where that is not known.
func (p *Pressure) check(list *problem.List, path string, stepMS float64) {
	if p == nil {
		return
	}
	sane := func(at string, values ...float64) {
		for _, v := range values {
			list.If(!(v >= 0 && v <= 1e9), at, "", "must lie between 0 and 1e9, is %v", v)
		}
	}
	sane(path, p.StepMS, p.Seconds)
	list.If(stepMS > 0 && p.StepMS > 0 && (p.StepMS > apart*stepMS || stepMS > apart*p.StepMS), path+".step_ms",
		"write milliseconds", "is %v, and the isolated tenant's step is %v", p.StepMS, stepMS)
	for i := range p.Waits {
		w := &p.Waits[i]
		at := fmt.Sprintf("%s.waits[%d]", path, i)
		list.If(w.Kernels < 1, at+".kernels", "", "must be positive, is %d", w.Kernels)
		sane(at, w.KernelUS, w.IsolatedUS, w.CoLocatedUS, w.IsolatedMeanUS, w.CoLocatedMeanUS, w.StepMS)
	}
	for i := range p.Stresses {
		q := &p.Stresses[i]
		at := fmt.Sprintf("%s.presses[%d]", path, i)
		sane(at, q.KernelUS, q.GBPerS, q.StepMS)
		list.If(q.StepMS > 0 && p.StepMS > apart*q.StepMS, at+".step_ms", "write milliseconds",
			"is %v, and %v without stress kernels", q.StepMS, p.StepMS)
	}
}

// apart is the factor between two figures of one run that belong together from which on one of them is in another unit.
const apart = 100
