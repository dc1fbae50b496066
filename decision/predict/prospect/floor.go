package prospect

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// raise lifts latencies to the least that they can be. One that nobody knows misses a
// limit that lies below its floor all the same.
func (o *Prospect) raise(d *Tenant, floor [costs.LatencyCount]float64) {
	o.Floor = floor
	for k, least := range floor {
		if !o.Known[k] && d.Limits[k] > 0 && d.Limits[k] < least {
			o.Known[k] = true
		}
		if o.Known[k] {
			b := &o.P99[k]
			b.Value, b.Low, b.High = max(b.Value, least), max(b.Low, least), max(b.High, least)
		}
	}
}

// CarryOver carries the P99 latencies of a profile, in seconds and 0 where not measured, from one GPU to another, with
// the standard deviations of their logarithms, which are 0 on the same GPU. Decoding goes with the inverse of the
// bandwidth and prefills with that of the peak rate at the width of the weights (bytes a parameter), to powers below 1,
// since the host's part does not scale. It answers false where the bandwidth or the rate of one of them is not known.
func CarryOver(p *profile.SoloProfile, from, to *sharing.GPU, width float64) (alone,
	sigma [costs.LatencyCount]float64, ok bool) {
	alone = P99s(p)
	here, there := costs.MachineOf(from), costs.MachineOf(to)
	if from == to {
		return alone, sigma, true
	}
	if min(here.Bandwidth, there.Bandwidth, here.FLOPs, there.FLOPs) <= 0 {
		return alone, sigma, false
	}
	kin := 1
	if from.Architecture == to.Architecture {
		kin = 0
	}
	decode, prefill := math.Log(here.Bandwidth/there.Bandwidth), math.Log(here.Rate(width)/there.Rate(width))
	byDecode, byPrefill := costs.Medians[costs.SliceDecoding]*decode, carriedPrefill*prefill
	// TPOT holds prefills of others, and E2E both.
	by := [costs.LatencyCount]float64{byPrefill, max(byDecode, min(byPrefill, 0)), max(byDecode, byPrefill)}
	spread := math.Hypot((1-costs.Medians[costs.SliceDecoding])*decode, (1-carriedPrefill)*prefill)
	for k := range alone {
		alone[k] *= math.Exp(by[k])
		sigma[k] = math.Hypot(spread, costs.Transferred[sharing.MechanismTimeSlicing][kin])
	}
	return alone, sigma, true
}

var carriedPrefill = costs.Table.Unmeasured.CarriedPrefill.Value

// P99s returns the latencies of a profile in seconds, 0 where not measured.
func P99s(p *profile.SoloProfile) (out [costs.LatencyCount]float64) {
	for k, v := range [costs.LatencyCount]profile.Optional[float64]{p.TTFT.P99, p.TPOT.P99, p.E2E.P99} {
		ms, _ := profile.Positive(v)
		out[k] = ms / 1e3
	}
	return out
}

// The factor of others' prefills, and of the host's work for each sequence, on the P99 time per output token, and the
// part of the time beside reading that a better server needs: those with CUDA graphs launch less.
var tokenAside, leastBeside = costs.Table.Unmeasured.TokenAside.Value, costs.Table.Unmeasured.LeastBeside.Value

// TokenAlone is the P99 time per output token, in seconds, of a model server alone on gpus whole GPUs, of which
// nothing but its size is known: 90% of servers should lie between the bounds. The faster one is a step of a lone
// sequence, which reads the weights, least bytes, at the GPU's peak; the slower one reads most bytes, the whole KV
// cache with them, while other requests are prefilled. Zero where the GPU's bandwidth is not known.
func TokenAlone(m costs.Machine, least, most, layers float64, gpus int) Bounds {
	if m.Bandwidth <= 0 {
		return Bounds{}
	}
	peak, perLayer := m.Bandwidth*float64(gpus), costs.Priors[costs.StepPerLayer]
	b := Bounds{Low: least/peak + layers*leastBeside*perLayer.Value/1e3,
		High: tokenAside * (max(least, most)/(peak*costs.Priors[costs.DecodeEfficiency].Shifted(boundsZ)) +
			layers*perLayer.Shifted(boundsZ)/1e3)}
	b.Value = math.Sqrt(b.Low * b.High)
	return b
}

// boundsZ is the number of standard deviations above the median beyond which 5% lie.
const boundsZ = 1.645

// Sigma is the standard deviation of the logarithm of a figure of which 90% lie
// between the bounds, for [Tenant.AloneSigma].
func (b Bounds) Sigma() float64 {
	if b.Low <= 0 {
		return 0
	}
	return math.Log(b.High/b.Low) / (2 * boundsZ)
}
