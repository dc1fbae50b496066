package loadgentest

import "time"

// Activity counts the use of a simulated GPU since its start. SMUse and BandwidthUse are the time in use weighted
// by the fraction in use, so that SMUse over Elapsed is the mean utilisation of the SMs.
type Activity struct {
	Elapsed             time.Duration // since NewGPU
	Busy                time.Duration // in which a kernel ran
	SMUse, BandwidthUse time.Duration
}

// Activity returns the GPU's activity up to now. Differences of two are the activity between them.
func (g *GPU) Activity() Activity {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.core.advance(time.Since(g.start).Seconds())
	d := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	c := g.core
	return Activity{Elapsed: d(c.now), Busy: d(c.busy), SMUse: d(c.smUse), BandwidthUse: d(c.bwUse)}
}
