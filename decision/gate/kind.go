// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"math"

	"github.com/cotenant/cotenant/sharing"
)

// permille is a share in thousandths.
func permille(f float64) int64 { return int64(math.Round(f * 1000)) }

func (g *Ground) gatePool(d *Demand, r *Report) {
	if d.Pool != "" && d.Pool != g.name {
		r.say(VerdictReject, CodePinnedElsewhere)
	}
	if !g.allowed[r.Mechanism] {
		r.say(VerdictReject, CodeNotAllowedInPool)
	} else if !g.delivered[r.Mechanism] && r.Mechanism != sharing.MechanismMIGWithMPS {
		r.say(VerdictFixable, CodeNotDelivered)
	}
	if d.Encodes && g.noEncoder {
		r.say(VerdictReject, codeNoEncoder)
	}
	if d.GPUs > g.together {
		r.compare(VerdictReject, CodeGPUCount, int64(d.GPUs), int64(g.together))
	}
}

func (g *Ground) gateHardware(r *Report) {
	switch r.Mechanism {
	case sharing.MechanismExclusive, sharing.MechanismInServer:
		return
	case sharing.MechanismResearch:
		r.say(VerdictReject, codeResearch)
		return
	}
	switch g.answers[r.Mechanism] {
	case sharing.AnswerNo:
		r.say(VerdictReject, codeHardware)
	case sharing.AnswerUnknown:
		r.say(VerdictUnknown, codeHardwareUnknown)
	}
	if (r.Mechanism == sharing.MechanismVGPU || r.Mechanism == sharing.MechanismMIGBackedVGPU) && !g.vgpu {
		r.say(VerdictFixable, codeNeedsVGPUHost)
	}
	if r.Mechanism == sharing.MechanismMIGWithMPS && !g.delivered[r.Mechanism] {
		r.say(VerdictFixable, codeMIGMPSDelivery)
	}
}

// gateInServer: one server can take the place of several replicas of the same model, which only its team can do.
func gateInServer(d *Demand, r *Report) {
	switch {
	case !d.Serves:
		r.say(VerdictReject, codeNotAServer)
	case d.Replicas < 2:
		r.say(VerdictReject, codeOneReplica)
	default:
		r.compare(VerdictFixable, codeMergeReplicas, 0, int64(d.Replicas))
	}
}

func gateKind(d *Demand, r *Report) {
	if d.NeverShares {
		r.say(VerdictReject, codeGang)
		return
	}
	if !traits[r.Mechanism].Contends {
		return
	}
	switch {
	case d.BusyBasis == BusyUnknown:
		r.say(VerdictUnknown, codeBusyUnknown)
	case d.BusyBasis == BusyPrior:
		r.compare(VerdictPass, codeBusyPrior, 0, permille(d.Busy))
	case !d.Predicted && d.SaturatedFrom > 0 && d.Busy >= d.SaturatedFrom:
		r.compare(VerdictReject, codeSaturated, permille(d.SaturatedFrom), permille(d.Busy))
	}
}

func (g *Ground) gateIsolation(d *Demand, r *Report) {
	for a, want := range d.Isolation {
		if want == sharing.LevelUnknown {
			continue
		}
		switch g.levels[r.Mechanism][a].AtLeast(want) {
		case sharing.AnswerNo:
			r.say(VerdictReject, codeIsolation).isolation(a, want)
		case sharing.AnswerUnknown:
			r.say(VerdictUnknown, codeIsolationUnknown).isolation(a, want)
		}
	}
}

// gateToday keeps the isolation that a workload runs with.
func (g *Ground) gateToday(d *Demand, r *Report) {
	if d.Today == sharing.MechanismNone || d.Today == r.Mechanism {
		return
	}
	for a, now := range g.levels[d.Today] {
		if now != sharing.LevelUnknown && g.levels[r.Mechanism][a].AtLeast(now) != sharing.AnswerYes {
			r.say(VerdictReject, CodeWeaker).isolation(a, now)
		}
	}
}

func (n *note) isolation(a int, want sharing.Level) { n.axis, n.level = sharing.Axis(a), want }

func gateTrust(nb Neighbours, r *Report) {
	if !traits[r.Mechanism].Trusting || nb.Trusted > 0 {
		return
	}
	if nb.Untrusted > 0 {
		r.compare(VerdictReject, codeUntrusted, 0, int64(nb.Untrusted))
	} else {
		r.say(VerdictReject, CodeAlone)
	}
}

func (g *Ground) gateFramework(d *Demand, r *Report) {
	switch r.Mechanism {
	case sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		if d.Bypasses {
			r.say(VerdictFixable, codeHAMiBypass)
		}
	case sharing.MechanismMIGLikeEmulation:
		switch d.Framework {
		case "vllm", "tgi", "sglang": // have a flag for the part of the memory to take
		default:
			r.say(VerdictReject, codeNoMemoryFraction)
		}
		if g.answers[sharing.MechanismMIG] == sharing.AnswerYes {
			r.say(VerdictPass, codeMIGIsThere)
		}
	}
}
