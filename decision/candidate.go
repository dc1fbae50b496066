// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/sharing"
)

// notChosen explains why a smaller MIG slice than the one chosen would not do; nil where no smaller one was tried.
func (pl *answers) notChosen(w int, d *Decision) []string {
	taken := pl.Chosen(w)
	s := taken.Smaller
	if s == nil {
		return nil
	}
	inside := []plan.Member{{Workload: w, Replicas: traits.PerInstance(taken.Mechanism)}}
	text := pl.why(w, taken, pl.Predict(plan.Site{GroupKey: taken.GroupKey, Slice: s}, inside))
	if d := &pl.EstimateOf(w, taken.Pool, taken.Mechanism).Demand; !d.Serves() {
		text += fmt.Sprintf(", less than %.0f%%", 100*pl.Least[taken.Pool])
	}
	return []string{fmt.Sprintf("%s %s on %s %s", taken.Mechanism, s.Profile.Name, d.Pool, text)}
}

// listing is a candidate in words on its pool, with its score; pool is -1 for a MIG profile that is smaller than the
// candidate's and does not do.
type listing struct {
	Candidate
	pool  int
	score float64
}

// mostPoolsListed is the number of pools up to which the candidates are those of all pools; with more pools they are
// those of the pools that were chosen, or that suit best.
const mostPoolsListed = 16

// candidates returns the candidates of workload w in words, the chosen one first: every mechanism on every pool.
func (pl *answers) candidates(w int) []Candidate {
	cw := pl.Workloads[w]
	var list []listing
	var s score.Scored
	for p, cp := range pl.Pools {
		if len(pl.Pools) > mostPoolsListed && !pl.suits(w, p) {
			continue
		}
		neighbours := pl.Neighbours(w, p)
		for _, m := range sharing.Mechanisms() {
			score.Evaluate(cw, cp, neighbours, m, &s)
			list = append(list, listing{pl.words(w, p, &s), p, s.Score})
			if m != sharing.MechanismMIG {
				continue
			}
			for _, r := range denser(&s, cw, cp) {
				list = append(list, listing{Candidate{Pool: cp.Pool.Name, Mechanism: m, Profile: r.Profile.Name,
					Verdict: r.Verdict, Tenants: 1, Reasons: []filter.ReasonText{r.Text()}}, -1, 0})
			}
		}
	}
	for i := range list {
		pl.annotate(w, &list[i])
	}
	last := map[bool]int{true: 1}
	slices.SortStableFunc(list, func(a, b listing) int {
		return cmp.Or(last[b.Chosen]-last[a.Chosen], cmp.Compare(a.Verdict.Severity(), b.Verdict.Severity()),
			cmp.Compare(b.score, a.score), last[a.pinned()]-last[b.pinned()], cmp.Compare(a.Mechanism, b.Mechanism),
			cmp.Compare(a.Pool, b.Pool))
	})
	out := make([]Candidate, len(list))
	for i := range list {
		out[i] = list[i].Candidate
	}
	return out
}

// suits reports whether pool p was chosen for workload w, or is its best where none was: by its choices, else its pin.
func (pl *answers) suits(w, p int) bool {
	switch choices := pl.Choices[w]; {
	case len(pl.Places[w]) > 0:
		return slices.ContainsFunc(pl.Places[w], func(at plan.Place) bool { return at.Pool == p })
	case len(choices) > 0:
		return choices[0].Pool == p
	}
	pin := func(cp *score.CompiledPool) bool { return cp.Pool.Name == pl.Workloads[w].Workload().Pool }
	return max(0, slices.IndexFunc(pl.Pools, pin)) == p
}

// pinned reports whether the workload's pin is the reason against the candidate.
func (c *Candidate) pinned() bool {
	return len(c.Reasons) > 0 && c.Reasons[0].Code == codes.PinnedElsewhere
}

// annotate adds facts about the whole fleet: the choice, full pools, missing neighbours.
func (pl *answers) annotate(w int, l *listing) {
	if l.pool < 0 {
		return
	}
	cw, cp := pl.Workloads[w], pl.Pools[l.pool]
	key := plan.GroupKey{Pool: l.pool, Mechanism: l.Mechanism}
	add := func(why filter.Reason) {
		if l.Reasons[0].Code == codes.Fits {
			l.Reasons = l.Reasons[:0]
		}
		l.Reasons = append(l.Reasons, why.About(cw.Demand(), cp.Target()).Text())
		if why.Verdict.Severity() > l.Verdict.Severity() {
			l.Verdict = why.Verdict
		}
		if l.Verdict == filter.VerdictReject {
			l.score = 0
		}
	}
	chosen := slices.ContainsFunc(pl.Places[w], func(at plan.Place) bool { return at.GroupKey == key })
	if need := pl.Full[w][key]; need > 0 && l.Verdict == filter.VerdictPass {
		verdict := filter.VerdictReject
		if chosen {
			verdict = filter.VerdictPass // for those that were placed
		}
		add(filter.Reason{Verdict: verdict, Code: codes.PoolFull, Mechanism: l.Mechanism, Need: int64(need),
			Have: int64(cp.Pool.Count)})
	}
	if why, banned := pl.Banned[w][key]; banned {
		why.Mechanism = l.Mechanism
		add(why)
	}
	if c := pl.Choice(w, key); c != nil && l.Verdict == filter.VerdictPass {
		l.Tenants = min(c.Fits, c.Tenants) // a prediction may have allowed fewer
		if c.Slice != nil {
			l.chose(c.Slice)
			need := pl.MemoryOf(w, c.Mechanism)
			add(filter.Reason{Verdict: filter.VerdictPass, Code: codes.SliceFits, Mechanism: l.Mechanism,
				Need: int64(need), Profile: c.Slice.Profile})
		}
	}
	l.Chosen = chosen
}

// denser returns, for a candidate with a slice, a rejection for each smaller profile that would fit more often on a GPU
// and does not suffice.
func denser(s *score.Scored, cw *score.CompiledWorkload, cp *score.CompiledPool) (out []filter.Reason) {
	d, all := cw.Demand(), cp.Target().Slices()
	for i := 0; i < len(all) && s.Slice() != nil && &all[i] != s.Slice(); i++ {
		why := filter.Reason{Verdict: filter.VerdictReject, Mechanism: s.Mechanism, Profile: all[i].Profile}
		switch {
		case all[i].Memory >= d.Memory.Total:
			why.Code, why.Have = codes.SliceSaturated, int64(math.Round(1000*d.Busy))
		case all[i].Memory > 0:
			why.Code, why.Need = codes.SliceTooSmall, int64(d.Memory.Total)
		default:
			continue
		}
		out = append(out, why.About(d, cp.Target()))
	}
	return out
}

// chose replaces the smallest slice that the filter found, and its reasons, by the slice that the prediction chose.
func (l *listing) chose(s *filter.MIGSlice) {
	other := l.Profile != s.Profile.Name
	l.Profile = s.Profile.Name
	l.Reasons = slices.DeleteFunc(l.Reasons, func(r filter.ReasonText) bool {
		switch r.Code {
		case codes.SliceFits, codes.SliceLoad, codes.SLOUnmeasured:
			return true
		}
		return other && r.Code == codes.Fraction
	})
	if len(l.Reasons) == 0 {
		l.Reasons = []filter.ReasonText{{Code: codes.Fits}}
	}
}

// words puts an evaluated candidate into words.
func (pl *answers) words(w, p int, s *score.Scored) Candidate {
	cw := pl.Workloads[w]
	c := Candidate{Pool: pl.Pools[p].Pool.Name, Mechanism: s.Mechanism, Profile: s.Profile(), Verdict: s.Verdict,
		Tenants: s.Tenants,
		Reasons: make([]filter.ReasonText, 0, max(1, s.Len()))}
	for i := range s.Len() {
		c.Reasons = append(c.Reasons, s.Reason(i).Text())
	}
	if s.Len() == 0 {
		c.Reasons = append(c.Reasons, filter.Pass().About(cw.Demand(), pl.Pools[p].Target()).Text())
	}
	return c
}
