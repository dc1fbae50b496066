// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
)

// Plan lists the co-located tenants with their objectives, and the error rates of a verdict. Looks name tenants and
// objectives in the same order.
type Plan struct {
	// Deadline ends the search for a verdict; 0 is 30 minutes.
	Deadline time.Duration `yaml:"deadline"`
	// Watch bounds the looks after a promotion; 0 is 2 hours.
	Watch time.Duration `yaml:"watch"`
	// WrongPromotion bounds the probability that a canary is promoted although a tenant is at its limit or
	// beyond; 0 is 0.01.
	WrongPromotion float64 `yaml:"wrong_promotion"`
	// WrongTakeBack bounds the probability that within a day a newcomer is taken back although all keep their
	// objectives; 0 is 0.05. It is spent in equal parts by PerDay canaries, 0 is 20.
	WrongTakeBack float64 `yaml:"wrong_take_back"`
	PerDay        int     `yaml:"canaries_per_day"`
	// Tenants are the newcomer, which comes first, and its neighbours.
	Tenants []Tenant `yaml:"tenants,required"`
}

// A Tenant is the newcomer or a neighbour.
type Tenant struct {
	Name       string      `yaml:"name,required"`
	Objectives []Objective `yaml:"objectives,required"`
	// MinLoad and MaxLoad, in the unit of Seen.Load, bound the load under which observations count; 0 = no bound.
	MinLoad float64 `yaml:"min_load"`
	MaxLoad float64 `yaml:"max_load"`

	// Page is for an Endpoint: the address of the metrics page of the tenant's model server. vLLM and SGLang have ttft,
	// itl, tpot, e2e and queue in seconds; llama.cpp has only itl, a mean each second.
	// Counter is a counter of a Prometheus page: its metric is steps, a second.
	Page    string   `yaml:"page"`
	Counter *Counter `yaml:"counter"`
}

// Counter names a counter of a Prometheus page.
type Counter struct {
	URL  string `yaml:"url,required"`
	Name string `yaml:"name,required"`
}

// An Objective of a tenant for one metric: a share Quantile of the observations is within a limit. The limit is
// stated, or 1.3 times the prediction for the load, or for a neighbour that has neither 1.3 times its own quantile
// before the newcomer came.
type Objective struct {
	Metric   string  `yaml:"metric,required"` // such as ttft; the source gives it its meaning and its unit
	Quantile float64 `yaml:"quantile"`        // above 0 and below 1; 0 is 0.5
	Limit    float64 `yaml:"limit"`           // in the metric's unit; 0 = none is stated
	// Predicted is the quantile that is expected, by load, in ascending order of it.
	Predicted []Point `yaml:"predicted"`
	// AtLeast means that more is better, as for a rate of steps: the limit is the least, a prediction is divided by 1.3.
	AtLeast bool `yaml:"at_least"`
	// AfterPromotion keeps the objective from being a condition of promotion: it is watched on after it.
	AfterPromotion bool `yaml:"after_promotion"`
}

// Point holds a prediction at a load.
type Point struct {
	Load  float64 `yaml:"load,required"`
	Value float64 `yaml:"value,required"`
}

// allowance times a prediction is the limit of a tenant without a stated one.
const allowance = 1.3

// loadSlack is the factor by which a load may lie beyond those that a limit was made for.
const loadSlack = 1.25

// LoadPlan reads an Endpoint's plan from a YAML file. The error names every problem with its path in it; it wraps
// ErrDeadline where no test could keep the deadline.
func LoadPlan(path string) (Plan, error) {
	p, err := profile.ReadFile(path, func(data []byte) (p Plan, err error) {
		if err := strictyaml.Decode(data, &p, strictyaml.Options{MaxBytes: 1 << 20}); err != nil {
			return p, err
		}
		var l problem.List
		_, err = New(p)
		l.AddErr("", err)
		p.checkSources(&l)
		return p, l.Err()
	})
	if err != nil {
		err = fmt.Errorf("canary: %w", err)
	}
	return p, err
}

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
			l.If(o.Metric == steps && t.Counter == nil, at, "add counter", "nothing tells its steps")
			l.If(o.Metric == steps && !o.AtLeast, at, "add at_least: true", "more steps are better")
			l.If(o.Metric != steps && t.Page == "", at, "add page", "nothing tells its %s", o.Metric)
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
	part(&p.WrongTakeBack, 0.05, "wrong_take_back")
	p.PerDay = cmp.Or(p.PerDay, 20)
	l.If(p.PerDay < 0, "canaries_per_day", "use 1 or more", "%d", p.PerDay)
	l.If(len(p.Tenants) == 0, "tenants", "name the newcomer, then its neighbours", "none")
	p.Tenants = slices.Clone(p.Tenants)
	names := map[string]bool{}
	for i := range p.Tenants {
		t, at := &p.Tenants[i], fmt.Sprintf("tenants[%d]", i)
		l.If(t.Name == "" || names[t.Name], at+".name", "name each tenant once", "%q", t.Name)
		l.If(!(t.MinLoad >= 0) || !(t.MaxLoad >= 0) || t.MaxLoad > 0 && t.MaxLoad < t.MinLoad, at+".min_load",
			"use 0, or bounds in ascending order", "%v to %v", t.MinLoad, t.MaxLoad)
		names[t.Name] = true
		t.Objectives = slices.Clone(t.Objectives)
		gates := 0
		for k := range t.Objectives {
			o, at := &t.Objectives[k], fmt.Sprintf("%s.objectives[%d]", at, k)
			part(&o.Quantile, 0.5, at+".quantile")
			o.check(&l, at, i == 0)
			if !o.AfterPromotion {
				gates++
			}
		}
		l.If(gates == 0, at+".objectives", "add one that is a condition of promotion", "none decides")
	}
	return p, l.Err()
}

func (o *Objective) check(l *problem.List, at string, newcomer bool) {
	l.If(o.Metric == "", at+".metric", "name the metric", "it is empty")
	l.If(!(o.Limit >= 0) || math.IsInf(o.Limit, 0), at+".limit", "use the metric's unit, or leave it out", "%v", o.Limit)
	l.If(o.Limit > 0 && len(o.Predicted) > 0, at+".predicted", "leave one out", "there is a limit, too")
	l.If(newcomer && o.Limit == 0 && len(o.Predicted) == 0, at, "add limit or predicted",
		"nothing says what the newcomer is allowed")
	for j, p := range o.Predicted {
		l.If(!(p.Load > 0) || !(p.Value > 0) || j > 0 && p.Load <= o.Predicted[j-1].Load,
			fmt.Sprintf("%s.predicted[%d]", at, j), "use positive numbers in ascending order of the load", "%v", p)
	}
}

// scale widens a value by the allowance, to the side that the objective allows.
func (o *Objective) scale(v, by float64) float64 {
	if o.AtLeast {
		return v / by
	}
	return v * by
}

// at returns the prediction at a load, if the load is within the predicted range.
func (o *Objective) at(load float64) (float64, bool) {
	p := o.Predicted
	if !(load >= p[0].Load/loadSlack && load <= p[len(p)-1].Load*loadSlack) {
		return 0, false
	}
	load = min(max(load, p[0].Load), p[len(p)-1].Load)
	i := max(1, slices.IndexFunc(p, func(p Point) bool { return p.Load >= load }))
	if len(p) == 1 {
		return p[0].Value, true
	}
	part := (load - p[i-1].Load) / (p[i].Load - p[i-1].Load)
	return p[i-1].Value + part*(p[i].Value-p[i-1].Value), true
}
