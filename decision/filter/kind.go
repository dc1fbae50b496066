// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"math"

	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/sharing"
)

// permille is a share in thousandths.
func permille(f float64) int64 { return int64(math.Round(f * 1000)) }

func (t *Target) checkPool(d *Demand, r *Report) {
	if d.Pool != "" && d.Pool != t.name {
		r.say(VerdictReject, codes.PinnedElsewhere)
	}
	if !t.allowed[r.Mechanism] {
		r.say(VerdictReject, codes.NotAllowedInPool)
	} else if !t.delivered[r.Mechanism] && r.Mechanism != sharing.MechanismMIGWithMPS {
		r.say(VerdictFixable, codes.NotDelivered)
	}
	if d.Encodes && t.noEncoder {
		r.say(VerdictReject, codes.NoEncoder)
	}
	if d.GPUs > t.together {
		r.compare(VerdictReject, codes.GPUCount, int64(d.GPUs), int64(t.together))
	}
}

func (t *Target) checkHardware(r *Report) {
	switch r.Mechanism {
	case sharing.MechanismExclusive, sharing.MechanismInServer:
		return
	case sharing.MechanismResearch:
		r.say(VerdictReject, codes.Research)
		return
	}
	switch t.answers[r.Mechanism] {
	case sharing.AnswerNo:
		r.say(VerdictReject, codes.Hardware)
	case sharing.AnswerUnknown:
		r.say(VerdictUnknown, codes.HardwareUnknown)
	}
	if (r.Mechanism == sharing.MechanismVGPU || r.Mechanism == sharing.MechanismMIGBackedVGPU) && !t.vgpu {
		r.say(VerdictFixable, codes.NeedsVGPUHost)
	}
	if r.Mechanism == sharing.MechanismMIGWithMPS && !t.delivered[r.Mechanism] {
		r.say(VerdictFixable, codes.MIGMPSDelivery)
	}
}

// checkInServer: one server can take the place of several replicas of the same model, which only its team can do.
func checkInServer(d *Demand, r *Report) {
	switch {
	case !d.Serves:
		r.say(VerdictReject, codes.NotAServer)
	case d.Replicas < 2:
		r.say(VerdictReject, codes.OneReplica)
	default:
		r.compare(VerdictFixable, codes.MergeReplicas, 0, int64(d.Replicas))
	}
}

func checkKind(d *Demand, r *Report) {
	if d.NeverShares {
		r.say(VerdictReject, codes.Gang)
		return
	}
	if !traits.Of(r.Mechanism).Contends {
		return
	}
	switch {
	case d.BusyBasis == BusyUnknown:
		r.say(VerdictUnknown, codes.BusyUnknown)
	case d.BusyBasis == BusyPrior:
		r.compare(VerdictPass, codes.BusyPrior, 0, permille(d.Busy))
	case !d.Predicted && d.SaturatedFrom > 0 && d.Busy >= d.SaturatedFrom:
		r.compare(VerdictReject, codes.Saturated, permille(d.SaturatedFrom), permille(d.Busy))
	}
}

func (t *Target) checkIsolation(d *Demand, r *Report) {
	for a, want := range d.Isolation {
		if want == sharing.LevelUnknown {
			continue
		}
		switch t.levels[r.Mechanism][a].AtLeast(want) {
		case sharing.AnswerNo:
			r.say(VerdictReject, codes.Isolation).isolation(a, want)
		case sharing.AnswerUnknown:
			r.say(VerdictUnknown, codes.IsolationUnknown).isolation(a, want)
		}
	}
}

// checkToday keeps the isolation that a workload runs with.
func (t *Target) checkToday(d *Demand, r *Report) {
	if d.Today == sharing.MechanismNone || d.Today == r.Mechanism {
		return
	}
	for a, now := range t.levels[d.Today] {
		if now != sharing.LevelUnknown && t.levels[r.Mechanism][a].AtLeast(now) != sharing.AnswerYes {
			r.say(VerdictReject, codes.Weaker).isolation(a, now)
		}
	}
}

func (n *note) isolation(a int, want sharing.Level) { n.axis, n.level = sharing.Axis(a), want }

func checkTrust(nb Neighbours, r *Report) {
	if !traits.Of(r.Mechanism).Trusting || nb.Trusted > 0 {
		return
	}
	if nb.Untrusted > 0 {
		r.compare(VerdictReject, codes.Untrusted, 0, int64(nb.Untrusted))
	} else {
		r.say(VerdictReject, codes.Alone)
	}
}

func (t *Target) checkFramework(d *Demand, r *Report) {
	switch r.Mechanism {
	case sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		if d.Bypasses {
			r.say(VerdictFixable, codes.HAMiBypass)
		}
	case sharing.MechanismMIGLikeEmulation:
		switch d.Framework {
		case "vllm", "tgi", "sglang": // have a flag for the part of the memory to take
		default:
			r.say(VerdictReject, codes.NoMemoryFraction)
		}
		if t.answers[sharing.MechanismMIG] == sharing.AnswerYes {
			r.say(VerdictPass, codes.MIGIsThere)
		}
	}
}
