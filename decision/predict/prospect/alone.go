package prospect

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/costs"
)

const (
	// tokenAside is by how much others' prefills, and the host's work for each sequence, lengthen the P99 time per
	// output token over that of a step that reads all it may: of eighteen servers measured alone in
	// examples/predict/testdata, with up to sixteen sequences at once, sixteen stayed below.
	tokenAside = 1.5
	// leastBeside is what part of the time beside reading a better server may need: those with CUDA graphs launch less.
	leastBeside = 0.5
)

// TokenAlone is the P99 time per output token, in seconds, of a model server alone on gpus whole GPUs, of which
// nothing but its size is known: 90% of servers should lie between the bounds. The faster one is a step of a lone
// sequence, which reads the weights, least bytes, at the GPU's peak; the slower one reads most bytes, the whole KV
// cache with them, while other requests are prefilled. Zero where the GPU's bandwidth is not known.
func TokenAlone(m costs.Machine, least, most, layers float64, gpus int) Bounds {
	if m.Bandwidth <= 0 {
		return Bounds{}
	}
	peak, perLayer := m.Bandwidth*float64(gpus), costs.Priors[costs.StepPerLayer]
	b := Bounds{Low: least/peak + layers*leastBeside*perLayer.Median/1e3,
		High: tokenAside * (max(least, most)/(peak*costs.Priors[costs.DecodeEfficiency].Shifted(boundsZ)) + layers*perLayer.Shifted(boundsZ)/1e3)}
	b.Value = math.Sqrt(b.Low * b.High)
	return b
}

// boundsZ is how many standard deviations from the median 5% lie beyond.
const boundsZ = 1.645

// Sigma is the standard deviation of the logarithm of a figure of which 90% lie
// between the bounds, for [Tenant.AloneSigma].
func (b Bounds) Sigma() float64 {
	if b.Low <= 0 {
		return 0
	}
	return math.Log(b.High/b.Low) / (2 * boundsZ)
}
