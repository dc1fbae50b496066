// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
)

// Service is the mean request of a server that speaks no tokens.
type Service struct {
	Requests float64
	GPUTime  time.Duration // its part of a pass of the model; zero where the page has no times of passes
	HostTime time.Duration // outside of passes and queues
	Latency  time.Duration // whole, with the time in queues
	Batch    float64       // requests in a pass; zero where unknown
}

// Service derives the mean request of the time between two pages ([Reading.Since]), or since the server started.
// A pass is the model's computation for a batch, launching included, so GPUTime is an upper bound of the GPU's time. It
// answers false where no request was served, and for engines that speak tokens.
func (r *Reading) Service() (Service, bool) {
	seconds := func(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }
	requests := r.Requests.Or(0)
	if requests == 0 && r.E2E != nil {
		requests = float64(r.E2E.Count)
	}
	s := Service{Requests: requests}
	served, known := r.ServedSeconds.Get()
	if r.E2E != nil && !known {
		served = r.E2E.Sum
	}
	if r.Engine.speaksTokens() || requests == 0 || served == 0 {
		return Service{}, false
	}
	s.Latency = seconds(served / requests)
	if passes, computed := r.Passes.Or(0), r.PassSeconds.Or(0); passes > 0 && computed > 0 {
		s.Batch = max(1, requests/passes)
		s.GPUTime = seconds(computed / requests / s.Batch)
		queued := r.QueuedSeconds.Or(0)
		s.HostTime = seconds(max(0, served-computed-queued) / requests)
	}
	return s, true
}

// total takes a sum: of a counter, in a unit of seconds, or of a histogram.
func total(field string, unit float64, of func(*Reading) *Optional[float64]) figure {
	return figure{field: field, set: func(r *Reading, v *value) {
		to := of(r)
		if h := v.m.Histogram; h != nil && h.GetSampleSum() >= 0 {
			*to = optional.Of(to.Or(0) + h.GetSampleSum())
		} else if x, ok := v.number(); ok {
			*to = optional.Of(to.Or(0) + x*unit)
		}
	}}
}

var (
	passes        = func(r *Reading) *Optional[float64] { return &r.Passes }
	passSeconds   = func(r *Reading) *Optional[float64] { return &r.PassSeconds }
	servedSeconds = func(r *Reading) *Optional[float64] { return &r.ServedSeconds }
	queuedSeconds = func(r *Reading) *Optional[float64] { return &r.QueuedSeconds }
)

// services maps whole names of metrics. Sources: TEI's router/src (its histograms are seconds, one observation a
// request; te_batch_next_size has one a pass), Triton's docs/user_guide/metrics.md (nv_inference_*_us add up requests,
// nv_inference_exec_count passes), and prometheus-fastapi-instrumentator, which Infinity and most Whisper servers use.
var services = map[string]struct {
	engine Engine
	figure figure
}{
	"te_request_success":                     {engineTEI, requests},
	"te_queue_size":                          {engineTEI, waiting},
	"te_request_duration":                    {engineTEI, latency("E2E", func(r *Reading) **Histogram { return &r.E2E })},
	"te_request_inference_duration":          {engineTEI, total("PassSeconds", 1, passSeconds)},
	"te_request_queue_duration":              {engineTEI, total("QueuedSeconds", 1, queuedSeconds)},
	"te_batch_next_size":                     {engineTEI, figure{field: "Passes", set: countOf}},
	"nv_inference_request_success":           {engineTriton, requests},
	"nv_inference_pending_request_count":     {engineTriton, waiting},
	"nv_inference_request_duration_us":       {engineTriton, total("ServedSeconds", 1e-6, servedSeconds)},
	"nv_inference_compute_infer_duration_us": {engineTriton, total("PassSeconds", 1e-6, passSeconds)},
	"nv_inference_queue_duration_us":         {engineTriton, total("QueuedSeconds", 1e-6, queuedSeconds)},
	"nv_inference_exec_count":                {engineTriton, sum("Passes", passes)},
	"http_request_duration_seconds":          {engineFastAPI, figure{field: "E2E", set: handled}},
}

// countOf takes the number of a histogram's observations.
func countOf(r *Reading, v *value) {
	if h := v.m.Histogram; h != nil {
		r.Passes = optional.Of(r.Passes.Or(0) + float64(h.GetSampleCount()))
	}
}

// handled takes the latencies of requests for work, not those for pages like /metrics.
func handled(r *Reading, v *value) {
	for _, l := range v.m.Label {
		if l.GetName() == "handler" && slices.ContainsFunc([]string{"embed", "rerank", "classify", "transcri", "translat",
			"speech", "asr", "infer", "predict", "generat"}, func(w string) bool { return strings.Contains(l.GetValue(), w) }) {
			latency("E2E", func(r *Reading) **Histogram { return &r.E2E }).set(r, v)
		}
	}
}
