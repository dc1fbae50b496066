// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/sharing"
)

// answered is a layout's answer to a trap that lies in wait wherever its mechanism is used.
type answered struct {
	// accepted: the layout bears the risk, since its tenants are one workload or trust one another. Otherwise it avoids
	// the trap.
	accepted bool
	how      string // the reason why it is none here, or a precaution; "" = the trap's message
}

// answeredTraps has the traps that follow from a mechanism and not from anything that a workload or pool states: the
// checks and the consequences that a choice has passed deal with them, or a tenant accepts them with the mechanism.
var answeredTraps = map[string]answered{
	"time-slicing-takes-turns": {false, "the turns of all tenants are counted in what each will see"},
	"turns-against-p99":        {false, "the P99 is computed with the turns of all tenants"},
	"mps-is-not-isolation":     {false, "what it isolates was held against what is demanded"},
	"hami-can-be-bypassed":     {false, "nothing stated gets round its limits, and no more than they give is demanded"},
	"memory-fractions-add-up": {false, "the written configuration sets a fraction that fits; leave the default and " +
		"the second server fails"},
	"mps-memory-fraction": {false, "the written configuration sets the limit over the total; leave the default " +
		"and the server runs out of memory"},
	"mps-limit-per-process":     {false, "the written limit is divided among the processes"},
	"mps-chains-starve":         {false, ""},
	"mps-needs-idle-sms":        {false, "what all tenants ask of the GPU together is counted"},
	"training-fills-the-gpu":    {false, "what all tenants ask of the GPU together is counted"},
	"replicas-are-not-capacity": {false, "what all tenants ask of the GPU together is counted"},
	"unequal-slowdowns":         {false, "each tenant's own slowdown is computed"},
	"replicas-share-memory":     {false, "all tenants fit the GPU together, with headroom"},
	"hami-graphs-unlimited":     {false, "the arrangement does not rest on HAMi's compute limit"},
	"mps-q-flag":                {false, "what is written never uses -q"},
	"mig-needs-idle-instances":  {true, "drain what runs on an instance before its step of the migration"},
	"mig-gone-after-reboot":     {true, "let mig-parted's service bring them back"},
	"double-memory-slice":       {true, "read the SMs in the container"},
	"emulation-is-not-mig":      {true, "it isolates nothing; its tenants trust one another"},
	"mps-fault-spreads":         {true, "its tenants are one workload or trust one another"},
	"mps-client-killed":         {true, "end a client's work before its pod is deleted"},
	"mps-fault-state-lasts":     {true, "after a fault restart all clients of that GPU"},
	"mps-one-user-per-server":   {true, "give each user's GPUs a control daemon of their own"},
}

// findTraps fills in the traps of a decision: those in the input, those that the layout accepts, and those that it
// avoids.
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
		if hit.Message = inLayout[t.ID]; hit.Message == "" {
			continue
		}
		a, ok := answeredTraps[t.ID]
		switch {
		case !ok:
			d.Traps = append(d.Traps, hit)
		case a.accepted:
			hit.Message += "; " + a.how
			d.Accepts = append(d.Accepts, hit)
		default:
			hit.Message = cmp.Or(a.how, hit.Message)
			d.Avoids = append(d.Avoids, hit)
		}
	}
	sortHits(d.Traps)
	sortHits(d.Accepts)
	sortHits(d.Avoids)
}

// TrapsToday returns the traps of a workload and of its present share (request) on a pool, which may be nil, the most
// severe first. here is the number of pods on its fullest GPU, 0 if unknown. A trap that needs all advertised shares of
// a GPU to be taken is reported as a future one, of at most medium severity.
func TrapsToday(w *CompiledWorkload, p *CompiledPool, here int) []TrapHit {
	s := newTrapInput(w, p)
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
