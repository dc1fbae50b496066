package predict

// prefillToDecodeSM is how many times decode's share of the SMs a prefill has,
// averaged over its time: 1.2 to 1.7 on the H200 rows. One profile cannot tell
// the two apart, several can.
const prefillToDecodeSM = 1.4

// otherPrompts weighs loads of the server with prompts of another length, whose
// decode takes what this one's does. On the rows of examples/predict/testdata 0.3
// to 0.5 do alike; with nothing, MPS is missed by 3.4% instead of 3.3.
const otherPrompts = 0.3

// maxSMShare bounds the share of the SMs that a prefill's kernels hold while
// they run: the smaller ones among them do not fill the GPU.
const maxSMShare = 0.6

// splitSMs finds the shares of the SMs that decode and prefill take, from the
// mean shares at several loads: each is a mixture of the two.
func (t *tenantModel) splitSMs(p *Predictor, base *SoloProfile, s *Solo) {
	u, ok := base.SMFraction.Get()
	if !ok {
		// The rows of 1B and 8B servers lie between 0.2 and 0.5.
		t.decodeSM, t.prefillSM, t.held = 0.3, 0.6, 0.3
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
		if !ok || !q.like(base) {
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
	t.prefillSM = min(f*t.prefill/t.prefillGPU, most)
	t.held = t.decodeSM
	if busy, ok := base.bandwidth(); ok {
		w := heldWhole
		if s.Server.SMPercent.Or(100) < 100 {
			w = heldCapped
		}
		t.held = min(w.sm*t.decodeSM+w.bandwidth*min(busy, mostBandwidth), maxSMShare)
	}
}

// held is what a decode step holds up others by: shares of the SMs that it has and
// of the memory bandwidth that it takes while it runs.
type held struct{ sm, bandwidth float64 }

// Kernels wait for SMs and for the memory: by SMs alone, neighbours on an H100 are
// predicted too fast and those on an H200, whose memory is faster, too slow. Tenants
// with active thread percentages have SMs to themselves and share the memory alone;
// fewer SMs read hardly less. The weights were chosen on the rows of
// examples/predict/testdata up to h100-mixes-4, under which each GPU's are predicted
// better than by the SMs alone.
var heldWhole, heldCapped = held{0.5, 0.55}, held{0.25, 0.7}

// mostBandwidth bounds the share of the memory bandwidth that counts: no server in the
// rows took more.
const mostBandwidth = 0.5

// bandwidth is the share of the memory bandwidth that the workload takes while it
// runs, where it is known.
func (p *SoloProfile) bandwidth() (float64, bool) {
	dram, ok := positive(p.DRAMFraction)
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
