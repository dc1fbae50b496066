// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
	"testing"
	"time"

	phist "github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/cotenant/cotenant/cost"
)

// series is a counter that goes up by rate each second, read every 10 s.
func series(rate float64, of ...string) storage.Series {
	var samples []chunks.Sample
	for at := range int64(720) {
		samples = append(samples, sample{at * 10_000, rate * 10 * float64(at)})
	}
	return storage.NewListSeries(labels.FromStrings(append(of, "namespace", "s", "container", "c")...), samples)
}

// sample is a chunks.Sample.
type sample struct {
	at int64
	v  float64
}

func (s sample) ST() int64                 { return 0 }
func (s sample) T() int64                  { return s.at }
func (s sample) F() float64                { return s.v }
func (s sample) H() *phist.Histogram       { return nil }
func (s sample) FH() *phist.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType  { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample       { return s }

// seriesSet is a storage.SeriesSet of a list.
type seriesSet struct {
	list []storage.Series
	at   int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.list) }
func (s *seriesSet) At() storage.Series                { return s.list[s.at] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// TestPerMillion holds the recording rules against the function that the other programs use: a million tokens at a
// tenant's price and rate. Idle time counts, and a tenant that served nothing has no figure.
func TestPerMillion(t *testing.T) {
	hour, err := cost.ParsePrice("3.60 USD")
	if err != nil {
		t.Fatal(err)
	}
	perSecond := float64(hour.Micros()) / 3600
	rates := map[string]float64{"prompt": 4000, "generation": 1250}
	all := map[string][]storage.Series{
		mCost: {
			series(perSecond/4, "pod", "p", "account", "tenant", "mechanism", "mps"), series(perSecond*3/4, "pod", "p", "account", "held-idle", "mechanism", "mps"),
			series(perSecond, "pod", "other", "account", "tenant", "mechanism", "mps"),
		},
		"vllm:prompt_tokens_total":       {series(rates["prompt"], "pod", "p")},
		"sglang:generation_tokens_total": {series(rates["generation"], "pod", "p"), series(0, "pod", "other")},
	}
	q := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, match ...*labels.Matcher) storage.SeriesSet {
		var out []storage.Series
		for _, s := range all[match[len(match)-1].Value] {
			if !slices.ContainsFunc(match[:len(match)-1], func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
				out = append(out, s)
			}
		}
		return &seriesSet{out, -1}
	}}}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	for _, r := range ruleGroups(t)[0].Rules {
		if r.Record != "cotenant:tenant_tokens:micros_per_million" {
			continue
		}
		query, err := engine.NewInstantQuery(t.Context(), q, nil, r.Expr, time.Unix(7190, 0))
		if err != nil {
			t.Fatal(err)
		}
		kind := r.Labels["kind"]
		v, err := query.Exec(t.Context()).Vector()
		if err != nil || len(v) != 1 {
			t.Fatalf("%s: %v, %v", kind, v, err)
		}
		want, err := cost.PerUnits(hour, 1e6, rates[kind])
		if m := v[0].Metric; err != nil || math.Round(v[0].F) != float64(want.Micros()) || m.Get("pod") != "p" || m.Get("mechanism") != "mps" {
			t.Errorf("%s: %v, want %v, %v", kind, v[0], want, err)
		}
		delete(rates, kind)
	}
	if len(rates) != 0 {
		t.Errorf("no rule for %v", rates)
	}
}
