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

// CarryOver carries the P99 latencies of a profile, in seconds and 0 where not measured, from one GPU to another,
// with the standard deviations of their logarithms, which are 0 on the same GPU. Decoding goes with the inverse of
// the bandwidth and prefills with that of the peak rate at the width of the weights (bytes a parameter), to the
// powers that priors have for slices, since the host's part does not scale. It answers false where the bandwidth or
// the rate of one of them is not known.
func CarryOver(p *profile.SoloProfile, from, to *sharing.GPU, width float64) (alone, sigma [costs.LatencyCount]float64, ok bool) {
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
	byDecode, byPrefill := costs.Medians[costs.SliceDecoding]*decode, costs.Medians[costs.SliceOther]*prefill
	// TPOT holds prefills of others, and E2E both.
	by := [costs.LatencyCount]float64{byPrefill, max(byDecode, min(byPrefill, 0)), max(byDecode, byPrefill)}
	spread := math.Hypot((1-costs.Medians[costs.SliceDecoding])*decode, (1-costs.Medians[costs.SliceOther])*prefill)
	for k := range alone {
		alone[k] *= math.Exp(by[k])
		sigma[k] = math.Hypot(spread, costs.Transferred[sharing.MechanismTimeSlicing][kin])
	}
	return alone, sigma, true
}

// P99s returns the latencies of a profile in seconds, 0 where not measured.
func P99s(p *profile.SoloProfile) (out [costs.LatencyCount]float64) {
	for k, v := range [costs.LatencyCount]profile.Optional[float64]{p.TTFT.P99, p.TPOT.P99, p.E2E.P99} {
		ms, _ := profile.Positive(v)
		out[k] = ms / 1e3
	}
	return out
}
