package decision

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// notChosen compares the choice with the next ones: what each would have done
// better, and what worse.
func notChosen(cs []Candidate) []string {
	var chosen *Candidate
	for i := range cs {
		if cs[i].Chosen {
			chosen = &cs[i]
		}
	}
	var out []string
	for i := range cs {
		c := &cs[i]
		if chosen == nil || c.Verdict != VerdictPass || c.Chosen || len(out) == 2 {
			continue
		}
		better, worse, up, down := -1, -1, 0.0, 0.0
		for k := range c.Parts {
			diff := c.Parts[k].Weighted - chosen.Parts[k].Weighted
			if diff > up {
				better, up = k, diff
			}
			if diff < down {
				worse, down = k, diff
			}
		}
		text := fmt.Sprintf("%s on %s scores %.1f against %.1f", c.Mechanism, c.Pool, c.Preference, chosen.Preference)
		var how []string
		if worse >= 0 {
			how = append(how, fmt.Sprintf("worse in %s", c.Parts[worse].Criterion))
		}
		if c.Preference-c.Score < chosen.Preference-chosen.Score-0.01 {
			how = append(how, "dearer for a replica")
		}
		if better >= 0 {
			how = append(how, fmt.Sprintf("better in %s", c.Parts[better].Criterion))
		}
		if len(how) > 0 {
			text += ": " + strings.Join(how, ", ")
		}
		out = append(out, text)
	}
	return out
}

// candidates evaluates workload w again, this time into words.
func (pl *planner) candidates(w int) []Candidate {
	if len(pl.pools) > pl.opt.MaxPoolsListed {
		return pl.bestCandidates(w)
	}
	out := make([]Candidate, 0, len(pl.pools)*(sharing.MechanismCount-1))
	var ev Evaluation
	for p, cp := range pl.pools {
		Evaluate(pl.workloads[w], cp, pl.neighbours(w, p), &ev)
		for i := range ev.Candidates {
			pl.annotate(w, p, &ev.Candidates[i])
			out = append(out, pl.words(w, p, &ev.Candidates[i]))
			out = pl.smallerProfiles(out, w, p, &ev.Candidates[i])
		}
	}
	return sortCandidates(out)
}

// smallerProfiles appends the MIG profiles that would pack more densely than
// the candidate's and do not do, each with its reason.
func (pl *planner) smallerProfiles(out []Candidate, w, p int, s *Scored) []Candidate {
	if s.Mechanism != sharing.MechanismMIG || s.profile < 0 {
		return out
	}
	cw, cp := pl.workloads[w], pl.pools[p]
	for i := range cp.profiles[:s.profile] {
		r := Reason{Code: CodeSliceTooSmall, Mechanism: s.Mechanism, Verdict: VerdictReject, A: int64(cw.need.Total), B: int64(i)}
		if o := &cp.profiles[i]; o.memory >= cw.need.Total {
			r = Reason{Code: CodeSliceSaturated, Mechanism: s.Mechanism, Verdict: VerdictReject, A: permille(cw.busy), B: int64(i)}
		} else if o.memory == 0 {
			continue
		}
		out = append(out, Candidate{Pool: cp.pool.Name, Mechanism: s.Mechanism, Profile: cp.profiles[i].profile.Name, Verdict: VerdictReject,
			Tenants: 1, Reasons: []ReasonText{r.Text(cw, cp)}})
	}
	return out
}

// bestCandidates lists each mechanism once: the chosen candidate, or the best.
func (pl *planner) bestCandidates(w int) []Candidate {
	var best [sharing.MechanismCount - 1]Scored
	var at [sharing.MechanismCount - 1]int
	rank := func(p int, s *Scored) (int, float64) {
		if pl.took(w, p, s.Mechanism) {
			return -1, 0
		}
		return s.Verdict.severity(), -s.Score - pl.bonus[w][p]
	}
	var ev Evaluation
	for p, cp := range pl.pools {
		Evaluate(pl.workloads[w], cp, pl.neighbours(w, p), &ev)
		for i := range ev.Candidates {
			s := &ev.Candidates[i]
			pl.annotate(w, p, s)
			if p > 0 {
				verdict, preference := rank(p, s)
				bestVerdict, bestPreference := rank(at[i], &best[i])
				if cmp.Or(cmp.Compare(verdict, bestVerdict), cmp.Compare(preference, bestPreference)) >= 0 && !(best[i].pinned() && !s.pinned()) {
					continue
				}
			}
			best[i], at[i] = *s, p
		}
	}
	out := make([]Candidate, len(best))
	for i := range best {
		out[i] = pl.words(w, at[i], &best[i])
	}
	return sortCandidates(out)
}

func (s *Scored) pinned() bool {
	return s.n > 0 && s.reasons[0].Code == CodePinnedElsewhere
}

// took says that workload w was given this candidate.
func (pl *planner) took(w, p int, m sharing.Mechanism) bool {
	c := pl.chosen[w]
	return c != nil && c.pool == p && c.mechanism == m
}

func sortCandidates(out []Candidate) []Candidate {
	slices.SortStableFunc(out, func(a, b Candidate) int {
		return cmp.Or(-cmpBool(a.Chosen, b.Chosen), cmp.Compare(a.Verdict.severity(), b.Verdict.severity()),
			cmp.Compare(b.Preference, a.Preference), cmpBool(a.pinned(), b.pinned()), cmp.Compare(a.Mechanism, b.Mechanism), cmp.Compare(a.Pool, b.Pool))
	})
	return out
}

// pinned says that the workload's pin alone rules the candidate out.
func (c *Candidate) pinned() bool {
	return len(c.Reasons) > 0 && c.Reasons[0].Code == reasons[CodePinnedElsewhere].name
}

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// annotate adds what only the fleet as a whole shows: a pool that was full,
// neighbours that never came.
func (pl *planner) annotate(w, p int, s *Scored) {
	key := banKey{w, p, s.Mechanism}
	if need := pl.full[w][key]; need > 0 && s.Verdict == VerdictPass {
		s.add(VerdictReject, CodePoolFull, int64(need), int64(pl.pools[p].pool.Count))
	}
	if r := pl.banned[key]; r.Code != CodeNone {
		s.add(r.Verdict, r.Code, r.A, r.B)
	}
}

func (pl *planner) words(w, p int, s *Scored) Candidate {
	cw, cp := pl.workloads[w], pl.pools[p]
	c := Candidate{Pool: cp.pool.Name, Mechanism: s.Mechanism, Profile: cp.Profile(s), Verdict: s.Verdict, Chosen: pl.took(w, p, s.Mechanism),
		Tenants: s.Tenants, Reasons: make([]ReasonText, 0, max(1, int(s.n)))}
	if c.Chosen {
		c.Tenants = pl.chosen[w].tenants // a prediction may have allowed fewer
	}
	if s.Verdict != VerdictReject {
		c.Score, c.Preference = round(s.Score, 2), round(s.Score+pl.bonus[w][p], 2)
		c.Parts = make([]ScorePart, 0, CriterionCount)
		for i := range CriterionCount {
			c.Parts = append(c.Parts, ScorePart{Criterion(i), round(s.Raw[i], 4), round(s.Normalised[i], 4), round(cw.weights[i], 4), round(s.Weighted[i], 4)})
		}
	}
	for _, r := range s.Reasons() {
		c.Reasons = append(c.Reasons, r.Text(cw, cp))
	}
	if len(c.Reasons) == 0 {
		c.Reasons = append(c.Reasons, ReasonText{"fits", "no gate speaks against it", "cotenant-reading", VerdictPass})
	}
	return c
}

func round(f float64, decimals int) float64 {
	p := math.Pow10(decimals)
	return math.Round(f*p) / p
}
