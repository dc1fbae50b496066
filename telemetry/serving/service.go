// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/sharing"
)

// Service is the mean request of a server without tokens.
type Service struct {
	Requests float64
	GPUTime  time.Duration // its part of a pass of the model; zero where the page has no times of passes
	HostTime time.Duration // outside of passes and queues
	Latency  time.Duration // of a whole request, time in queues included
	Batch    float64       // requests in a pass; zero where unknown
}

// Service derives the mean request between two pages ([Reading.Since]), or since the server started. A pass is the
// model's computation for a batch, launching included, so GPUTime is an upper bound of the GPU's time. It returns false
// if no request was served, and for engines with tokens.
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

// seconds takes a sum of seconds: of a counter or of a histogram.
func (v *value) seconds(to *sharing.Optional[float64]) { v.total(1, to) }

func (v *value) microseconds(to *sharing.Optional[float64]) { v.total(1e-6, to) }

func (v *value) total(unit float64, to *sharing.Optional[float64]) {
	if h := v.m.Histogram; h != nil && h.GetSampleSum() >= 0 {
		*to = optional.Of(to.Or(0) + h.GetSampleSum())
	} else if x, ok := v.number(); ok {
		*to = optional.Of(to.Or(0) + x*unit)
	}
}

// services maps whole names of metrics. Sources: TEI's router/src (its histograms are seconds, one observation a
// request; te_batch_next_size has one a pass), Triton's docs/user_guide/metrics.md (nv_inference_*_us add up requests,
// nv_inference_exec_count passes), and prometheus-fastapi-instrumentator, which Infinity and most Whisper servers use.
var services = map[string]struct {
	engine Engine
	figure figure
}{
	"te_request_success":                     {engineTEI, requests},
	"te_queue_size":                          {engineTEI, waiting},
	"te_request_duration":                    {engineTEI, e2e},
	"te_request_inference_duration":          {engineTEI, of("PassSeconds", (*value).seconds)},
	"te_request_queue_duration":              {engineTEI, of("QueuedSeconds", (*value).seconds)},
	"te_batch_next_size":                     {engineTEI, of("Passes", (*value).observations)},
	"nv_inference_request_success":           {engineTriton, requests},
	"nv_inference_pending_request_count":     {engineTriton, waiting},
	"nv_inference_request_duration_us":       {engineTriton, of("ServedSeconds", (*value).microseconds)},
	"nv_inference_compute_infer_duration_us": {engineTriton, of("PassSeconds", (*value).microseconds)},
	"nv_inference_queue_duration_us":         {engineTriton, of("QueuedSeconds", (*value).microseconds)},
	"nv_inference_exec_count":                {engineTriton, of("Passes", (*value).sum)},
	"http_request_duration_seconds":          {engineFastAPI, of("E2E", (*value).handled)},
}

// observations takes the number of a histogram's.
func (v *value) observations(to *sharing.Optional[float64]) {
	if h := v.m.Histogram; h != nil {
		*to = optional.Of(to.Or(0) + float64(h.GetSampleCount()))
	}
}

// handled takes the latencies of requests for work, not those for pages like /metrics.
func (v *value) handled(to **Histogram) {
	for _, l := range v.m.Label {
		if l.GetName() == "handler" && slices.ContainsFunc([]string{"embed", "rerank", "classify", "transcri", "translat",
			"speech", "asr", "infer", "predict", "generat"}, func(w string) bool { return strings.Contains(l.GetValue(), w) }) {
			v.latency(to)
		}
	}
}
