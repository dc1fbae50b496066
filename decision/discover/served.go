// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover/internal/usage"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/observe"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/serving"
)

var servingHead = regexp.MustCompile(`(?m)^(# (HELP|TYPE) )?((\w+[:_])?(vllm|sglang|llamacpp)[:_]|te_request_|` +
	`nv_inference_|http_request_duration_seconds)`)

var metricsHead = regexp.MustCompile(`^# (HELP|TYPE) [A-Za-z_:]`)

func (c *Collector) keepServing(name string, rs []serving.Reading, err error) error {
	if len(rs) > 0 {
		c.pages = append(c.pages, metricsPage{name, rs})
	}
	return inFile(name, err)
}

// servers holds series of model servers from Prometheus' answers, by the namespace and name of their pod.
type servers map[string][]serving.Series

// hourly is the sampling interval of a server's series in ms: counters add up, and a week of hours resolves its loads.
const hourly = int64(time.Hour / time.Millisecond)

// add keeps a sample an hour of a series, the last of each: the same for all series of an answer.
func (s servers) add(metric map[string]string, values []usage.Point) {
	pod := metric["pod"]
	if ns := metric["namespace"]; ns != "" && pod != "" {
		pod = ns + "." + pod
	}
	r := serving.Series{Metric: maps.Clone(metric)}
	for _, target := range []string{"pod", "namespace", "job", "container", "endpoint", "service", "node"} {
		delete(r.Metric, target)
	}
	for i, p := range values {
		if i == len(values)-1 || values[i+1].MS/hourly != p.MS/hourly || len(values) < 200 {
			r.Values = append(r.Values, [2]any{float64(p.MS) / 1000, strconv.FormatFloat(p.Value, 'g', -1, 64)})
		}
	}
	s[pod] = append(s[pod], r)
}

// keepServers keeps the series of servers as pages of their pods.
func (c *Collector) keepServers(name string, all servers) (errs error) {
	for _, pod := range sortedKeys(all) {
		rs, err := serving.Range(all[pod])
		errs = errors.Join(errs, c.keepServing(cmp.Or(pod, name), rs, err))
	}
	return errs
}

// takeServing adds the readings of model servers to their workloads: latencies of a server with a GPU of its own are
// isolated latencies. A file is named after its pod or workload, with or without the namespace.
func (b *build) takeServing() {
	type total struct {
		isolated bool
		readings []serving.Reading
		requests float64
		service  serving.Service
		bucket   [len(latencies)]serving.Interval // of the P99, the worst of its replicas
	}
	totals := map[*workload]*total{}
	for _, p := range b.c.pages {
		w, at := b.serverOf(p.file, p.readings)
		if w == nil {
			b.find("metrics-of-nobody", "file "+p.file, p.file)
			continue
		}
		t := totals[w]
		if t == nil {
			t = &total{isolated: true}
			totals[w] = t
		}
		t.isolated = t.isolated && b.isolated(w, at)
		t.readings = append(t.readings, p.readings...)
		for i := range p.readings {
			r := &p.readings[i]
			if slices.ContainsFunc(p.readings[i+1:], func(o serving.Reading) bool { return o.Same(r) }) {
				continue // a later page of the server counts on
			}
			if mean, ok := r.Service(); ok && r.Requests.Or(0) >= t.requests {
				t.service = mean
			}
			t.requests += r.Requests.Or(0)
			for k, h := range []*serving.Histogram{r.TTFT, cmp.Or(r.TPOT, r.ITL), r.E2E} {
				if h == nil {
					continue
				}
				if q, ok := h.Quantile(0.99); ok && q.High > t.bucket[k].High {
					t.bucket[k] = q
				}
			}
		}
	}
	for _, w := range b.workloads {
		t := totals[w]
		if t == nil {
			continue
		}
		b.assumeSLO(w, t.bucket, t.requests)
		if b.Provenance[w.at+".solo"].Basis == basisGiven {
			continue
		}
		if !t.isolated {
			b.find("latencies-not-isolated", "workload "+w.Name, "model server's metrics")
			continue
		}
		b.profile(w, t.readings)
		b.service(w, t.service)
		var parts []string
		for k, m := range latencies {
			if q := t.bucket[k]; q.High > 0 && q.High < mostLatency {
				*w.Solo.At(m.Metric) = rounded(q.High*1e9, time.Microsecond)
				parts = append(parts, fmt.Sprintf("%s in the bucket %.4g to %.4g s", m.name, q.Low, q.High))
			}
		}
		if len(parts) > 0 {
			b.note(w.at+".solo", Provenance{basisMeasured, fmt.Sprintf("model server's metrics, %s requests, isolated on its "+
				"GPU; upper ends: %s", thousands(t.requests), strings.Join(parts, ", "))})
		}
	}
}

// latencies are the limits that are read, as P99s.
var latencies = [...]struct {
	profile.Metric
	name string
}{{profile.MetricTTFTP99, "TTFT"}, {profile.MetricTPOTP99, "TPOT"}, {profile.MetricE2EP99, "E2E"}}

const mostLatency = 1e6 // seconds; more is an open bucket

func rounded(ns float64, unit time.Duration) sharing.Optional[profile.Duration] {
	return sharing.Some(profile.Duration(time.Duration(ns).Round(unit)))
}

func (b *build) service(w *workload, mean serving.Service) {
	if mean.GPUTime == 0 || w.Service != nil || !w.Kind.Serves() && w.Kind != "" {
		return
	}
	w.Service = &fleet.Service{GPUTime: rounded(float64(mean.GPUTime), time.Microsecond),
		HostTime: rounded(float64(mean.HostTime), time.Microsecond)}
	b.note(w.at+".service", Provenance{basisMeasured,
		fmt.Sprintf("model server's metrics, isolated on its GPU: %.3g requests in a pass", mean.Batch)})
}

// assumedSlack is by how much latencies may exceed those of today where nobody stated which must be kept: histograms'
// buckets are a factor of two apart.
const assumedSlack = 1.5

// assumeSLO gives a server of which no objective is stated that it must stay near the latencies that its users have.
func (b *build) assumeSLO(w *workload, bucket [len(latencies)]serving.Interval, requests float64) {
	if w.Kind != decision.KindOnlineInference || w.SLO != (profile.SLO{}) || requests < leastRequests {
		return
	}
	var parts []string
	for k, m := range latencies {
		if q := bucket[k]; q.High > 0 && q.High < mostLatency && (k < 2 || len(parts) == 0) {
			*w.SLO.At(m.Metric) = rounded(assumedSlack*q.High*1e9, 100*time.Microsecond)
			parts = append(parts, m.name)
		}
	}
	if len(parts) > 0 {
		b.note(w.at+".slo", derived("assumed: %.1f times the P99 of %s that its metrics show of %s requests; state yours "+
			"with -hints", assumedSlack, strings.Join(parts, " and "), thousands(requests)))
	}
}

const leastRequests = 1000 // that a P99 is read from

// profile makes a profile of a workload's steps and prefills from several pages: of the replica with the most requests,
// on the GPU of its pool.
func (b *build) profile(w *workload, readings []serving.Reading) {
	at := func(r serving.Reading) bool { return !r.At.IsZero() }
	if len(readings) < 2 || !slices.ContainsFunc(readings, at) {
		return
	}
	found, err := observe.Profiles(readings)
	if err != nil {
		b.find("metrics-without-profile", "workload "+w.Name, "model server's metrics", err)
	}
	if len(found) == 0 {
		return
	}
	best := slices.MaxFunc(found, func(x, y observe.Profile) int {
		return cmp.Compare(x.Requests.Or(0), y.Requests.Or(0))
	})
	for _, p := range b.pools {
		if p.Name == w.Pool || len(b.pools) == 1 {
			best.GPU = p.GPU
		}
	}
	if b.Profiles == nil {
		b.Profiles = map[string]profile.SoloProfile{}
	}
	b.Profiles[w.Name] = best.SoloProfile
}

// serverOf is the workload that a page is of, and its pod where the file names
// one: by the file's name, or as the only one that runs that engine.
func (b *build) serverOf(file string, rs []serving.Reading) (*workload, *pod) {
	base := path.Base(strings.ReplaceAll(file, `\`, "/"))
	names := []string{base}
	for ext := path.Ext(base); ext != ""; ext = path.Ext(base) {
		base = strings.TrimSuffix(base, ext)
		names = append(names, base)
	}
	for _, w := range b.workloads {
		for _, p := range w.pods {
			if slices.Contains(names, p.name) || slices.Contains(names, p.namespace+"."+p.name) {
				return w, p
			}
		}
	}
	var found *workload
	for _, w := range b.workloads {
		if slices.Contains(names, strings.ReplaceAll(w.Name, "/", ".")) {
			return w, nil
		}
		if len(rs) > 0 && w.first.framework.Name == string(rs[0].Engine) {
			if found != nil {
				return nil, nil
			}
			found = w
		}
	}
	return found, nil
}

// isolated reports whether a workload's pods, or only one of them, have GPUs or instances of their own.
func (b *build) isolated(w *workload, only *pod) bool {
	for _, p := range w.pods {
		if p.at == nil || only != nil && p != only {
			continue
		}
		m := b.mechanisms(p, p.at)[0]
		// A MIG instance of its own is not a whole GPU of its own.
		if m == sharing.MechanismMIG || m != sharing.MechanismExclusive && len(p.at.pods) > 1 {
			return false
		}
	}
	return true
}
