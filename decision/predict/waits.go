package predict

import (
	"math"

	"github.com/cotenant/cotenant/decision/predict/costs"

	"github.com/cotenant/cotenant/decision/predict/internal/batching"
	"github.com/cotenant/cotenant/decision/predict/profile"
)

// A prefill's share of the SMs over that of decode, averaged over its time (one profile cannot tell the two apart,
// several can), the weight of loads with prompts of another length, whose decode takes what this one's does, and
// bounds.
var (
	prefillToDecodeSM, otherPrompts = costs.Value("prefill_to_decode_sm"), costs.Value("other_prompts")
	maxSMShare, usualDecodeSM       = costs.Value("max_sm_share"), costs.Value("usual_decode_sm")
)

// splitSMs finds the shares of the SMs that decode and prefill take, from the
// mean shares at several loads: each is a mixture of the two.
func (t *tenantModel) splitSMs(p *Predictor, base *profile.SoloProfile, s *profile.Solo) {
	u, ok := base.SMFraction.Get()
	if !ok {
		t.decodeSM, t.prefillSM = usualDecodeSM, maxSMShare
		t.note(0.15, "no SM utilisation in the profile")
		return
	}
	alone, err := p.alone(base)
	if err != nil {
		return // t was read from the same profile
	}
	// Drawn to the usual ratio where the loads are too alike.
	const draw = 0.01
	fit := leastSquares{a11: draw * prefillToDecodeSM * prefillToDecodeSM, a12: -draw * prefillToDecodeSM, a22: draw}
	decode, prefill := alone.duty()
	fit.add(decode, prefill, u)
	for _, q := range s.Siblings {
		share, ok := q.SMFraction.Get()
		if !ok || !alike(q, base) {
			continue
		}
		m, err := p.alone(q)
		if err != nil {
			continue
		}
		d, f := m.duty()
		if q.Load.Prompt != base.Load.Prompt { // its prefills are others
			d, f, share = otherPrompts*(d+prefillToDecodeSM*f), 0, otherPrompts*share
		}
		fit.add(d, f, share)
	}
	d, f := fit.solve()
	if d <= 0.02 || f <= 0.02 {
		d = u / (decode + prefillToDecodeSM*prefill)
		f = prefillToDecodeSM * d
	}
	// Where MPS or a cap stretches a step, its SM time is spread thinner.
	most := min(maxSMShare, s.Server.SMPercent.Or(100)/100)
	t.decodeSM = min(d*alone.gpu/t.gpu, most)
	t.prefillSM = min(f*t.prefill/(batching.PrefillOverlap*t.prefillGPU), most) // a Cluster takes it so
}

// takeTurns finds how long a step's kernels wait for those of others under MPS, and others for them.
//
// A kernel of a decode step reads what it needs at KernelBandwidth, and takes a fixed time in which it does not. So
// a step that takes the share u of the bandwidth while it runs reads for u/KernelBandwidth of its time; the rest
// counts its kernels, in fixed times. Kernels of clients take turns: each waits for a part of a neighbour's. So two
// servers hold one another up by what one's step has of kernels and the other's kernel of reading, and several
// neighbours one after another: 74 steps of 1B, 3B and 8B servers beside up to three others on an H100 and an H200
// are missed by 3% on average (examples/predict/testdata/mps-steps.csv).
//
// A tenant with an active thread percentage has part of the SMs to itself: its kernels
// wait less for others', and others less for its the fewer it has.
func (t *tenantModel) takeTurns(p *Predictor, b *profile.SoloProfile, share float64) {
	q := &p.Parameters
	u, ok := bandwidthOf(b)
	if !ok {
		u = t.decodeSM // about as much, on the rows of H100s and H200s
		t.note(0.1, "no memory bandwidth in the profile")
	}
	u *= (t.step - t.added) / t.step // where MPS or a cap stretches a step, it reads more slowly
	reads := min(u/q.KernelBandwidth.Value, mostReading)
	blocking := q.MemoryBlocking.Value
	t.decodeWaits = 1 - reads
	if share < 1 {
		blocking *= cappedBlocking * (cappedAlone + (1-cappedAlone)*share)
		t.decodeWaits = 1 - cappedReading*reads
	}
	t.decodeHolds = q.QueueShare.Value + blocking*reads/(1-reads)
	t.decodeWaits *= max(0, 1+q.BatchWaits.Value*(math.Log2(max(t.batch, 1))-usualDoublings))
	t.prefillHolds, t.prefillWaits = q.PrefillBlocking.Value*t.decodeHolds, q.PrefillWaits.Value*t.decodeWaits
}

var (
	mostReading, usualDoublings = costs.Value("most_reading"), costs.Value("usual_doublings")
	cappedBlocking, cappedAlone = costs.Value("capped_blocking"), costs.Value("capped_alone")
	cappedReading               = costs.Value("capped_reading")
)

// bandwidthOf is the share of the memory bandwidth that the workload takes while it runs, where it is known.
func bandwidthOf(p *profile.SoloProfile) (float64, bool) {
	dram, ok := profile.Positive(p.DRAMFraction)
	return dram / p.GPUBusyFraction.Or(1), ok
}

// leastSquares solves x*a + y*b = v over many (a, b, v) for x and y.
type leastSquares struct{ a11, a12, a22, b1, b2 float64 }

func (l *leastSquares) add(a, b, v float64) {
	l.a11, l.a12, l.a22 = l.a11+a*a, l.a12+a*b, l.a22+b*b
	l.b1, l.b2 = l.b1+a*v, l.b2+b*v
}

func (l *leastSquares) solve() (x, y float64) {
	det := l.a11*l.a22 - l.a12*l.a12
	return (l.b1*l.a22 - l.b2*l.a12) / det, (l.a11*l.b2 - l.a12*l.b1) / det
}
