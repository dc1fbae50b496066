package report

import (
	"fmt"

	"github.com/cotenant/cotenant/internal/optional"
)

// testedFigure is a figure that every run has: its place among the compared ones,
// and its values in the order of the runs.
type testedFigure struct {
	at          int
	base, other []float64
}

// correct takes back the claims that the number of figures does not allow.
func (rc *RunComparison) correct(tested []testedFigure, alpha float64) {
	if len(tested) == 0 {
		return
	}
	var base, other [][]float64
	for _, f := range tested {
		base, other = append(base, f.base), append(other, f.other)
	}
	p, correction := adjust(base, other)
	rc.Correction = correction
	for i, f := range tested {
		c := &rc.Figures[f.at]
		c.PCorrected = optional.Of(p[i])
		if (c.Claim == ClaimLower || c.Claim == ClaimHigher) && p[i] > alpha*(1+1e-9) {
			c.Claim = ClaimNoDifference
			c.Reasons = append(c.Reasons, fmt.Sprintf("shown alone, not among %d figures (make more runs, or name the figures "+
				"that matter)", len(tested)))
		}
	}
}

// withhold takes back every claim that rests on the requests that succeeded, where the groups' shares of failed
// requests differ beyond chance. Two tests look for that: one over the runs, which allows for runs that vary, and
// one over all requests, because a few runs can show nothing however much they fail. Either is enough: what is at
// stake is a claim, not an accusation.
func (rc *RunComparison) withhold(sides []*side, alpha float64) {
	var failed, total [2]int64
	var shares [2][]float64
	for i, s := range sides {
		for _, m := range s.of {
			failed[i], total[i] = failed[i]+m.Counts.Failed, total[i]+m.Counts.Total
			if v, _, ok := figureOf(m, failedShare); ok {
				shares[i] = append(shares[i], v)
			}
		}
	}
	if total[0] == 0 || total[1] == 0 {
		return
	}
	perRequest := fisher(failed[0], total[0], failed[1], total[1])
	perRun, _ := mannWhitney(shares[0], shares[1])
	if perRequest > alpha && perRun > alpha*(1+1e-9) {
		return
	}
	rc.Withheld = fmt.Sprintf("%d of %d requests of the base failed and %d of %d of the other, which is beyond chance "+
		"(p = %.2g over the requests, %.2g over the runs): latencies and rates are of the requests that did not fail, and "+
		"cannot be compared",
		failed[0], total[0], failed[1], total[1], perRequest, perRun)
	for i := range rc.Figures {
		c := &rc.Figures[i]
		if c.Figure == failedShare || c.Figure == "goodput.fraction" { // failures count in these
			continue
		}
		c.Claim = ClaimUnsupported
		c.Reasons = append(c.Reasons, "withheld: the shares of failed requests differ")
	}
}
