// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/sharing"
)

// acceptedTraps are risks that tenants accept with a mechanism, each with the precaution that a plan names.
var acceptedTraps = map[string]string{
	"mig-needs-idle-instances": "drain what runs on an instance before its step of the migration",
	"mig-gone-after-reboot":    "let mig-parted's service bring them back",
	"double-memory-slice":      "read the SMs in the container",
	"emulation-is-not-mig":     "it isolates nothing; its tenants trust one another",
	"mps-fault-spreads":        "its tenants are one workload or trust one another",
	"mps-client-killed":        "end a client's work before its pod is deleted",
	"mps-fault-state-lasts":    "after a fault restart all clients of that GPU",
	"mps-one-user-per-server":  "give each user's GPUs a control daemon of their own",
}

// countedTraps follow from a mechanism too, and no layout walks into them: filters, predictions and the written
// configuration take them into account.
var countedTraps = []string{"time-slicing-takes-turns", "turns-against-p99", "mps-is-not-isolation",
	"hami-can-be-bypassed", "memory-fractions-add-up", "mps-memory-fraction", "mps-limit-per-process",
	"mps-chains-starve", "mps-needs-idle-sms", "training-fills-the-gpu", "replicas-are-not-capacity",
	"unequal-slowdowns", "replicas-share-memory", "hami-graphs-unlimited", "mps-q-flag"}

// findTraps fills in the traps of a decision: those in the input, and those that the layout accepts. A neighbour with
// kernels that leave a server no SMs is a reason against MPS.
func (s *trapInput) findTraps(d *Decision) {
	asked, chosen := *s, *s
	asked.chosen, asked.profile, asked.tenants = sharing.MechanismNone, "", 0
	chosen.r = fleet.Asked{}
	d.Traps = []TrapHit{}
	inInput, inLayout := asked.find(), chosen.find()
	for _, t := range sharing.Traps() {
		hit := TrapHit{ID: t.ID, Severity: t.Severity, Message: inInput[t.ID]}
		if hit.Message != "" {
			d.Traps = append(d.Traps, hit)
			continue
		}
		hit.Message = inLayout[t.ID]
		precaution, accepted := acceptedTraps[t.ID]
		switch {
		case hit.Message == "":
		case t.ID == "mps-chains-starve" && !s.mps():
			d.NotChosen = append(d.NotChosen, hit.Message)
		case slices.Contains(countedTraps, t.ID):
		case accepted:
			hit.Message += "; " + precaution
			d.Accepts = append(d.Accepts, hit)
		default:
			d.Traps = append(d.Traps, hit)
		}
	}
	sortHits(d.Traps)
	sortHits(d.Accepts)
}

// TrapsToday returns the traps of a workload and of its present share (request) on a pool, which may be nil, the most
// severe first. here is the number of pods on its fullest GPU, 0 if unknown. A trap that needs all advertised shares of
// a GPU to be taken is reported as a future one, of at most medium severity.
func TrapsToday(w *Workload, p *Pool, here int) []TrapHit {
	var pool *score.CompiledPool
	if p != nil {
		pool, _ = score.CompilePool(p) // of a GPU that is not known, traps of pools are not known either
	}
	s := newTrapInput(score.CompileWorkload(w), pool)
	var full found
	if here > 0 && s.r.Replicas > here {
		full = s.find()
	}
	s.here = here
	now := s.find()
	var hits []TrapHit
	for _, t := range sharing.Traps() {
		message, severity := now[t.ID], t.Severity
		if then := full[t.ID]; message == "" && then != "" {
			message = fmt.Sprintf("once all %d places of a GPU are taken: %s", s.r.Replicas, then)
			severity = min(severity, sharing.SeverityMedium)
		}
		if message != "" {
			hits = append(hits, TrapHit{ID: t.ID, Severity: severity, Message: message, Sources: t.Sources})
		}
	}
	sortHits(hits)
	return hits
}
