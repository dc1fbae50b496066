package placement

import (
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// Forecast is what one tenant of a GPU is predicted to see once an offer is
// reserved.
type Forecast struct {
	Request   *Request
	GPU       int // index on the node
	Mechanism sharing.Mechanism
	// Prediction holds the slowdown and the latencies with their intervals; nil
	// when they are not known. It is read-only.
	Prediction *predict.Prediction
	// Objective says whether the request's objectives are kept: pass, reject,
	// unknown, with the reason. It is a pass where there are none.
	Objective gate.Reason
}

// String says it: "chat: 1.31x (1.22 to 1.40) slower under mps".
func (f Forecast) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on GPU %d: ", f.Request.Name, f.GPU)
	if known(f.Prediction) {
		x := f.Prediction.Slowdown
		fmt.Fprintf(&b, "%.2fx (%.2f to %.2f) slower under %v, %v", x.Value, x.Low, x.High, f.Mechanism, f.Prediction.Basis)
	} else {
		fmt.Fprintf(&b, "slowdown under %v not known", f.Mechanism)
	}
	switch {
	case !f.Request.objective():
	case f.Objective.Verdict == gate.VerdictPass:
		b.WriteString("; objectives kept")
	default:
		fmt.Fprintf(&b, "; %v: %v", f.Objective.Verdict, f.Objective)
	}
	return b.String()
}

// Forecast explains an offer: what r and each of its neighbours are predicted
// to see, by GPU, neighbours first, oldest first. It is empty where r would
// have no neighbours, or the mechanism keeps them apart. p may be nil: nothing
// is known then. c must be an offer for r on s.
func (s *Snapshot) Forecast(c Offer, r *Request, p Forecaster) []Forecast {
	if c.Node < 0 || c.Node >= s.len {
		return nil
	}
	n := s.node(c.Node)
	var out []Forecast
	for _, gpu := range c.GPUs() {
		if gpu >= n.view.Len {
			return nil
		}
		var t take
		n.fit(gpu, r, nil, &t, &gate.Reason{})
		if n.view.GPUs[gpu].Tenants == 0 || !gate.TraitsOf(t.mechanism).Trusting {
			continue
		}
		j := judge{p: p}
		if p == nil {
			j.p = nothing{}
		}
		j.ask(n, gpu, r, t.mechanism)
		for i, prediction := range j.after {
			q := r
			if i < len(j.on) {
				q = j.on[i].Request
			}
			out = append(out, Forecast{Request: q, GPU: gpu, Mechanism: t.mechanism, Prediction: prediction, Objective: q.judge(prediction)})
		}
	}
	return out
}

// nothing is a forecaster that knows nothing.
type nothing struct{}

func (nothing) Predict(out []*predict.Prediction, _ string, _ sharing.Mechanism, group []string) []*predict.Prediction {
	return append(out, make([]*predict.Prediction, len(group))...)
}
