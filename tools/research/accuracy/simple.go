// SPDX-License-Identifier: Apache-2.0

package accuracy

import (
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// SimpleRuleNames names what [SimpleRules] returns under a mechanism.
func SimpleRuleNames(m sharing.Mechanism) []string {
	if m == sharing.MechanismMPS {
		return []string{"GPU busy", "press curve at (wait ratio)^1.7 us", "N times slower"}
	}
	return []string{"GPU busy", "spinner's wait x sqrt(busy)", "N times slower"}
}

// SimpleRules returns what three rules say of the main figure of row i of a case, in ms, 0 where one lacks something:
// the alone figure times one plus the others' busy shares; what was measured of the tenant beside a standard neighbour,
// read at one number of each neighbour; and N tenants, N times slower. Profiles are looked up in the order of ps.
func SimpleRules(rows profile.Rows, i int, ps ...*profile.Profiles) (out [3]float64) {
	find := func(r *profile.Row, m sharing.Mechanism) *profile.SoloProfile {
		for _, p := range ps {
			solo, _ := p.Solo(uncapped(r.Server), r.Load)
			if found := map[sharing.Mechanism]*profile.SoloProfile{sharing.MechanismTimeSlicing: solo.TimeSlicing,
				sharing.MechanismMPS: solo.MPS}[m]; found != nil {
				return found
			}
		}
		return nil
	}
	r := &rows[i]
	of := r.Kind.MainMetric()
	alone := find(r, sharing.MechanismTimeSlicing)
	under := find(r, r.Mechanism)
	if alone == nil || under == nil {
		return out
	}
	busy, extra, ok := 1.0, 0.0, true
	for j := range rows {
		if j == i {
			continue
		}
		n := find(&rows[j], sharing.MechanismTimeSlicing)
		if n == nil || n.GPUBusyFraction.IsZero() {
			return out
		}
		busy += n.GPUBusyFraction.Or(0)
		more, known := 0.0, false
		if r.Mechanism == sharing.MechanismMPS {
			more, known = curveAt(under, find(&rows[j], sharing.MechanismMPS))
		} else if turns := alone.SlicesPerStep.Or(0); turns > 0 {
			const slice = 2.0906 + 2*0.1515 // ms, and two switches
			more, known = turns*slice*math.Sqrt(n.GPUBusyFraction.Or(0)), true
		}
		extra, ok = extra+more, ok && known
	}
	v := alone.Figures()[of]
	out[0], out[2] = v*busy, v*float64(len(rows))
	if ok {
		out[1] = under.Figures()[of] + extra
	}
	return out
}

// curveAt reads the growth of a tenant's step beside computing stress kernels at a neighbour's equivalent length.
func curveAt(tenant, neighbour *profile.SoloProfile) (ms float64, ok bool) {
	if tenant.Pressure == nil || neighbour == nil || neighbour.Pressure == nil {
		return 0, false
	}
	// The reporter's single wide kernel, with a length nearest to 20 us.
	var w *profile.Wait
	off := func(w *profile.Wait) float64 { return math.Abs(math.Log(w.KernelUS / 20)) }
	for i := range neighbour.Pressure.Waits {
		if o := &neighbour.Pressure.Waits[i]; o.Wide && o.Kernels == 1 && o.KernelUS > 0 && (w == nil || off(o) < off(w)) {
			w = o
		}
	}
	presses := slices.DeleteFunc(slices.Clone(tenant.Pressure.Stresses), func(q profile.Stress) bool { return q.Reads })
	if w == nil || len(presses) == 0 {
		return 0, false
	}
	slices.SortFunc(presses, func(a, b profile.Stress) int { return cmp.Compare(a.KernelUS, b.KernelUS) })
	at := max(0, 1.7*math.Log(w.CoLocatedMeanUS/w.IsolatedMeanUS))
	x, y := 0.0, 0.0
	for _, q := range presses {
		nextX, nextY := math.Log(q.KernelUS), max(y, q.StepMS-tenant.Pressure.StepMS)
		if at <= nextX {
			return y + (nextY-y)*(at-x)/(nextX-x), true
		}
		x, y = nextX, nextY
	}
	return y, true
}
