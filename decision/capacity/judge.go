package capacity

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/predict/serving"
)

// figures holds a tenant's figures: latencies in ms by the names of limits, and the
// share of its requests that keep them all.
type figures map[string]profile.Interval

const shareMetric = "share"

var percentiles = [...]int{50, 90, 95, 99}

// ofLatency adds the percentiles of a latency; intervals widen as those of the service's nearest foreseen metric.
func (f figures) ofLatency(of Latency, ms profile.LatencyMS, service *serving.ServiceReport) {
	for i, v := range []profile.Optional[float64]{ms.P50, ms.P90, ms.P95, ms.P99} {
		value, known := v.Get()
		if !known {
			continue
		}
		in := profile.Interval{Value: value, Low: value, High: value}
		if near, ok := service.Foreseen[nearest[of][i]]; ok && near.Value > 0 {
			in.Low, in.High = value*near.Low/near.Value, value*near.High/near.Value
		}
		f[of.String()+"_p"+strconv.Itoa(percentiles[i])] = in
	}
}

// nearest are the metrics whose intervals stand for a latency's percentiles.
var nearest = [...][len(percentiles)]profile.Metric{
	LatencyTTFT: {profile.MetricTTFTP50, profile.MetricTTFTP99, profile.MetricTTFTP99, profile.MetricTTFTP99},
	LatencyTPOT: {profile.MetricTPOTP50, profile.MetricTPOTP99, profile.MetricTPOTP99, profile.MetricTPOTP99},
	LatencyE2E:  {profile.MetricE2EP50, profile.MetricE2EP90, profile.MetricE2EP99, profile.MetricE2EP99},
}

// seen are the figures of each tenant.
func (s *search) seen(r *serving.Report, routes map[int]route) []figures {
	out := make([]figures, len(s.plan.Tenants))
	for t := range out {
		to, ok := routes[t]
		if !ok {
			continue
		}
		service := &r.Services[to.service]
		f := figures{}
		outcome, good, completed := service.Outcome, float64(service.Good), float64(service.Completed+service.Rejected)
		if to.adapter > 0 {
			for i := range service.Adapters {
				if a := &service.Adapters[i]; a.Adapter == to.adapter {
					outcome, good, completed = a.Outcome, float64(a.Good), float64(a.Completed)
				}
			}
		}
		f.ofLatency(LatencyTTFT, outcome.TTFT, service)
		f.ofLatency(LatencyTPOT, outcome.TPOT, service)
		f.ofLatency(LatencyE2E, outcome.E2E, service)
		if completed > 0 && len(s.plan.Tenants[t].Objectives.Limits) > 0 {
			v := good / completed
			i := profile.Interval{Value: v, Low: v, High: v}
			if of, ok := service.GoodFractionRange.Get(); ok {
				i.Low, i.High = max(0, min(v, v+of.Low-of.Value)), min(1, max(v, v+of.High-of.Value))
			}
			f[shareMetric] = i
		}
		out[t] = f
	}
	return out
}

// judgement holds the verdict on figures, and what comes nearest to breaking them.
type judgement struct {
	verdict Verdict
	tenant  int
	metric  string
	over    float64 // the figure over its limit; above 1 it is missed
}

// judge holds figures against the objectives of the tenants that have any.
func (s *search) judge(seen []figures) judgement {
	out := judgement{verdict: VerdictKept, tenant: -1}
	unknown := false
	note := func(t int, metric string, over, low, high float64) {
		if over > out.over {
			out.tenant, out.metric, out.over = t, metric, over
		}
		switch {
		case low > 1:
			out.verdict = VerdictMissed
		case high > 1:
			unknown = true
		}
	}
	for t := range seen {
		if seen[t] == nil {
			continue
		}
		o := &s.plan.Tenants[t].Objectives
		for _, l := range o.Limits {
			if i, ok := seen[t][l.metric()]; ok {
				most := float64(l.Most) / 1e6
				note(t, l.metric(), i.Value/most, i.Low/most, i.High/most)
			}
		}
		if i, ok := seen[t][shareMetric]; ok && o.Share > 0 {
			// On the scale of misses, so that more is worse as with latencies.
			allowed := max(1-o.Share, 1e-6)
			note(t, shareMetric, (1-i.Value)/allowed, (1-i.High)/allowed, (1-i.Low)/allowed)
		}
	}
	if out.verdict == VerdictKept && unknown {
		out.verdict = VerdictUnknown
	}
	return out
}

// words says the figure that a judgement is about.
func (s *search) words(p *played) string {
	j := p.judgement
	if j.tenant < 0 {
		return "there are no objectives"
	}
	name, i := s.plan.Tenants[j.tenant].Name, p.seen[j.tenant][j.metric]
	if j.metric == shareMetric {
		return fmt.Sprintf("%.1f%% of %s's requests keep their limits, %.1f%% must", 100*i.Value, name,
			100*s.plan.Tenants[j.tenant].Objectives.Share)
	}
	return fmt.Sprintf("%s's %s is %s, at most %s", name, j.metric, milliseconds(i.Value), s.limit(j))
}

// limit says the limit of the latency that a judgement is about.
func (s *search) limit(j judgement) string {
	limits := s.plan.Tenants[j.tenant].Objectives.Limits
	return brief(limits[slices.IndexFunc(limits, func(l Limit) bool { return l.metric() == j.metric })].Most)
}

// brief is a duration without its zeros.
func brief(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if s, ok := strings.CutSuffix(text, zero); ok {
			text = s + zero[:1]
		}
	}
	return text
}

func milliseconds(ms float64) string {
	switch {
	case ms >= 10_000:
		return fmt.Sprintf("%.0f s", ms/1e3)
	case ms >= 1000:
		return fmt.Sprintf("%.1f s", ms/1e3)
	case ms >= 10:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.2g ms", ms)
}
