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
)

// Plan lists the co-located tenants with their objectives, and the error rates of a verdict. Snapshots name tenants and
// objectives in the same order.
type Plan struct {
	// Deadline ends the search for a verdict; 0 is 30 minutes.
	Deadline time.Duration `yaml:"deadline"`
	// Watch bounds the observation after a promotion; 0 is 2 hours.
	Watch time.Duration `yaml:"watch"`
	// WrongPromotion bounds the probability that a canary is promoted although a tenant is at its limit or
	// beyond; 0 is 0.01.
	WrongPromotion float64 `yaml:"wrong_promotion"`
	// WrongTakeBack bounds the probability that a newcomer is taken back although all tenants keep their objectives; 0
	// is 0.0025: one of 20 days with 20 canaries each.
	WrongTakeBack float64 `yaml:"wrong_take_back"`
	// Tenants are the newcomer, which comes first, and its neighbours.
	Tenants []Tenant `yaml:"tenants,required"`
}

// A Tenant is the newcomer or a neighbour.
type Tenant struct {
	Name       string      `yaml:"name,required"`
	Objectives []Objective `yaml:"objectives,required"`

	// Page is for an Endpoint: the address of the metrics page of the tenant's model server. vLLM and SGLang have ttft,
	// itl, tpot, e2e and queue in seconds.
	// Counter is a counter of a Prometheus page: its metric is steps, a second.
	Page    string   `yaml:"page"`
	Counter *Counter `yaml:"counter"`
}

// Counter names a counter of a Prometheus page.
type Counter struct {
	URL  string `yaml:"url,required"`
	Name string `yaml:"name,required"`
}

// An Objective of a tenant for one metric: a share Quantile of the observations is within a limit. For a neighbour
// without a stated one the limit is 1.3 times its own quantile before the newcomer came.
type Objective struct {
	Metric   string  `yaml:"metric,required"` // such as ttft; the source gives it its meaning and its unit
	Quantile float64 `yaml:"quantile"`        // above 0 and below 1; 0 is 0.5
	Limit    float64 `yaml:"limit"`           // in the metric's unit; 0 = none is stated
	// AtLeast means that more is better, as for a rate of steps: the limit is the least, a quantile is divided by 1.3.
	AtLeast bool `yaml:"at_least"`
	// AfterPromotion keeps the objective from being a condition of promotion: it is watched on after it.
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
