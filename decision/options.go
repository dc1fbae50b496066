// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Options tune [Decide]. The zero value is the documented default.
type Options struct {
	// Profiles are measurements of isolated workloads. Workloads that name one (Workload.Profile) are predicted from it,
	// with their neighbours. nil = none.
	Profiles *profile.Profiles
	// Predictor predicts from Profiles; nil means predict.NewPredictor's.
	Predictor *predict.Predictor
	// Confidence is the least probability with which a decision meets objectives, 0.5 to 0.999; 0 means DefaultConfidence.
	Confidence float64
	// Input is the name of the fleet's file in the commands and advice of answers; empty means "the fleet file".
	Input string
	// Headroom is the memory that layouts leave free; nil means DefaultHeadroom.
	Headroom *Headroom
	// Allow lists mechanisms that every pool may use as if their delivery were installed there, regardless of the pool's
	// stated mechanisms and delivery. GPUs without hardware support still do not get them.
	Allow []sharing.Mechanism
	// Running is set for a running cluster: GPUs that are paid for anyway stay free if others have room, so that nodes may
	// become empty, and the search is shorter. Otherwise work spreads over GPUs that are paid for if it runs faster there.
	Running bool
}

// DefaultConfidence is the default probability with which a decision meets objectives. One in twenty of the workloads
// near a limit may miss it, and fewer than one in a hundred of all workloads: tools/research/judge/REPORT-2026-11.md
// has the figures, and the cost of less or more confidence.
const DefaultConfidence = 0.97

// Headroom is memory that a layout leaves free in addition to its tenants' needs.
type Headroom struct {
	// Driver is the part of a GPU's memory that no process can allocate, 0 to 1: the visible memory of boards is up to 2.5
	// percent below the nominal.
	Driver float64
	// Fragmentation is the part of the used memory that allocators lose unless hardware or an enforced limit bounds a
	// process, 0 to 1.
	Fragmentation float64
}

// DefaultHeadroom is the default of Options.Headroom.
var DefaultHeadroom = Headroom{Driver: 0.025, Fragmentation: 0.08}

// prepare checks options and the fleet that they are for, and fills in the defaults.
func (o *Options) prepare(ctx context.Context, f *Fleet) (plan.Options, error) {
	if f == nil {
		return plan.Options{}, errors.New("decision: the fleet is nil")
	}
	h, err := cmp.Or(o.Headroom, &DefaultHeadroom), problem.Under(errors.New("decision: options"), o.Check())
	return plan.Options{Context: ctx, Profiles: o.Profiles, Predictor: o.Predictor, Input: o.Input, Allow: o.Allow,
		Running: o.Running, Confidence: cmp.Or(o.Confidence, DefaultConfidence), Driver: h.Driver,
		Fragmentation: h.Fragmentation}, errors.Join(f.Validate(), err)
}

// Check returns an error that names every problem of the options.
func (o *Options) Check() error {
	var l problem.List
	confidence := cmp.Or(o.Confidence, DefaultConfidence)
	l.If(!(confidence >= 0.5 && confidence <= 0.999), "confidence", "use 0.5 to 0.999", "%v is out of range", confidence)
	h := cmp.Or(o.Headroom, &DefaultHeadroom)
	l.If(!(h.Driver >= 0 && h.Driver < 1), "headroom.driver", "use 0 or more, below 1", "%v is out of range", h.Driver)
	l.If(!(h.Fragmentation >= 0 && h.Fragmentation <= 1), "headroom.fragmentation", "use 0 to 1", "%v is out of range",
		h.Fragmentation)
	for i, m := range o.Allow {
		switch m {
		case sharing.MechanismNone, sharing.MechanismExclusive, sharing.MechanismInServer, sharing.MechanismResearch:
			l.Addf(fmt.Sprintf("allow[%d]", i), "name one that is installed, such as hami", "nothing delivers %s", m)
		}
	}
	return l.Err()
}
