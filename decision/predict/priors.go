// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/splitmix"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// formErrors are standard deviations of the logarithm by which closed forms miss event simulations: of a request's own
// work, and of its waits for other requests, which vary more (tools/research/judge/REPORT-2026-11.md). The first row is
// for model servers, the second for servers with a known isolated latency.
var formErrors = [2][LatencyCount]struct{ own, waits float64 }{
	{{0.16, 0.4}, {0.1, 0.65}, {0.18, 0}},
	{{0.05, 0.25}, {0.3, 0}, {0.05, 0.25}},
}

// formError is the logarithm by which a closed form may miss a latency of a tenant, z standard deviations away.
func (f *expected) formError(d *Tenant, k int, z float64) float64 {
	e := &formErrors[0][k]
	if d.Serving == nil {
		e = &formErrors[1][k]
	}
	long, waits := f.long[k], f.waits[k]
	return math.Hypot(z*e.own, math.Log1p(math.Hypot(long, waits*math.Exp(z*e.waits))-math.Hypot(long, waits)))
}

// setting is a value for each quantity, with figures that all tenants share there.
type setting struct {
	costs.Setting
	lengths lengths // of requests of servers that do not state how theirs vary
	// Squared coefficient of variation of the gaps between requests, its logarithm and inverse, and the mean number that
	// comes in a time in which a fifth of the requests meet another behind them.
	gaps, logGaps, perGaps, fifth float64
}

func settingOf(s costs.Setting) *setting {
	gaps := s[costs.Burstiness] * s[costs.Burstiness]
	return &setting{s, lengthsAt(costs.Medians[costs.LengthSigma], &s), gaps, math.Log(gaps), 1 / gaps,
		min(0.2/gaps, gaps*math.Pow(0.2, gaps))}
}

func (s *setting) lengthsOf(v *Serving) lengths {
	if v == nil || v.LengthSigma == 0 {
		return s.lengths
	}
	return lengthsAt(v.LengthSigma, &s.Setting)
}

var medians = settingOf(costs.Medians)

// moves are the settings with one quantity on the good and on the bad side of its median: by one standard deviation or,
// where queues and room on a slice answer more than in proportion, by those of the confidence. In the last, together,
// lengths and gaps of requests move at once, since their effects on the time per output token do not add in squares
// (the design point of A. M. Hasofer and N. C. Lind, Journal of the Engineering Mechanics Division 100, 1974).
type moves struct {
	confidence, z float64
	to            [together + 1][2]*setting
}

var movesKept [64]atomic.Pointer[moves] // half a megabyte; without a lock that all cores would wait for

func movesAt(confidence float64) *moves {
	slot := &movesKept[math.Float64bits(confidence)*splitmix.Gamma>>58] // Fibonacci hashing
	if m := slot.Load(); m != nil && m.confidence == confidence {
		return m
	}
	m := &moves{confidence: confidence, z: stats.NormalQuantile(confidence)}
	for side, far := range [2]float64{-1, 1} {
		both := costs.Medians
		for q, c := range costs.Priors {
			s := costs.Medians
			if s[q] = c.Shifted(far); c.PerTenant {
				s[q] = c.Shifted(far * m.z)
			}
			if m.to[q][side] = settingOf(s); uneven(q) {
				both[q] = c.Shifted(far * m.z / math.Sqrt2)
			}
		}
		m.to[together][side] = settingOf(both)
	}
	slot.Store(m)
	return m
}

// fromPriors estimates each of the tenants of one GPU or slice, at a one-sided confidence (0.5 to 0.999). Quantities
// without measurements are moved to both sides one after another, and their effects on a figure are added in squares.
func fromPriors(m Machine, share Share, tenants []Tenant, confidence float64) []Estimate {
	out := make([]Estimate, len(tenants))
	to := movesAt(confidence)
	e := evaluation{machine: m, share: share, tenants: tenants, cohorts: make([]cohort, 0, 4)} // mostly on the stack
	for i := range tenants {
		d := &tenants[i]
		n := len(e.cohorts)
		e.stated = e.stated || d.Serving == nil
		if i > 0 && sameTenant(d, &tenants[i-1]) {
			e.cohorts[n-1].alike++
			continue
		}
		first := !slices.ContainsFunc(tenants[:i], func(o Tenant) bool { return o.Workload == d.Workload })
		e.cohorts = append(e.cohorts, cohort{d: d, alike: 1, first: first, in: medians, out: &out[i],
			lengths: medians.lengthsOf(d.Serving)})
		e.prepare(d, &e.cohorts[n].start, medians)
		e.cohorts[n].state = e.cohorts[n].start
	}
	e.converge()
	for i := range e.cohorts {
		t := &e.cohorts[i]
		t.usual = t.state
		e.read(t, true, true, &t.base)
		slower := 0.0
		if t.d.Serving != nil {
			slower = t.d.Serving.Slower
		}
		for k := range LatencyCount {
			t.out.P99[k] = profile.Interval{Value: t.base.p99[k]}
			if len(tenants) > 1 || share.SMs < 1 || t.d.Serving != nil { // else it was measured just so
				far := t.base.formError(t.d, k, to.z)
				t.out.P99[k].Low = far * far
				t.out.P99[k].High = far*far + to.z*slower*to.z*slower
			}
		}
		t.out.Rate, t.out.Busy = profile.Interval{Value: t.base.rate}, profile.Interval{Value: t.base.busy}
	}
	for q := range to.to {
		if !e.matters(q) {
			continue
		}
		one := q == together || costs.Priors[q].PerTenant
		for side := range to.to[q] {
			for i := range e.cohorts {
				if one && e.cohorts[i].first {
					e.at(q, to.to[q][side], e.cohorts[i].d.Workload, 1)
				} else if !one && i == 0 {
					e.at(q, to.to[q][side], everybody, to.z)
				}
			}
		}
	}
	for i := range e.cohorts {
		t := &e.cohorts[i]
		unmeasured := e.unmeasured(t)
		isolated := t.isolated(unmeasured)
		for k := range LatencyCount {
			b := &t.out.P99[k]
			closeBounds(b)
			if isolated := t.d.Isolated[k]; isolated > 0 && t.base.p99[k] > 0 { // neighbours make nothing faster
				sigma := cmp.Or(t.d.IsolatedSigma[k], costs.Priors[costs.IsolatedError].Sigma)
				b.Low = max(b.Low, isolated*math.Exp(-to.z*sigma))
			}
			b.High = max(b.High, isolated[k]*(1+(nextToUnmeasured-1)*unmeasured))
		}
		closeBounds(&t.out.Rate)
		closeBounds(&t.out.Busy)
		t.out.raise(t.d, m.Floor(share, t.d.Least))
	}
	for i := 1; i < len(out); i++ {
		if sameTenant(&tenants[i], &tenants[i-1]) {
			out[i] = out[i-1]
		}
	}
	return out
}

// matters reports whether a quantity can move figures of such tenants on such a share.
func (e *evaluation) matters(q int) bool {
	switch q {
	case costs.BusyError, costs.IsolatedError:
		return e.stated
	case costs.SMDecoding, costs.SMOther, costs.MPSBlocking, costs.MPSStepPerLayer:
		return e.share.Mechanism == sharing.MechanismMPS && (q != costs.SMOther || e.stated)
	case costs.TurnsOverhead:
		return e.share.Mechanism == sharing.MechanismTimeSlicing
	case costs.SliceDecoding:
		return e.share.Bandwidth != 1
	case costs.SliceOther:
		return e.share.SMs != 1
	}
	return true
}

// sameTenant reports whether two tenants are equal, the loads that they refer to included.
func sameTenant(a, b *Tenant) bool {
	c := *a
	if c.Serving != nil && b.Serving != nil && *c.Serving == *b.Serving {
		c.Serving = b.Serving
	}
	return c == *b
}

// nextToUnmeasured is the largest growth factor of a P99 co-located with one tenant that is always busy with unmeasured
// kernels: 3.1, 2.95, 4.0 and 2.45 times the isolated one with trainings and saturating kernels on an H200
// (cotenant-h200-tenants).
const nextToUnmeasured = 4

// isolated are a tenant's P99 latencies without neighbours, where some are unmeasured.
func (t *cohort) isolated(unmeasured float64) [LatencyCount]float64 {
	var f expected
	if unmeasured == 0 {
		return f.p99
	} else if t.d.Serving == nil {
		return t.d.Isolated
	}
	lone := t.start
	lone.converge(t.d, 1)
	lone.serving(t.d.Serving, 1, medians, &t.lengths, true, true, &f)
	return f.p99
}

// unmeasured is the part of the time in which a server's neighbours run unknown kernels: all but those of language
// models and of services with known requests.
func (e *evaluation) unmeasured(of *cohort) (part float64) {
	if e.isolated() {
		return 0
	}
	for i := range e.cohorts {
		t := &e.cohorts[i]
		n := t.alike
		if t == of {
			n--
		}
		if t.d.Serving == nil && !t.d.Decodes && !t.d.Requests {
			part += n * t.d.Busy
		}
	}
	return min(1, part)
}

// widen adds the square of a change's logarithm on the side on which it lies.
func widen(b *profile.Interval, base, moved, times float64) {
	if base <= 0 || moved <= 0 || base == moved || math.IsInf(base, 1) {
		return
	}
	d := times * logRatio(moved, base)
	if d > 0 {
		b.High += d * d
	} else {
		b.Low += d * d
	}
}

// logRatio is the logarithm of a over b, which are positive; near one another by a series, which is faster.
func logRatio(a, b float64) float64 {
	s := (a - b) / (a + b)
	if q := s * s; q < 0.0025 {
		return s * (2 + q*(2./3+q*(2./5+q*(2./7))))
	}
	return math.Log(a / b)
}

// exp is math.Exp to 13 digits in half of the time: a power of two times one of 64 roots of two and a series.
func exp(x float64) float64 {
	const whole = 3 << 51 // added, it rounds to a whole number, in the last bits
	sum := x*(roots/math.Ln2) + whole
	if math.Abs(x) > 100 {
		return math.Exp(x)
	}
	n, d := math.Float64bits(sum), x-(sum-whole)*(math.Ln2/roots)
	return math.Float64frombits(rootOf[n%roots]+n/roots<<52) * (1 + d*(1+d*(1./2+d*(1./6+d*(1./24)))))
}

const roots = 64

var rootOf = func() (bits [roots]uint64) {
	for i := range bits {
		bits[i] = math.Float64bits(math.Exp2(float64(i) / roots))
	}
	return bits
}()

// closeBounds turns sums of squares into bounds.
func closeBounds(b *profile.Interval) {
	b.Low, b.High = b.Value*math.Exp(-math.Sqrt(b.Low)), b.Value*math.Exp(math.Sqrt(b.High))
	if math.IsInf(b.Value, 1) {
		b.Low = b.Value
	}
}

// FromRequests returns the tenant of a service without tokens with perS requests a second, each of which takes host
// seconds on the host and gpu seconds on the GPU. It collects up to most requests in a batch for wait seconds, and the
// host's part of a batch overlaps the GPU's part of the previous one; without batches (most = 0) the two parts
// alternate. sigma is the uncertainty of the times, as the standard deviation of their logarithm.
func FromRequests(perS, host, gpu float64, most int, wait, sigma float64) Tenant {
	each, batch := host+gpu, 1.0
	if most > 0 {
		each, batch = max(host, gpu), min(float64(most), 1+perS*wait)
	}
	d := Tenant{From: sharing.BasisPrior, Busy: perS * each, Host: 1 - gpu/each, Online: true, Requests: true}
	d.IsolatedSigma[LatencyE2E] = sigma
	// Infinite where it cannot keep up.
	if d.Isolated[LatencyE2E] = math.Inf(1); d.Busy < 1 {
		d.Isolated[LatencyE2E] = (wait + host + batch*gpu) * tailOf(d.Busy, medians.gaps)
	}
	return d
}
