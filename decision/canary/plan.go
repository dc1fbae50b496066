// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// Plan lists the co-located tenants with their objectives, and the error rates of a verdict. Snapshots name tenants and
// objectives in the same order.
type Plan struct {
	// Deadline ends the search for a verdict; 0 is 30 minutes.
	Deadline time.Duration `yaml:"deadline"`
	// Watch bounds the observation after a promotion; 0 is 2 hours.
	Watch time.Duration `yaml:"watch"`
	// WrongPromotion bounds the probability that a canary is promoted although a tenant is at or beyond its limit; 0 is
	// 0.01.
	WrongPromotion float64 `yaml:"wrong_promotion"`
	// WrongTakeBack bounds the probability that a newcomer is taken back although all tenants meet their objectives; 0 is
	// 0.0025: once in 20 days with 20 canaries each.
	WrongTakeBack float64 `yaml:"wrong_take_back"`
	// Tenants are the newcomer, which comes first, and its neighbours.
	Tenants []Tenant `yaml:"tenants,required"`
}

// A Tenant is the newcomer or a neighbour.
type Tenant struct {
	Name       string      `yaml:"name,required"`
	Objectives []Objective `yaml:"objectives,required"`

	// Page is for an Endpoint: the address of the metrics page of the tenant's model server. vLLM and SGLang have ttft,
	// itl, tpot, e2e and queue in seconds. Counter is a counter of a Prometheus page: its metric is steps, a second.
	Page    string   `yaml:"page"`
	Counter *Counter `yaml:"counter"`
}

// Counter names a counter of a Prometheus page.
type Counter struct {
	URL  string `yaml:"url,required"`
	Name string `yaml:"name,required"`
}

// An Objective limits one metric of a tenant: a share Quantile of the observations must be within Limit. For a
// neighbour without a stated limit it is 1.3 times its own quantile before the newcomer came.
type Objective struct {
	Metric   string  `yaml:"metric,required"` // such as ttft; the source gives it its meaning and its unit
	Quantile float64 `yaml:"quantile"`        // above 0 and below 1; 0 is 0.5
	Limit    float64 `yaml:"limit"`           // in the metric's unit; 0 = none is stated
	// AtLeast means that more is better, as for a rate of steps: the limit is a minimum, and a limit from the baseline is
	// its quantile divided by 1.3.
	AtLeast bool `yaml:"at_least"`
	// AfterPromotion excludes the objective from the conditions of promotion: it is only watched afterwards.
	AfterPromotion bool `yaml:"after_promotion"`
}

// allowance times its quantile before the newcomer came is the limit of a neighbour without a stated one.
const allowance = 1.3

// loadSlack is the factor by which a neighbour's load may differ from that before the newcomer came.
const loadSlack = 1.25

// pageMetrics names the figures of a metrics page, and steps that of a counter.
var pageMetrics = []string{"ttft", "itl", "tpot", "e2e", "queue"}

const steps = "steps"

// checkSources checks that a page or a counter has each metric.
func (p *Plan) checkSources(l *problem.List) {
	for i := range p.Tenants {
		t := &p.Tenants[i]
		for k, o := range t.Objectives {
			at := fmt.Sprintf("tenants[%d].objectives[%d]", i, k)
			l.If(!slices.Contains(pageMetrics, o.Metric) && o.Metric != steps, at+".metric",
				"use "+strings.Join(pageMetrics, ", ")+" or "+steps, "%q", o.Metric)
			l.If(o.Metric == steps && t.Counter == nil, at, "add counter", "its steps have no source")
			l.If(o.Metric == steps && !o.AtLeast, at, "add at_least: true", "more steps are better")
			l.If(o.Metric != steps && t.Page == "", at, "add page", "its %s has no source", o.Metric)
		}
	}
}

// withDefaults returns a copy without zeros, or every problem of the plan.
func (p Plan) withDefaults() (Plan, error) {
	var l problem.List
	def := func(v *time.Duration, d time.Duration, path string) {
		l.If(*v < 0, path, "use a duration above 0", "%v", *v)
		*v = cmp.Or(*v, d)
	}
	part := func(v *float64, d float64, path string) {
		*v = cmp.Or(*v, d)
		l.If(!(*v > 0 && *v < 1), path, "use a probability above 0 and below 1", "%v", *v)
	}
	def(&p.Deadline, 30*time.Minute, "deadline")
	def(&p.Watch, 2*time.Hour, "watch")
	part(&p.WrongPromotion, 0.01, "wrong_promotion")
	part(&p.WrongTakeBack, 0.0025, "wrong_take_back")
	l.If(len(p.Tenants) == 0, "tenants", "name the newcomer, then its neighbours", "none")
	p.Tenants = slices.Clone(p.Tenants)
	names := map[string]bool{}
	for i := range p.Tenants {
		t, at := &p.Tenants[i], fmt.Sprintf("tenants[%d]", i)
		l.If(t.Name == "" || names[t.Name], at+".name", "name each tenant once", "%q", t.Name)
		names[t.Name] = true
		t.Objectives = slices.Clone(t.Objectives)
		conditions := 0
		for k := range t.Objectives {
			o, at := &t.Objectives[k], fmt.Sprintf("%s.objectives[%d]", at, k)
			part(&o.Quantile, 0.5, at+".quantile")
			l.If(o.Metric == "", at+".metric", "name the metric", "it is empty")
			l.If(!(o.Limit >= 0) || math.IsInf(o.Limit, 0), at+".limit", "use the metric's unit, or leave it out", "%v", o.Limit)
			l.If(i == 0 && o.Limit == 0, at, "add limit", "the newcomer has no limit")
			if !o.AfterPromotion {
				conditions++
			}
		}
		l.If(conditions == 0, at+".objectives", "add one that is a condition of promotion", "none decides")
	}
	return p, l.Err()
}

// scale widens a value by the allowance, to the side that the objective allows.
func (o *Objective) scale(v, by float64) float64 {
	if o.AtLeast {
		return v / by
	}
	return v * by
}

// A Snapshot holds the observations since the one before.
type Snapshot struct {
	// At is the time since the newcomer was placed, by a clock that does not jump. Before that it is negative: such
	// snapshots form the neighbours' baseline.
	At      time.Duration
	Tenants []Seen // in the order of the plan
}

// Seen holds the observations of one tenant.
type Seen struct {
	// Missing is the reason why this snapshot proves nothing; it then counts neither for nor against.
	Missing string
	// Load is the demand on the tenant, such as requests a second: a limit from the baseline holds only for a similar
	// load. Missing if not known.
	Load    sharing.Optional[float64]
	Metrics []Sample // in the order of Tenant.Objectives
}

// A Sample holds the observations of a metric since the previous snapshot: single values or a histogram.
type Sample struct {
	Values    []float64
	Histogram *serving.Histogram
}

// size returns the number of observations.
func (s *Sample) size() int {
	if s.Histogram != nil {
		return int(s.Histogram.Count)
	}
	return len(s.Values)
}

// count counts observations beyond a limit that is not known exactly: Most is of those beyond the strict end of it,
// Least of those beyond the lax one. A bucket of a histogram that the limit parts is in Most and not in Least.
func (o *Objective) count(s *Sample, strict, lax float64) bin {
	slow := o.scale(lax, slowFactor)
	if h := s.Histogram; h != nil {
		within, _ := h.AtMost(strict)
		_, perhaps := h.AtMost(lax)
		_, notSlow := h.AtMost(slow)
		n := int32(h.Count)
		return bin{N: n, Most: n - int32(within), Least: n - int32(perhaps), Slow: n - int32(notSlow)}
	}
	b := bin{N: int32(len(s.Values))}
	for _, v := range s.Values {
		beyond := func(limit float64) int32 {
			if v > limit && !o.AtLeast || v < limit && o.AtLeast {
				return 1
			}
			return 0
		}
		b.Most, b.Least, b.Slow = b.Most+beyond(strict), b.Least+beyond(lax), b.Slow+beyond(slow)
	}
	return b
}

// merge adds observations.
func (s *Sample) merge(o *Sample) {
	s.Values = append(s.Values, o.Values...)
	switch a, b := s.Histogram, o.Histogram; {
	case b == nil:
	case a == nil:
		s.Histogram = &serving.Histogram{Buckets: slices.Clone(b.Buckets), Count: b.Count, Sum: b.Sum}
	case len(a.Buckets) == len(b.Buckets):
		a.Count, a.Sum = a.Count+b.Count, a.Sum+b.Sum
		for i := range b.Buckets {
			a.Buckets[i].Count += b.Buckets[i].Count
		}
	}
}

// wrong returns the reason not to believe the observations; "" = none.
func (s *Seen) wrong(t *Tenant) string {
	if s.Missing != "" {
		return s.Missing
	}
	if len(s.Metrics) != len(t.Objectives) {
		return fmt.Sprintf("%d metrics for %d objectives", len(s.Metrics), len(t.Objectives))
	}
	for k := range s.Metrics {
		m := &s.Metrics[k]
		if m.Histogram != nil && t.Objectives[k].AtLeast {
			return "a histogram of a metric with a lower limit"
		}
		if slices.ContainsFunc(m.Values, func(v float64) bool { return math.IsNaN(v) || v < 0 }) {
			return t.Objectives[k].Metric + " is negative or no number"
		}
	}
	return ""
}
