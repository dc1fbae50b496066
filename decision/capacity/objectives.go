package capacity

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/predict/serving"
)

// Objectives hold what a tenant's requests must keep. The zero value demands nothing.
type Objectives struct {
	Limits []Limit
	// Share of the requests that must each keep all the limits, 0 to 1; 0 = only the percentiles count.
	Share float64
}

// Limit bounds a percentile of a latency.
type Limit struct {
	Latency    Latency
	Percentile int // 50, 90, 95 or 99
	Most       time.Duration
}

// String returns the limit as ParseObjectives reads it, for example "ttft_p99=500ms".
func (l Limit) String() string { return fmt.Sprintf("%s=%v", l.metric(), l.Most) }

// metric returns the limit's name among an arrangement's figures.
func (l Limit) metric() string { return l.Latency.String() + "_p" + strconv.Itoa(l.Percentile) }

// undercuts reports that l is below the limit of a lower percentile, or of the first token, and so makes that one void.
func (l Limit) undercuts(o Limit) bool {
	return l.Most < o.Most && l.Percentile >= o.Percentile &&
		(l.Latency == o.Latency || l.Latency == LatencyE2E && o.Latency == LatencyTTFT)
}

// ParseObjectives reads objectives such as "ttft_p99=500ms,tpot_p99=30ms,share=0.99": each limit by the latency
// (ttft, tpot, e2e) and percentile, and share, once each. The error names every problem.
func ParseObjectives(text string) (out Objectives, err error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("objectives: "+format, args...)) }
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || seen[name] {
			bad("%q: write each once, like ttft_p99=500ms", part)
			continue
		}
		seen[name] = true
		if name == "share" {
			if out.Share, err = strconv.ParseFloat(value, 64); err != nil || !(out.Share > 0 && out.Share <= 1) {
				bad("share=%s: use a part of the requests above 0, at most 1, like 0.99", value)
			}
			continue
		}
		latency, percentile, _ := strings.Cut(name, "_p")
		l := Limit{}
		if err := l.Latency.UnmarshalText([]byte(latency)); err != nil {
			bad("%q: use ttft, tpot or e2e with _p50, _p90, _p95 or _p99, or share", name)
			continue
		}
		if l.Percentile, err = strconv.Atoi(percentile); err != nil || !slices.Contains(percentiles[:], l.Percentile) {
			bad("%q: use _p50, _p90, _p95 or _p99", name)
			continue
		}
		if l.Most, err = time.ParseDuration(value); err != nil || l.Most <= 0 {
			bad("%s=%s: use a time above 0, like 500ms", name, value)
			continue
		}
		out.Limits = append(out.Limits, l)
	}
	if out.Share > 0 && len(out.Limits) == 0 && len(errs) == 0 {
		bad("share=%g: say what that part of the requests must keep, like ttft_p99=500ms,share=%g", out.Share, out.Share)
	}
	return out, errors.Join(errs...)
}

// bound returns the tightest limit of a latency; 0 without one.
func (o Objectives) bound(of Latency) time.Duration {
	var least time.Duration
	for _, l := range o.Limits {
		if l.Latency == of && (least == 0 || l.Most < least) {
			least = l.Most
		}
	}
	return least
}

// PerRequest returns the bounds that a single request must keep to count as good: the tightest of each latency.
func (o Objectives) PerRequest() serving.Objective {
	return serving.Objective{TTFT: o.bound(LatencyTTFT), TPOT: o.bound(LatencyTPOT), E2E: o.bound(LatencyE2E)}
}
