package canary

import (
	"math"
	"time"
)

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
			// Each time of the grid stands for the interval to its neighbours, halved in the logarithm.
			return time.Duration(correlationTimes[i] * math.Pow(2, min(1, left/w)/2-0.25) * float64(time.Second))
		}
		q -= w / sum
	}
	return 0
}
