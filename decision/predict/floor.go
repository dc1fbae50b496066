package predict

import (
	"math"

	"github.com/cotenant/cotenant/sharing"
)

// Least is the least work of a model server on each of its GPUs, whatever engine it
// runs. The zero value is of a server of which nothing is known.
type Least struct {
	Weights float64 // bytes of the weights that a decode step reads
	KV      float64 // bytes of one request's KV cache that it reads
	Prompt  float64 // operations of a prompt's prefill: 2 for each parameter and token
	Width   float64 // bytes of a parameter; 0 = 2
	Output  float64 // mean tokens of an answer; 0 = 1
}

// boost is by how much a board's highest clock may lie above the usual one of its architecture: by at most 14% on
// those of [sharing.GPUs] (2.62 GHz of an RTX PRO 6000 over 2.3, NVIDIA's data sheets).
const boost = 1.15

// Floor returns the least seconds that each latency can take on a share of the machine: the bytes over the peak
// bandwidth and the operations over the peak rate at the width of the weights; 0 where one of them is not known.
// This is the roofline model (S. Williams, A. Waterman and D. Patterson, Communications of the ACM 52(4), 2009). A
// step gives every request one token.
func (m Machine) Floor(share Share, l Least) (f [LatencyCount]float64) {
	if bandwidth := m.Bandwidth * share.Bandwidth; bandwidth > 0 {
		f[LatencyTTFT] = l.Weights / bandwidth
		f[LatencyTPOT] = (l.Weights + l.KV) / bandwidth
	}
	if rate := m.rate(l.Width) * boost * share.SMs; rate > 0 {
		f[LatencyTTFT] = max(f[LatencyTTFT], l.Prompt/rate)
	}
	f[LatencyE2E] = f[LatencyTTFT] + max(0, l.Output-1)*f[LatencyTPOT]
	return f
}

// rate is the operations a second on operands of so many bytes: twice as many on
// those of half the width, down to the narrowest that the GPU computes with.
func (m Machine) rate(width float64) float64 {
	return m.FLOPs * 2 / max(orDefault(width, 2), m.Narrowest)
}

// raise lifts latencies to the least that they can be. One that nobody knows misses a
// limit that lies below its floor all the same.
func (o *Prospect) raise(d *Tenant, floor [LatencyCount]float64) {
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

// P99s returns the latencies of a profile in seconds, 0 where not measured.
func (p *SoloProfile) P99s() (out [LatencyCount]float64) {
	for k, v := range [LatencyCount]Optional[float64]{p.TTFT.P99, p.TPOT.P99, p.E2E.P99} {
		ms, _ := positive(v)
		out[k] = ms / 1e3
	}
	return out
}

// Raise lifts every predicted percentile of a latency to its floor, in seconds.
func (p *Prediction) Raise(floor [LatencyCount]float64) {
	for m := range p.All() {
		k := LatencyE2E
		switch m {
		case MetricTPOTP50, MetricTPOTP99:
			k = LatencyTPOT
		case MetricTTFTP50, MetricTTFTP99:
			k = LatencyTTFT
		case MetricTokensPerSecond:
			continue
		}
		i, least := &p.value[m], 1e3*floor[k]
		i.Value, i.Low, i.High = max(i.Value, least), max(i.Low, least), max(i.High, least)
	}
}

// WeightsRead returns the bytes of weights that a decode step of the server reads, by the DRAM traffic of its
// closed loops on a GPU of so much peak bandwidth (bytes a second): the least among its loads of the traffic of a
// cycle over the decode steps and prefills in it. On the 1B, 3B and 8B servers of examples/predict/testdata, of
// 16-bit weights, that is 0.8 to 0.95 of their size. 0 where the traffic was not measured.
func (s *Solo) WeightsRead(bandwidth float64) float64 {
	least := math.Inf(1)
	for _, p := range s.Siblings {
		busy, ok := positive(p.DRAMFraction)
		clients, output := float64(p.Load.Concurrency), float64(p.Load.Output)
		if !ok || clients == 0 || p.Load.Concurrency > p.Server.Slots.Or(usualSlots) {
			continue
		}
		cycle := clients * output / p.TokensPerS.Or(0)
		least = min(least, busy*bandwidth*cycle/(output-1+clients))
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// CarryOver carries the P99 latencies of a profile, in seconds and 0 where not measured, from one GPU to another,
// with the standard deviations of their logarithms, which are 0 on the same GPU. Decoding goes with the inverse of
// the bandwidth and prefills with that of the peak rate at the width of the weights (bytes a parameter), to the
// powers that priors have for slices, since the host's part does not scale. It answers false where the bandwidth or
// the rate of one of them is not known.
func (p *SoloProfile) CarryOver(from, to *sharing.GPU, width float64) (alone, sigma [LatencyCount]float64, ok bool) {
	alone = p.P99s()
	here, there := MachineOf(from), MachineOf(to)
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
	decode, prefill := math.Log(here.Bandwidth/there.Bandwidth), math.Log(here.rate(width)/there.rate(width))
	byDecode, byPrefill := medians[sliceDecoding]*decode, medians[sliceOther]*prefill
	// TPOT holds prefills of others, and E2E both.
	by := [LatencyCount]float64{byPrefill, max(byDecode, min(byPrefill, 0)), max(byDecode, byPrefill)}
	spread := math.Hypot((1-medians[sliceDecoding])*decode, (1-medians[sliceOther])*prefill)
	for k := range alone {
		alone[k] *= math.Exp(by[k])
		sigma[k] = math.Hypot(spread, transferred[sharing.MechanismTimeSlicing][kin])
	}
	return alone, sigma, true
}
