// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"math"
	"time"
)

const (
	binLength = 2 * time.Second // the finest time that is kept
	minBlock  = 10 * time.Second
	maxBlock  = 5 * time.Minute
	// minRequests is the least of a block: a share of fewer is no evidence.
	minRequests = 8
	// The correlationQuantile of the posterior times correlationFactor is the length of a block. These and
	// dependence were chosen in simulated noise of 10 and 60 s, so that the bound of 1% holds with room.
	correlationQuantile = 0.7
	correlationFactor   = 0.4
	// lengthStep is the factor between the lengths that blocks may have: they are not to change at every snapshot.
	lengthStep = 1.25
	// dependence is left between blocks: given all earlier ones, the expected share of the next one may differ from
	// the limit's by that part of it.
	dependence = 0.24
	// boldness is the part of the capital that is bet on a block: 1 would lose it all to one bad block.
	boldness = 0.95
	// slowFactor times its limit is how slow most requests of a tenant must be to be noticed within a minute.
	slowFactor = 1.3
)

// bin counts the observations of binLength.
type bin struct {
	N     int32
	Least int32 // certainly beyond the limit
	Most  int32 // perhaps beyond it
	Slow  int32 // certainly beyond slowFactor times the limit
	Away  bool  // could not be read, or not believed
}

// stream holds the counts of one objective, and the evidence for and against it.
type stream struct {
	Bins []bin

	share    float64 // of observations that may lie beyond the limit by its quantile
	fast     float64 // logarithm of the detector of slowFactor
	at       int     // bins that fast has taken
	sufficed time.Duration
	slow     blocks
}

// blocks is the evidence of blocks of one length.
type blocks struct {
	length int // bins
	at     int // bins that were taken
	sum    bin // of the block that is not full
	seen   int // bins in it
	n      int // full ones
	kept   float64
	broken float64
}

// in returns the evidence of blocks of at least length bins and minRequests observations: the logarithm of the
// capital of a bet that the objective is kept, which is an e-process while it is not, and of a Shiryaev-Roberts
// detector of blocks in which it is not. Bins that were not seen are left out.
func (s *stream) in(length int) blocks {
	b := &s.slow
	if b.length != length {
		*b = blocks{length: length, broken: math.Inf(-1)}
	}
	m, stake := s.keptBet()
	for ; b.at < len(s.Bins); b.at++ {
		x := &s.Bins[b.at]
		if x.Away {
			continue
		}
		b.sum.add(x)
		if b.seen++; b.seen >= length && b.sum.N >= minRequests {
			n := float64(b.sum.N)
			b.kept += math.Log1p(stake * (m - float64(b.sum.Most)/n))
			b.broken = detect(b.broken, min(s.share*(1+dependence), (1+s.share)/2), float64(b.sum.Least)/n)
			b.n, b.sum, b.seen = b.n+1, bin{}, 0
		}
	}
	return *b
}

func (b *bin) add(o *bin) {
	b.N, b.Least, b.Most, b.Slow = b.N+o.N, b.Least+o.Least, b.Most+o.Most, b.Slow+o.Slow
}

// keptBet returns the expected share that is bet against, and the stake.
func (s *stream) keptBet() (m, stake float64) {
	m = s.share * (1 - dependence)
	return m, boldness / (1 - m)
}

// detect takes a block's share into the logarithm of a Shiryaev-Roberts detector of shares above m.
func detect(logM, m, share float64) float64 {
	return math.Log1p(math.Exp(logM)) + math.Log1p(boldness/m*(share-m))
}

// verySlow returns the logarithm of the detector of tenants with most requests slowFactor times too slow.
func (s *stream) verySlow() float64 {
	if s.at == 0 {
		s.fast = math.Inf(-1)
	}
	for ; s.at < len(s.Bins); s.at++ {
		if b := &s.Bins[s.at]; b.N > 0 && !b.Away {
			s.fast = detect(s.fast, 0.5, float64(b.Slow)/float64(b.N))
		}
	}
	return s.fast
}

// sum adds up the bins that were seen from one on.
func (s *stream) sum(from int) (sum bin) {
	for i := range s.Bins[max(0, from):] {
		if b := &s.Bins[max(0, from)+i]; !b.Away {
			sum.add(b)
		}
	}
	return sum
}

// beyond returns the shares of the observations that lie beyond the limit, certainly and perhaps.
func (b *bin) beyond() (least, most float64) {
	n := float64(max(b.N, 1))
	return float64(b.Least) / n, float64(b.Most) / n
}

// The grid over which the correlation time is estimated: times in seconds, a factor of the square root of two
// apart, and variances of the shared noise as multiples of that of a single bin.
var (
	correlationTimes = []float64{2.5, 3.5, 5, 7.1, 10, 14, 20, 28, 40, 57, 80, 113, 160}
	noiseRatios      = []float64{0.0625, 0.25, 1, 4}
)

// correlation estimates how long the noise lasts that all requests share: a bank of Kalman filters, one for each
// correlation time and ratio, each for a first-order autoregressive process around an unknown mean under white
// noise. Their likelihoods are the posterior under a flat prior over the grid.
type correlation struct {
	filters []filter
	n       int
	varies  bool
	first   float64
}

// filter is one Kalman filter of the state (noise, mean); the mean's prior is diffuse.
type filter struct {
	decay, ratio    float64
	z, mean         float64
	pz, pzm, pm     float64 // covariance of the state, as multiples of the white noise's variance
	squares, logdet float64
}

// diffuse is the prior variance of the mean, as a multiple of the white noise's.
const diffuse = 1e6

func newCorrelation() correlation {
	c := correlation{}
	for _, t := range correlationTimes {
		for _, r := range noiseRatios {
			c.filters = append(c.filters, filter{decay: math.Exp(-binLength.Seconds() / t), ratio: r, pz: r, pm: diffuse})
		}
	}
	return c
}

// add takes the next bin's share of requests beyond the limit, averaged over the tenants.
func (c *correlation) add(y float64) {
	if c.n == 0 {
		c.first = y
	}
	c.n++
	c.varies = c.varies || y != c.first
	for i := range c.filters {
		f := &c.filters[i]
		f.z *= f.decay
		f.pz = f.decay*f.decay*f.pz + f.ratio*(1-f.decay*f.decay)
		f.pzm *= f.decay
		s := f.pz + 2*f.pzm + f.pm + 1
		off := y - f.z - f.mean
		gz, gm := (f.pz+f.pzm)/s, (f.pzm+f.pm)/s
		f.z += gz * off
		f.mean += gm * off
		pz, pzm, pm := f.pz, f.pzm, f.pm
		f.pz, f.pzm, f.pm = pz-gz*(pz+pzm), pzm-gz*(pzm+pm), pm-gm*(pzm+pm)
		if c.n > 1 { // the first reading sets the mean
			f.squares += off * off / s
			f.logdet += math.Log(s)
		}
	}
}

// time returns the quantile q of the posterior of the correlation time; 0 where the shares never vary.
func (c *correlation) time(q float64) time.Duration {
	if !c.varies || c.n < 3 {
		return 0
	}
	n := float64(c.n - 1)
	logs, best := make([]float64, len(c.filters)), math.Inf(-1)
	for i := range c.filters {
		logs[i] = -c.filters[i].logdet/2 - n/2*math.Log(c.filters[i].squares/n)
		best = max(best, logs[i])
	}
	weights, sum := make([]float64, len(correlationTimes)), 0.0
	for i, l := range logs {
		w := math.Exp(l - best)
		weights[i/len(noiseRatios)] += w
		sum += w
	}
	for i, w := range weights {
		if left := q * sum; left <= w || i == len(weights)-1 {
			// Each time of the grid represents the interval to its neighbours, halved in the logarithm.
			return time.Duration(correlationTimes[i] * math.Pow(2, min(1, left/w)/2-0.25) * float64(time.Second))
		}
		q -= w / sum
	}
	return 0
}
