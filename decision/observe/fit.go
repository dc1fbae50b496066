// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/serving"
)

const (
	// modelError is the error of the law of steps for the means of a window without sampling noise, as the standard
	// deviation of their logarithm.
	modelError = 0.0125
	// leastSpread is the ratio of the largest to the smallest mean batch, or prompt, of the windows from which on
	// they give a slope.
	leastSpread = 1.5
	mostFits    = 20  // rounds in which steps and prefills converge
	ofRange     = 0.1 // of the windows lie below the low, and above the high end that leastSpread compares
)

// fitting is a fit under way, in ms.
type fitting struct{ profile.ServingFit }

// fitOf fits a decode step s0 + s1*n and the time c0 + c1*p that a prefill adds to windows by weighted least squares.
//
// A token comes a step after the one before it, and later by the prefills in between: by Little's law and since
// arrivals see time averages, the mean gap between tokens m, in which a share f of the time goes to prefills, is
// m*(1-f) = s0 + s1*n with the mean batch n that tokens see. The mean time from a request's start to its first token
// is that of its prefill, with the step of the others where an engine computes both in one.
func fitOf(windows []window) *fitting {
	f := &fitting{}
	f.Windows = len(windows)
	d := dispersion(windows)
	batch, prompt := converge(windows, d)
	f.take(&batch, &f.Step, &f.StepSequence, &f.StepAt, &f.Batch, "the windows' batches are too alike to show how a "+
		"decode step grows with the batch: one load only")
	f.take(&prompt, &f.Prefill, &f.PrefillToken, &f.PrefillAt, &f.Prompt, "the windows' prompts are too alike to show "+
		"a prefill's fixed part from that of each token")
	f.Prompt *= 1e3
	if slices.ContainsFunc(windows, func(w window) bool { return w.Drafted.Or(0) > 0 }) {
		f.Unknown = append(f.Unknown, "what a step takes: with speculation the times are for each token given")
	}
	if prompt.n == 0 {
		f.Unknown = append(f.Unknown, "prefills: the pages do not report when requests began and got their first token")
	} else if windows[0].Queue == nil && windows[0].PromptSeconds.IsZero() {
		f.Unknown = append(f.Unknown, "how long requests queue: the time to the first token was taken for a prefill")
	}
	most := 0.0
	waited := false
	for i := range windows {
		w := &windows[i]
		most = max(most, w.running[0], w.running[1])
		waited = waited || w.Waiting.Or(0) > 0
	}
	if waited && most >= 1 {
		f.Slots = sharing.Some(int(most))
	} else {
		f.Unknown = append(f.Unknown, "the server's slots and what saturates it: nothing waited on any page")
	}
	return f
}

// converge fits steps against batches and prefills against prompts (in thousands of tokens) until they agree.
func converge(windows []window, d float64) (batch, prompt line) {
	for range mostFits {
		step, prefill := batch, prompt
		batch, prompt = line{}, line{}
		for i := range windows {
			w := &windows[i]
			seen, own, together := w.shared(&step, &prefill, d)
			extra := max((1e3*w.first-own)/(1+together), 0)
			if w.first > 0 && w.requests > 0 && w.prompt >= 1 {
				prompt.add(w.prompt/1e3, extra, w.requests)
			}
			if prefill.n > 0 {
				extra = max(prefill.at(w.prompt/1e3), 0)
			}
			batch.add(seen, 1e3*w.gap*(1-w.share(extra)), w.seconds*w.batch)
		}
		batch.solve()
		prompt.solve()
	}
	return batch, prompt
}

// shared returns the mean batch that a window's tokens see, the step in ms in which a prompt is computed (0 where
// prompts are computed by themselves), and the number of other requests that begin in that step.
func (w *window) shared(step, prefill *line, d float64) (seen, own, together float64) {
	seen = max(1, w.batch+d)
	if w.stepped {
		own = step.at(max(1, w.batch))
	}
	return seen, own, w.together(step.at(seen), own, prefill.at(w.prompt/1e3))
}

// share is the part of a window's time that goes to prefills of so many ms.
func (w *window) share(prefill float64) float64 { return min(0.9, w.requests*prefill/1e3/w.seconds) }

// together is the number of other requests that begin in the same step as one: those that come while the GPU is at
// one thing, which arrivals meet by its part of the time. Steps and prefills in ms.
func (w *window) together(step, own, prefill float64) float64 {
	rate := w.requests / w.seconds / 1e3
	busy := min(0.9, rate*max(prefill, 0))
	met := (1-busy)*-math.Expm1(-w.batch)*step + busy*(max(prefill, 0)+own)
	return rate * met
}

// take reads a line's parameters with their intervals.
func (f *fitting) take(l *line, fixed, slope, at *profile.Interval, mean *float64, alike string) {
	if l.n == 0 {
		return
	}
	*mean = l.x
	// The 95% quantile of Student's t with the regression's degrees of freedom.
	z := distuv.StudentsT{Sigma: 1, Nu: math.Max(1, float64(l.n-2))}.Quantile(0.95)
	interval := func(v, sd float64) profile.Interval {
		return profile.Interval{Value: max(v, 0), Low: max(0, v-z*sd), High: max(v, 0) + z*sd}
	}
	*at = interval(l.y, l.meanError())
	if !l.known {
		f.Unknown = append(f.Unknown, alike)
		// All of it may be fixed, or all but nothing.
		*fixed = profile.Interval{Value: at.Value, Low: 0, High: at.High}
		*slope = profile.Interval{Value: 0, Low: 0, High: at.High / max(l.x, 1e-3)}
		return
	}
	*fixed = interval(l.fixed, math.Hypot(l.meanError(), l.x*l.slopeError()))
	*slope = interval(l.slope, l.slopeError())
}

// dispersion is the variance of the number of requests that decode over its mean, as the pages' gauges show it: 1 of
// requests that come at random, 0 of clients that each wait for their answer.
func dispersion(windows []window) float64 {
	sum, mean, n := 0.0, 0.0, 0
	for i := range windows {
		for _, r := range windows[i].running {
			sum, mean, n = sum+math.Pow(r-windows[i].batch, 2), mean+windows[i].batch, n+1
		}
	}
	const few = 16
	if n < few || mean <= 0 {
		return 1
	}
	return min(1, sum/mean)
}

// line is a weighted regression of y over x.
type line struct {
	xs, ys, ws       []float64
	n                int
	x, y, variance   float64 // weighted; of x
	fixed, slope, sd float64 // sd: of a point of mean weight
	known            bool    // the slope
}

func (l *line) add(x, y, weight float64) {
	if weight > 0 {
		l.xs, l.ys, l.ws, l.n = append(l.xs, x), append(l.ys, y), append(l.ws, weight), l.n+1
	}
}

func (l *line) at(x float64) float64 { return l.fixed + l.slope*x }

func (l *line) solve() {
	if l.n == 0 {
		return
	}
	l.x, l.y = stat.Mean(l.xs, l.ws), stat.Mean(l.ys, l.ws)
	l.variance = stat.MomentAbout(2, l.xs, l.x, l.ws)
	sorted := slices.Sorted(slices.Values(l.xs))
	low, high := sorted[int(ofRange*float64(l.n-1))], sorted[int(math.Ceil((1-ofRange)*float64(l.n-1)))]
	l.known = l.n >= 3 && l.variance > 0 && high >= leastSpread*low
	l.fixed = l.y
	if l.known {
		switch l.fixed, l.slope = stat.LinearRegression(l.xs, l.ys, l.ws, false); {
		case l.slope < 0:
			l.fixed, l.slope = l.y, 0
		case l.fixed < 0:
			l.fixed, l.slope = 0, l.y/l.x
		}
	}
	rss := 0.0
	for i, w := range l.ws {
		rss += w * math.Pow(l.ys[i]-l.at(l.xs[i]), 2)
	}
	l.sd = math.Sqrt(rss / stat.Mean(l.ws, nil) / math.Max(1, float64(l.n-2)))
}

func (l *line) meanError() float64 {
	return math.Hypot(l.sd/math.Sqrt(float64(l.n)), modelError*l.y)
}

func (l *line) slopeError() float64 {
	return math.Hypot(l.sd/math.Sqrt(l.variance*float64(l.n)), modelError*l.slope)
}

// window holds the differences between two pages of a server.
type window struct {
	serving.Reading
	seconds    float64
	running    [2]float64 // requests at its ends
	requests   float64
	batch, gap float64 // mean requests that decode; mean time between tokens, s
	first      float64 // mean time from a request's start to its first token, s
	prompt     float64 // mean tokens of a prompt that were computed
	stepped    bool    // prompts are computed in the same steps in which others decode
}
