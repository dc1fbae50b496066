package predict

import (
	"cmp"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// Evidence is the basis of a prediction, which decides the width of its intervals.
type Evidence uint8

// The kinds of evidence.
const (
	// EvidenceCalibrated: all of the group are servers of engines that the models were calibrated on.
	EvidenceCalibrated Evidence = iota
	// EvidenceResponse: the tenant was measured with standard neighbours, and so were the others under MPS.
	EvidenceResponse
	// EvidenceIsolated: only the tenant's isolated figures are known.
	EvidenceIsolated
)

var evidences = enum.Of[Evidence](profile.ErrUnknownName, "evidence", "calibrated", "response", "isolated")

// calibratedOn reports whether the models were calibrated on the steps of all tenants, which are then servers.
func calibratedOn(models []tenantModel) bool {
	return !slices.ContainsFunc(models, func(t tenantModel) bool {
		return t.kind != profile.KindServer || t.gaps || !t.seen
	})
}

// unseenWidths are half-widths of the 90% intervals of what nothing was calibrated on: of times and rates, of tails, of
// the first token and of its tail. To them come, in quadrature, shares of the distance of the simulation from the
// measured response, and of what is doubtful of the tenant itself (its host's pace above all); of servers of calibrated
// engines in such company the first are narrower, by the factor seen. They are the conformal
// ones of whole engines and kinds of tenants left out of decision/predict/testdata: each class is held to 82 to 97% by
// the widths that the others need.
type unseenWidths struct{ times, tails, first, firstTail, apart, doubt, seen float64 }

var unseenByMechanism = map[sharing.Mechanism]unseenWidths{
	sharing.MechanismTimeSlicing: {times: 0.14, tails: 0.2, first: 0.29, firstTail: 0.46, apart: 0.5, doubt: 0.75,
		seen: 0.8},
	sharing.MechanismMPS: {times: 0.12, tails: 0.18, first: 0.25, firstTail: 0.43, apart: 0.75, doubt: 1.25,
		seen: 1},
}

func (w *unseenWidths) of(m profile.Metric) float64 {
	switch m {
	case profile.MetricTTFTP50:
		return w.first
	case profile.MetricTTFTP99:
		return w.firstTail
	case profile.MetricTPOTP99, profile.MetricE2EP99, profile.MetricStepP99:
		return w.tails
	}
	return w.times
}

// learnsAs names what a tenant has in common with others that are mispredicted alike: its engine, or its model where it
// serves no tokens.
func learnsAs(b *profile.SoloProfile) string {
	if b.Kind == profile.KindServer {
		return b.Engine
	}
	return b.Server.Model
}

// engines learns from cases of tenants that the models were not calibrated on by how much each engine is mispredicted
// co-located: the median of the logarithms, drawn to none by the weight of a prior, and the width that holds 90% of
// what is left.
func (s *study) engines(p *Predictor, u subset) (out []costs.Learned) {
	type key struct {
		of        string
		mechanism sharing.Mechanism
	}
	type seen struct {
		off    []float64 // logarithms of what was measured over what was predicted
		series map[string]bool
	}
	bare := *p
	bare.Learned = nil
	found := map[key]*seen{}
	for _, sc := range s.cases {
		if sc.calibrates || sc.err != nil || !u.holds(sc) {
			continue
		}
		m := sc.Rows[0].Mechanism
		here := bare
		here.GPU = sc.gpu
		predictions, err := here.predict(m, sc.group, s.method, s.known)
		if err != nil {
			continue
		}
		for j := range predictions {
			r := &sc.Rows[j]
			v, ok := predictions[j].Get(r.Kind.MainMetric())
			got, ok2 := r.Compared(r.Kind.MainMetric())
			k := key{learnsAs(sc.group[j].Uncontended()), m}
			if !ok || !ok2 || k.of == "" || predictions[j].Evidence == EvidenceCalibrated {
				continue
			}
			if found[k] == nil {
				found[k] = &seen{series: map[string]bool{}}
			}
			found[k].off = append(found[k].off, math.Log(got/v.Value))
			found[k].series[sc.series] = true
		}
	}
	for k, f := range found {
		slices.Sort(f.off)
		n := float64(len(f.off))
		shift := f.off[len(f.off)/2] * n / (n + table.Fit.PriorWeight.Value)
		var left []float64
		for _, off := range f.off {
			left = append(left, math.Abs(off-shift))
		}
		width, prior := conformal(left, 0.9), unseenByMechanism[k.mechanism].times
		out = append(out, costs.Learned{Of: k.of, Mechanism: k.mechanism, Factor: math.Exp(shift),
			HalfWidth: weighed(width, prior, n),
			Points:    len(f.off), Series: len(f.series)})
	}
	slices.SortFunc(out, func(a, b costs.Learned) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Mechanism, b.Mechanism))
	})
	return out
}
