package decision

import (
	"fmt"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/prospect"
	"github.com/cotenant/cotenant/sharing"
)

// bySize fills in the TPOT P99 alone by what the workload's model reads for a token, and says whether that is
// known. Of what memory alone is stated, that may be little of it: then it tells only where even all of it is read
// in less than what would be assumed otherwise.
func (o *outlook) bySize(w *Workload, m costs.Machine) bool {
	least, most, layers := w.reads()
	b := prospect.TokenAlone(m, least, most, layers, w.gpus())
	if b.Value == 0 || w.Model == nil && b.High > assumedAlone*o.demand.Limits[costs.LatencyTPOT] {
		return false
	}
	o.tokens = b
	o.demand.Alone[costs.LatencyTPOT], o.demand.AloneSigma[costs.LatencyTPOT] = b.Value, b.Sigma()
	of := fmt.Sprintf("%.3g GB of weights", least/1e9)
	if w.Model == nil {
		of = fmt.Sprintf("up to %.3g GB to read", most/1e9)
	}
	o.size = fmt.Sprintf("%s to %s ms, from %s and %.3g TB/s", about(1e3*b.Low), about(1e3*b.High), of,
		float64(w.gpus())*m.Bandwidth/1e12)
	o.assumes = append(o.assumes, Assumption{What: fmt.Sprintf("TPOT P99 of %s alone is %s", w.Name, o.size),
		Why: "solo is not stated, and the load does not tell", Basis: sharing.BasisPrior})
	return true
}
