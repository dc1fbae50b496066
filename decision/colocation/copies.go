// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/copies"
	"github.com/cotenant/cotenant/sharing"
)

// copiesRow is the rate of copies in one mode, and its ratio to the rate of one isolated copy under time-slicing.
type copiesRow struct {
	Mode      sharing.Mechanism `json:"mode"`
	Copies    int               `json:"copies"`
	Rate      float64           `json:"rate"` // tokens or steps a second, of all
	Ratio     float64           `json:"ratio"`
	Predicted profile.Interval  `json:"predicted"` // of the ratio, from one isolated copy
}

// copies summarizes the runs of copies, with the predictions from one isolated copy.
func (f *planFlow) copies() (out []copiesRow) {
	if !f.plan.copied {
		return nil
	}
	isolated := f.soloRow(f.plan.Loads[0].Name)
	if isolated == nil {
		return nil
	}
	solo := isolated.Profile()
	server := copies.ServerOf(&solo)
	for i := range f.runs {
		r := &f.runs[i]
		row := copiesRow{Mode: r.mode, Copies: len(r.loads)}
		if r.solo() && (r.mode == sharing.MechanismTimeSlicing || r.rows[0].Case != "solo-"+r.loads[0]) {
			continue
		}
		for k := range r.rows {
			row.Rate += r.rows[k].TokensPerS.Or(r.rows[k].StepsPerS.Or(0))
		}
		row.Ratio = row.Rate / server.Rate
		setting := copies.Setting{Mechanism: r.mode, Copies: row.Copies}
		if f.plan.Loads[0].Rate > 0 {
			setting.Load = copies.LoadOpen
		}
		if e, err := copies.Predict(server, setting); err == nil {
			row.Predicted = e.Ratio
		}
		out = append(out, row)
	}
	return out
}
