package guard

import (
	"slices"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
)

// expected returns the TPOT in milliseconds that a tenant should have beside the
// others, and the name of its source.
func (g *Guard) expected(i int) (profile.Interval, string, bool) {
	t, s := &g.tenants[i], &g.states[i]
	in, ok := t.Expect.Get()
	basis := "predicted by its owner"
	if !ok {
		basis = "predicted"
		in, ok = g.foresee(t.GPU, i, func(k int) (profile.Server, profile.Load, bool) {
			server := g.tenants[k].Server
			if c := g.states[k].capped; c > 0 {
				server.SMPercent = profile.Some(100 * c)
			}
			return server, g.tenants[k].Load, true
		})
	}
	if len(s.learnt) < g.rules.Learn {
		return in, basis, ok
	}
	quiet := slices.Sorted(slices.Values(s.learnt))
	m := quiet[len(quiet)/2]
	switch {
	case !ok:
		// The spread of quiet windows, and a quarter as hosts and clients vary.
		return profile.Interval{Value: m, Low: quiet[0], High: max(1.25*m, quiet[len(quiet)-1])}, "learnt", true
	case in.Contains(m):
		// Where the prediction holds, what was seen is the narrower of the two.
		high := min(in.High, max(1.1*m, quiet[len(quiet)-1]))
		return profile.Interval{Value: m, Low: quiet[0], High: high}, basis + ", and seen to hold,", true
	}
	return in, basis, true
}

// foresee predicts the TPOT in milliseconds of tenant i on a GPU beside its other tenants that hold something, each
// as use says; use leaves a tenant out. It cannot where one of them has no profile.
func (g *Guard) foresee(gpu, i int, use func(k int) (profile.Server, profile.Load, bool)) (profile.Interval, bool) {
	var group []profile.Solo
	at := -1
	for k := range g.tenants {
		if g.tenants[k].GPU != gpu && k != i || g.states[k].reaped {
			continue
		}
		server, load, in := use(k)
		if !in {
			continue
		}
		solo, err := g.profiles.Solo(server, load)
		if err != nil {
			return profile.Interval{}, false
		}
		if k == i {
			at = len(group)
		}
		group = append(group, solo)
	}
	if at < 0 {
		return profile.Interval{}, false
	}
	out, err := g.predictor.Predict(g.gpus[gpu].Mechanism, group, predict.MethodClosedForm)
	if err != nil {
		return profile.Interval{}, false
	}
	return out[at].Get(profile.MetricTPOTP50)
}
