package colocation

import (
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/sharing"
)

// Predictor returns the predictor for simulated GPUs with this quantum and
// switch, each loadgentest's default when 0: the H200's models with the
// simulation's own constants. Its engines have no work on the host but for a
// moment, its prefills keep the GPU busy throughout, its MPS costs a lone client
// nothing, and two decodes that ask for 130% of the bandwidth slow each other
// down by as much.
func Predictor(quantum, change time.Duration) predict.Predictor {
	p := predict.NewPredictor()
	p.GPU, p.Driver = SimulatedGPU, ""
	set := func(q *predict.Parameter, v float64) {
		*q = predict.Parameter{Value: v, Unit: q.Unit, Low: 0, High: max(q.High, v), Basis: sharing.BasisSimulated, Source: "the simulation's own constants"}
	}
	ms := func(d, otherwise time.Duration) float64 {
		if d <= 0 {
			d = otherwise
		}
		return float64(d) / float64(time.Millisecond)
	}
	set(&p.Parameters.Quantum, ms(quantum, loadgentest.DefaultQuantum))
	set(&p.Parameters.Switch, ms(change, loadgentest.DefaultSwitch))
	set(&p.Parameters.HostFraction, 0)
	set(&p.Parameters.HostPerToken, 0.01)
	set(&p.Parameters.BatchDoubling, 0.015)
	set(&p.Parameters.PrefillBusy, 1)
	set(&p.Parameters.PrefillCatchUp, 1)
	set(&p.Parameters.SMBlocking, 0.75)
	set(&p.Parameters.QueueShare, 0)
	set(&p.Parameters.Arbitration, 0)
	set(&p.Parameters.LoneStepCost, 0)
	return p
}
