package costs

import (
	"math"

	"github.com/cotenant/cotenant/sharing"
)

// What the steps of vLLM and SGLang are made of where nothing was measured, each read from measurements of single
// GPUs that others published; Sigma is the distance between these.
var (
	weightsRead, dequantizedRead, contextRead = Named("weights_read"), Named("dequantized_read"), Named("context_read")
	layerTime, expertLayerTime, launchTime    = Named("layer_time"), Named("expert_layer_time"), Named("launch_time")
	stepTime, sequenceTime, requestTime       = Named("step_time"), Named("sequence_time"), Named("request_time")
	stepTimeOverlapped, layerTimeOlder        = Named("step_time_overlapped"), Named("layer_time_older")

	betweenSources = Value("between_sources")
)

// scheduled turns what a step takes of a server with the scheduler of vLLM 0.10 to 0.13 into that of another one.
func (e *Engine) scheduled(engine string, version int) {
	if e.Step.Basis != sharing.BasisPrior {
		return // it was measured
	}
	switch {
	case engine == "sglang":
		e.StepSequence, e.Request = Named("sequence_time_overlapped").Cost(1), Named("request_time_overlapped").Cost(1)
	case version >= 14:
		e.Step.Value -= stepTime.Value - stepTimeOverlapped.Value
		e.StepSequence, e.Request = Named("sequence_time_overlapped").Cost(1), Named("request_time_overlapped").Cost(1)
	case version < 10:
		e.Step = costSum(e.Step, layerTimeOlder.Cost(float64(e.Model.Layers)))
	}
}

// reading returns the time to read bytes at the part p of a machine's bandwidth, in ms.
func (p *Constant) reading(bytes float64, on Machine) Cost {
	return Cost{
		Value: 1e3 * bytes / (on.Bandwidth * p.Value), Sigma: p.sigma(), Basis: sharing.BasisPrior, Source: p.Source,
	}
}

// costSum returns a cost that is made up of others, which err by themselves.
func costSum(first Cost, more ...Cost) Cost {
	variance := math.Pow(first.Value*first.Sigma, 2)
	for _, c := range more {
		first.Value, variance = first.Value+c.Value, variance+math.Pow(c.Value*c.Sigma, 2)
	}
	first.Sigma = math.Sqrt(variance) / max(first.Value, math.SmallestNonzeroFloat64)
	return first
}

// served fills in what a server's steps cost by its model's shape on a machine.
func (e *Engine) served(on Machine) {
	m := e.Model
	layers := float64(m.Layers)
	width := float64(m.Weights()) / m.Parameters // bytes of a parameter
	weights := &weightsRead
	if orBits(m.WeightBits) < 8 && orBits(m.ActivationBits) == 16 {
		weights = &dequantizedRead
	}
	routing := 0.0
	if m.UnusedExperts() > 0 {
		routing = layers
	}
	e.Step = costSum(weights.reading(width*m.ActiveParameters(), on), layerTime.Cost(layers),
		expertLayerTime.Cost(routing), stepTime.Cost(1))
	e.Step.Sigma = math.Hypot(e.Step.Sigma, betweenSources)
	e.PrefillToken.Sigma = math.Hypot(e.PrefillToken.Sigma, betweenSources)
	e.StepSequence = sequenceTime.Cost(1)
	e.StepContext = contextRead.reading(1e3*float64(m.KVPerToken()), on)
	e.StepExperts = weights.reading(width*m.routed(), on)
	e.Prefill = launchTime.Cost(layers)
	e.Request = requestTime.Cost(1)
}
