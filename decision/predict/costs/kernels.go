package costs

import (
	"math"

	"github.com/cotenant/cotenant/sharing"
)

// What the steps of vLLM and SGLang are made of where nothing was measured, each read from measurements of single
// GPUs that others published; Sigma is how far apart these lie.
var (
	weightsRead = served("fraction of the peak bandwidth at which a step reads weights", 0.88, 0.08, mlEnergySource)
	// Weights of 4 bits that are widened to 16 before they are multiplied are read slower.
	dequantizedRead = served("fraction of the peak bandwidth at which a step reads 4-bit weights", 0.65, 0.12, qwen25Source)
	contextRead     = served("fraction of the peak bandwidth at which a step reads its KV cache", 0.84, 0.12, silybenchSource)
	layerTime       = served("ms of a step for each layer, whatever the bandwidth", 0.045, 0.3, mlEnergySource)
	layerTimeOlder  = served("ms more of a step for each layer, of vLLM before 0.10", 0.035, 0.4, qwen25Source)
	launchTime      = served("ms of a step with prompts for each layer, where launches bound it", 0.25, 0.4, silybenchSource)
	expertLayerTime = served("ms of a step for each layer that routes to experts, beyond another's", 0.03, 0.5, mlEnergySource)
	stepTime        = served("ms of a step on the host: scheduling, logits, sampling", 0.75, 0.4, mlEnergySource)
	sequenceTime    = served("ms of a step for each sequence in it: its inputs, its token on the way out", 0.05, 0.4,
		mlEnergySource)
	// From 0.14 on vLLM schedules a step while the one before it runs (vllm-project/vllm, pull request 27614), and so does
	// SGLang.
	stepTimeOverlapped     = served("ms of a step on the host beside the step before", 0.2, 0.5, silybenchSource)
	sequenceTimeOverlapped = served("ms of a step for each sequence in it, beside the step before", 0.01, 0.6, silybenchSource)

	requestTimeOverlapped = served("ms of the host for each request, beside a step", 1, 0.6, silybenchSource)

	requestTime = served("ms of the host for each request that begins: its tokenizer, its place in the batch", 6, 0.7,
		gpustackSource)
)

const (
	mlEnergySource  = sharing.SourceID("ml-energy-leaderboard-v3")
	qwen25Source    = sharing.SourceID("qwen25-speed-benchmark")
	silybenchSource = sharing.SourceID("silybench-qwen3-8b-h100")
	gpustackSource  = sharing.SourceID("gpustack-performance-lab")
)

// betweenSources is by how much measurements of one source lie off those of others with the same model on the same
// GPU, as the standard deviation of a logarithm: the means of nine sources in serving/testdata/single.json.
const betweenSources = 0.15

func served(unit string, value, sigma float64, source sharing.SourceID) Prior {
	return Prior{Unit: unit, Median: value, Sigma: sigma, Basis: sharing.BasisPrior, Source: source}
}

// scheduled turns what a step takes of a server with the scheduler of vLLM 0.10 to 0.13 into that of another one.
func (e *Engine) scheduled(engine string, version int) {
	if e.Step.Basis != sharing.BasisPrior {
		return // it was measured
	}
	switch {
	case engine == "sglang":
		e.StepSequence, e.Request = sequenceTimeOverlapped.cost(1), requestTimeOverlapped.cost(1)
	case version >= 14:
		e.Step.Value -= stepTime.Median - stepTimeOverlapped.Median
		e.StepSequence, e.Request = sequenceTimeOverlapped.cost(1), requestTimeOverlapped.cost(1)
	case version < 10:
		e.Step = costSum(e.Step, layerTimeOlder.cost(float64(e.Model.Layers)))
	}
}

// cost is so much of the quantity.
func (p *Prior) cost(much float64) Cost {
	return Cost{Value: much * p.Median, Sigma: p.sigma(), Basis: sharing.BasisPrior, Source: p.Source}
}

// reading is the time to read bytes at the part p of a machine's bandwidth, in ms.
func (p *Prior) reading(bytes float64, on Machine) Cost {
	return Cost{
		Value: 1e3 * bytes / (on.Bandwidth * p.Median), Sigma: p.sigma(), Basis: sharing.BasisPrior, Source: p.Source,
	}
}

// costSum is a cost that is made up of others, which err by themselves.
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
	e.Step = costSum(weights.reading(width*m.ActiveParameters(), on), layerTime.cost(layers), expertLayerTime.cost(routing), stepTime.cost(1))
	e.Step.Sigma = math.Hypot(e.Step.Sigma, betweenSources)
	e.PrefillToken.Sigma = math.Hypot(e.PrefillToken.Sigma, betweenSources)
	e.StepSequence = sequenceTime.cost(1)
	e.StepContext = contextRead.reading(1e3*float64(m.KVPerToken()), on)
	e.StepExperts = weights.reading(width*m.routed(), on)
	e.Prefill = launchTime.cost(layers)
	e.Request = requestTime.cost(1)
}
