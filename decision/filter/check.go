// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Check applies every check for empty GPUs to d by mechanism m with possible neighbours nb, so that a rejected
// candidate has all reasons. It overwrites r and does not allocate.
func (t *Target) Check(d *Demand, m sharing.Mechanism, nb Neighbours, r *Report) {
	r.reset(t, d, m)
	t.check(d, nb, nil, r)
}

// check applies the checks; profile is the requested MIG profile, nil = the smallest that suffices.
func (t *Target) check(d *Demand, nb Neighbours, profile *mig.Profile, r *Report) {
	m := r.Mechanism
	t.checkPool(d, r)
	t.checkHardware(r)
	if m == sharing.MechanismInServer {
		checkInServer(d, r)
	}
	if m != sharing.MechanismExclusive {
		checkKind(d, r)
		t.checkIsolation(d, r)
		t.checkToday(d, r)
		checkTrust(nb, r)
		if d.GPUs > 1 && m != sharing.MechanismInServer {
			r.compare(VerdictReject, codes.MultiGPU, int64(d.GPUs), 0)
		}
		t.checkFramework(d, r)
	}
	t.checkFit(d, nb, profile, r)
	r.Slowdown = slowdownBy(m, r.Tenants, d.Busy)
	t.checkSLO(d, r)
}

// Slot is the way in which a GPU would run a demand.
type Slot struct {
	Mechanism sharing.Mechanism
	Profile   *mig.Profile // the requested MIG profile; nil without
	// Fixed is set if the GPU already runs the mechanism.
	Fixed bool
}

// Admit applies the checks that do not depend on other tenants of a GPU of this kind, and returns the decisive reason.
// It does not allocate.
func (t *Target) Admit(d *Demand, s Slot) Reason {
	var r Report
	r.reset(t, d, s.Mechanism)
	t.check(d, Neighbours{}, s.Profile, &r)
	at, worst := -1, 0
	for i := range r.notes[:r.n] {
		n := &r.notes[i]
		if scope := codes.Words[n.code].Scope; scope == codes.Empty || scope == codes.Choice && s.Fixed {
			continue
		}
		if s := n.verdict.Severity(); s > worst {
			at, worst = i, s
		}
	}
	if at < 0 {
		return Pass()
	}
	return r.Reason(at)
}
