// SPDX-License-Identifier: Apache-2.0

// Package observe makes profiles of model servers from their production metrics, without a benchmark: from two or more
// of a server's metrics pages, or the answer to a Prometheus range query, it fits a decode step's time to the batch and
// a prefill's to its tokens, with intervals, and lists the figures that the data does not determine.
//
//	readings, err := serving.ParseRange(answer)
//	profiles, err := observe.Profiles(readings)
//	err = known.Add(profiles[0].SoloProfile)
//
// The figures describe an isolated server only if no other tenant shared its GPU, which the caller must ensure. It is
// experimental: its API may change between minor versions.
package observe

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// Reasons why pages give no profile; test for them with errors.Is.
var (
	// ErrMixed is returned for pages of several engines or models where one is expected.
	ErrMixed = errors.New("observe: pages of more than one engine or model")
	// ErrTooLittle is returned for fewer than two pages, or pages without time or requests between them.
	ErrTooLittle = errors.New("observe: too little to make a profile of")
)

// Profile is a server's profile from its own metrics.
type Profile struct {
	profile.SoloProfile
	Replica string
	Left    []string // pages that were left out, with the reason
}

// Profiles makes a profile of each server in the readings, which must be in order of time: at least two of each, with
// [Reading.At]. Replicas are kept separate; if one replica's pages have two engines or models, the error is [ErrMixed],
// since a step then serves both. Pairs of pages between which a server restarted or no time passed, and pages with
// counters below those before and after them, are left out and named. The error names every server with too little
// data.
//
// [Reading.At]: https://pkg.go.dev/github.com/cotenant/cotenant/telemetry/serving#Reading
func Profiles(readings []serving.Reading) ([]Profile, error) {
	by := map[string][]serving.Reading{}
	var order []string
	var errs []error
	for _, r := range readings {
		if by[r.Replica] == nil {
			order = append(order, r.Replica)
		}
		if first := by[r.Replica]; len(first) > 0 && (first[0].Engine != r.Engine || first[0].Model != r.Model) {
			return nil, fmt.Errorf("%w: %v %q and %v %q of replica %q: give one server's pages, by instance", ErrMixed,
				first[0].Engine, problem.Clip(first[0].Model), r.Engine, problem.Clip(r.Model), problem.Clip(r.Replica))
		}
		by[r.Replica] = append(by[r.Replica], r)
	}
	var out []Profile
	for _, replica := range order {
		p, err := profileOf(by[replica])
		if err != nil {
			errs = append(errs, fmt.Errorf("model %q, replica %q: %w", problem.Clip(by[replica][0].Model),
				problem.Clip(replica), err))
			continue
		}
		out = append(out, *p)
	}
	if len(readings) == 0 {
		return nil, fmt.Errorf("%w: no page", ErrTooLittle)
	}
	return out, errors.Join(errs...)
}

func profileOf(pages []serving.Reading) (*Profile, error) {
	slices.SortStableFunc(pages, func(a, b serving.Reading) int { return a.At.Compare(b.At) })
	p := &Profile{Replica: pages[0].Replica}
	var all serving.Reading // sums over the windows
	var windows []window
	seconds := 0.0
	last := 0
	for i := 1; i < len(pages); i++ {
		before := &pages[last]
		w := window{seconds: pages[i].At.Sub(before.At).Seconds()}
		var err error
		if w.seconds <= 0 {
			err = errors.New("no time passed, or the pages do not report their time")
		} else if w.Reading, err = pages[i].Since(*before); err == nil {
			err = w.read(before.Running.Or(0))
		} else if i+1 < len(pages) {
			if _, odd := pages[i+1].Since(*before); odd == nil {
				p.Left = append(p.Left, fmt.Sprintf("page %d: a counter is less than before and after it: another server's", i+1))
				continue
			}
		}
		last = i
		if err != nil {
			p.Left = append(p.Left, fmt.Sprintf("pages %d and %d: %v", i, i+1, err))
			continue
		}
		windows = append(windows, w)
		seconds += w.seconds
		all.Add(w.Reading)
	}
	requests := cmp.Or(all.Requests.Or(0), float64(count(all.TTFT)))
	if pages[0].Engine == serving.EngineLlamaCpp {
		return nil, fmt.Errorf("%w: llama.cpp's pages count no requests, so that neither prompts nor answers have a length: "+
			"measure the server under a load of its own, as package loadgen does", ErrTooLittle)
	}
	if len(windows) == 0 || requests < 2 || all.GenerationTokens.Or(0) < 2*requests {
		return nil, fmt.Errorf("%w: %d pages, %g requests between them that can be used, %d pairs left out", ErrTooLittle,
			len(pages), requests, len(p.Left))
	}
	fit := fitOf(windows)
	prompt, output := all.PromptTokens.Or(0)/requests, all.GenerationTokens.Or(0)/requests
	p.SoloProfile = profile.SoloProfile{
		Version: profile.VersionOfKinds, Engine: string(all.Engine), Mechanism: sharing.MechanismTimeSlicing,
		Server: profile.Server{Model: cmp.Or(all.Model, string(all.Engine)), Slots: fit.Slots},
		Load: profile.Load{Rate: requests / seconds, Prompt: max(1, int(math.Round(prompt))),
			Output: max(1, int(math.Round(output)))},
		Run:      fmt.Sprintf("metrics of %.0f s", seconds),
		Requests: sharing.Some(int(requests)), Fit: &fit.ServingFit,
	}
	p.TokensPerS = sharing.Some(all.GenerationTokens.Or(0) / seconds)
	each := cmp.Or(all.TPOT, all.ITL) // a request's mean, or where that is not exported the gap between two tokens
	p.TTFT, p.E2E, p.TPOT = latency(all.TTFT), latency(all.E2E), latency(each)
	// A histogram's buckets are wide compared with differences of times per token; its mean is exact.
	if mean, ok := each.Mean(); ok {
		p.TPOT.P50 = sharing.Some(1e3 * mean)
		p.TPOT.P90, p.TPOT.P95 = sharing.Optional[float64]{}, sharing.Optional[float64]{}
		p.TPOT.P99 = sharing.Some(max(1e3*mean, p.TPOT.P99.Or(0)))
	}
	if fit.StepAt.Value > 0 {
		p.ITL = profile.LatencyMS{P50: sharing.Some(min(fit.StepAt.Value, p.TPOT.P50.Or(math.Inf(1))))}
	}
	return p, p.Validate()
}

// read takes a window's means; the error names the missing ones.
func (w *window) read(before float64) error {
	w.running = [2]float64{before, w.Running.Or(0)}
	tokens := w.GenerationTokens.Or(0)
	h := w.ITL
	decoding, gaps := w.DecodeSeconds.Or(0), tokens
	if h != nil {
		decoding, gaps = h.Sum, float64(h.Count)
	} else if w.TPOT != nil && w.DecodeSeconds.IsZero() { // one figure a request: its tokens weigh alike
		decoding, gaps = w.TPOT.Sum/float64(max(1, w.TPOT.Count))*tokens, tokens
	}
	w.requests = w.Requests.Or(float64(count(w.TTFT)))
	switch n := float64(count(w.TTFT)); {
	case gaps < 1 || decoding <= 0:
		return errors.New("no token was given")
	case n > 0:
		w.requests = n
		w.first = w.TTFT.Sum / n
		if w.Queue != nil && w.Queue.Count > 0 {
			w.first -= w.Queue.Sum / float64(w.Queue.Count)
		}
	case w.PromptSeconds.Or(0) > 0 && w.requests > 0:
		w.first = w.PromptSeconds.Or(0) / w.requests
	}
	w.batch, w.gap = decoding/w.seconds, decoding/gaps
	computed := w.PromptTokens.Or(0)
	if hits, ok := w.PrefixHits.Get(); ok {
		computed -= min(hits, computed)
	}
	w.prompt = computed / max(w.requests, 1)
	w.stepped = w.Engine == serving.EngineVLLM
	return nil
}

func count(h *serving.Histogram) uint64 {
	if h == nil {
		return 0
	}
	return h.Count
}

// latency reads a histogram of seconds: percentiles are interpolated within their bucket, evenly by the logarithm.
func latency(h *serving.Histogram) (l profile.LatencyMS) {
	for _, q := range []struct {
		to *sharing.Optional[float64]
		of float64
	}{{&l.P50, 0.5}, {&l.P90, 0.9}, {&l.P95, 0.95}, {&l.P99, 0.99}} {
		b, ok := h.Quantile(q.of)
		if !ok || math.IsInf(b.High, 1) {
			continue
		}
		_, upTo := h.AtMost(b.High)
		below, _ := h.AtMost(b.Low)
		low := max(b.Low, b.High/10)
		part := (q.of*float64(h.Count) - float64(below)) / float64(max(1, upTo-below))
		*q.to = sharing.Some(1e3 * low * math.Pow(b.High/low, min(max(part, 0), 1)))
	}
	if mean, ok := h.Mean(); ok {
		l.Mean = sharing.Some(1e3 * mean)
	}
	return l
}
