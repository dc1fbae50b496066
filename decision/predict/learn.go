// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// learn sets the residuals of a mechanism from the errors of the predictions of a subset, and reports whether there are
// any.
func (s *study) learn(m sharing.Mechanism, u subset, to residuals) (any bool) {
	var seen [profile.MetricCount]errorsSeen
	for _, sc := range s.cases {
		if sc.Rows[0].Mechanism != m || !u.admits(sc) {
			continue
		}
		for j, p := range s.predictions(sc) {
			for metric, v := range p.All() {
				if got, ok := sc.Rows[j].Compared(metric); ok {
					seen[metric].add(sc.series, v, got)
					any = true
				}
			}
		}
	}
	for metric := range seen {
		to[profile.Metric(metric)] = seen[metric].weighed(to[profile.Metric(metric)])
	}
	return any
}

// errorsSeen are the errors of predictions of a metric.
type errorsSeen struct {
	relative []float64
	// needed are the half-widths of the usual error with which the prediction's interval just holds the measurement, by
	// series.
	needed map[string][]float64
}

// add adds a prediction whose interval holds only its own additions to the usual error: in quadrature, apart from those
// on one side.
func (e *errorsSeen) add(series string, v profile.Interval, got float64) {
	if e.needed == nil {
		e.needed = map[string][]float64{}
	}
	need := 0.0
	if !v.Contains(got) {
		off, extra := math.Log(v.Value/got), min(math.Log(v.High/v.Value), math.Log(v.Value/v.Low))
		need = math.Sqrt(max(0, off*off-extra*extra))
	}
	e.needed[series] = append(e.needed[series], need)
	e.relative = append(e.relative, math.Abs(v.Value/got-1))
}

// weighed weighs a prior half-width against the errors that were seen, if any were.
func (e *errorsSeen) weighed(prior Residual) Residual {
	if len(e.relative) == 0 {
		return prior
	}
	all := slices.Concat(slices.Collect(maps.Values(e.needed))...)
	const share = 0.94 // of all, so that 90% of an unseen series are held: series differ
	width := conformal(all, share)
	if len(e.needed) < int(table.Fit.FewSeries.Value) {
		width = max(width, prior.HalfWidth)
	}
	slices.Sort(e.relative)
	sum, n := 0.0, float64(len(all))
	for _, r := range e.relative {
		sum += r
	}
	return Residual{
		Points: len(all), Series: len(e.needed),
		HalfWidth: weighed(width, prior.HalfWidth, n),
		Mean:      sharing.Some(sum / n), P95: sharing.Some(stats.NearestRank(e.relative, 0.95)),
	}
}

// weighed is the half-width that n measurements and a prior give together.
func weighed(width, prior, n float64) float64 {
	w := table.Fit.PriorWeight.Value
	return math.Sqrt((n*width*width + w*prior*prior) / (n + w))
}

// conformal is the bound below which the next of a series of exchangeable values stays with probability q: the quantile
// of split conformal prediction (H. Papadopoulos and others, Inductive confidence machines for regression, ECML 2002).
func conformal(values []float64, q float64) float64 {
	slices.Sort(values)
	n := len(values)
	return values[min(n, int(math.Ceil(q*float64(n+1))))-1]
}

// engines learns from cases of tenants that the models were not calibrated on by how much each engine is mispredicted
// co-located: the median of the logarithms, drawn to none by the weight of a prior, and the width that holds 90% of the
// residuals.
func (s *study) engines(u subset) (out []Learned) {
	type key struct {
		of        string
		mechanism sharing.Mechanism
	}
	type seen struct {
		off    []float64 // logarithms of measured over predicted values
		series map[string]bool
	}
	found := map[key]*seen{}
	for _, sc := range s.cases {
		if sc.calibrates || !u.holds(sc) {
			continue
		}
		m := sc.Rows[0].Mechanism
		predictions := s.predictions(sc)
		for j := range predictions {
			r := &sc.Rows[j]
			v, ok := predictions[j].Get(r.Kind.MainMetric())
			got, ok2 := r.Compared(r.Kind.MainMetric())
			k := key{learnsAs(sc.group[j].Uncontended()), m}
			if !ok || !ok2 || k.of == "" || predictions[j].Calibrated {
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
		for i, off := range f.off {
			f.off[i] = math.Abs(off - shift)
		}
		width := weighed(conformal(f.off, 0.9), unseenByMechanism[k.mechanism].times, n)
		out = append(out, Learned{k.of, k.mechanism, math.Exp(shift), width, len(f.off), len(f.series)})
	}
	slices.SortFunc(out, func(a, b Learned) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Mechanism, b.Mechanism))
	})
	return out
}
