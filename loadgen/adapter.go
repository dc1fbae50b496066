package loadgen

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
)

// AdapterMix distributes a tenant's requests over several models: the names under which a server offers its LoRA
// adapters. The zero value is none. The model of a request depends on the plan's seed and the request's number
// alone; all requests of a session have the same one.
//
//	tenant.Adapters = loadgen.AdapterMix{Names: []string{"sql", "chat", "law"}, Shares: []float64{70, 20, 10}}
type AdapterMix struct {
	Names []string `yaml:"names" json:"names"`
	// Shares weight the names: each is asked for in proportion to its share. nil means by Zipf.
	Shares []float64 `yaml:"shares" json:"shares,omitempty"`
	// Zipf is the exponent of popularity: the k-th name is asked for in proportion to 1/k^Zipf. 0 means equally often.
	Zipf float64 `yaml:"zipf" json:"zipf,omitempty"`
}

// maxAdapters bounds the models that a tenant reports by name: each has distributions of its own.
const maxAdapters = 256

// otherAdapters is the name under which a tenant reports the models that come after the first maxAdapters.
const otherAdapters = "(others)"

func (m *AdapterMix) check(l *problem.List, path string) {
	seen := map[string]bool{}
	for i, name := range m.Names {
		at := fmt.Sprintf("%s.names[%d]", path, i)
		l.If(name == "", at, "write the name that the server knows it by", "empty")
		l.If(seen[name], at, "name each once", "%q twice", name)
		seen[name] = true
	}
	l.If(len(m.Names) > maxAdapters, path+".names", "spread them over several tenants", "%d are more than %d",
		len(m.Names), maxAdapters)
	l.If(m.Shares != nil && len(m.Shares) != len(m.Names), path+".shares", "give one for each name", "%d for %d names",
		len(m.Shares), len(m.Names))
	l.If(m.Shares != nil && m.Zipf != 0, path+".zipf", "keep one of the two", "has no effect beside shares")
	l.If(m.Zipf != 0 && len(m.Names) < 2, path+".zipf", "name at least two", "has no effect on %d names", len(m.Names))
	l.If(!(m.Zipf >= 0) || math.IsInf(m.Zipf, 0), path+".zipf", "use a finite value of 0 or more", "is %v", m.Zipf)
	for i, s := range m.Shares {
		l.If(!(s > 0) || math.IsInf(s, 0), fmt.Sprintf("%s.shares[%d]", path, i), "use a finite number above 0", "is %v", s)
	}
}

type adapterPicker struct {
	names   []string
	weights []float64 // cumulative
}

func newAdapterPicker(m *AdapterMix) adapterPicker {
	p := adapterPicker{names: m.Names}
	total := 0.0
	for i := range m.Names {
		w := math.Pow(float64(i+1), -m.Zipf)
		if m.Shares != nil {
			w = m.Shares[i]
		}
		total += w
		p.weights = append(p.weights, total)
	}
	return p
}

// pick returns the model of a session, or of the n-th prompt if it has none; "" without names.
func (p *adapterPicker) pick(seed uint64, session string, n int64) string {
	if len(p.names) == 0 {
		return ""
	}
	key := uint64(n)
	if session != "" {
		h := fnv.New64a()
		h.Write([]byte(session))
		key = h.Sum64()
	}
	at := rand.New(rand.NewPCG(seed, key)).Float64() * p.weights[len(p.weights)-1]
	return p.names[min(sort.SearchFloat64s(p.weights, at), len(p.names)-1)]
}

// adapter returns the model that a request asks for in place of its tenant's, "" where it asks for the tenant's.
func (p *Prompt) adapter(t *Tenant) string {
	if p.Model == t.Model {
		return ""
	}
	return p.Model
}

// AdapterSummary holds the figures of a tenant's requests that asked for one model in
// place of the tenant's. The latencies are those of Measures, over ok requests.
type AdapterSummary struct {
	Name         string       `json:"name"`
	Requests     int64        `json:"requests"`
	OK           int64        `json:"ok"`
	Failed       int64        `json:"failed"`
	PromptTokens int64        `json:"prompt_tokens"`
	PromptCache  *PromptCache `json:"prompt_cache,omitempty"`
	OutputTokens int64        `json:"output_tokens"`
	TTFT         Figures      `json:"ttft_ms"`
	TPOT         Figures      `json:"tpot_ms"`
	E2E          Figures      `json:"e2e_ms"`
	// Met counts the requests known to have kept the tenant's SLO, absent without one.
	Met *int64 `json:"slo_met,omitempty"`
}

// adapterMetrics are those of which a distribution is kept for each adapter.
var adapterMetrics = [...]LatencyMetric{MetricTTFT, MetricTPOT, MetricE2E}

type adapterFigures struct {
	sum     AdapterSummary
	cache   PromptCache
	metrics map[LatencyMetric]*Histogram
}

// ofAdapter takes a request of the window that is over.
func (c *collector) ofAdapter(r *Record) {
	if r.Adapter == "" {
		return
	}
	name := r.Adapter
	if c.adapters == nil {
		c.adapters = map[string]*adapterFigures{}
	}
	if c.adapters[name] == nil && len(c.adapters) >= maxAdapters {
		name = otherAdapters
	}
	f := c.adapters[name]
	if f == nil {
		f = &adapterFigures{sum: AdapterSummary{Name: name}, metrics: map[LatencyMetric]*Histogram{}}
		for _, m := range adapterMetrics {
			f.metrics[m] = newExactHistogram()
		}
		if !c.slo.IsZero() {
			f.sum.Met = new(int64)
		}
		c.adapters[name] = f
	}
	f.sum.Requests++
	if r.Class != ClassOK {
		f.sum.Failed++
		return
	}
	f.sum.OK++
	f.sum.PromptTokens += int64(r.PromptTokens)
	f.sum.OutputTokens += int64(r.OutputTokens)
	f.cache.took(r)
	if kept, known := r.Meets(c.slo).Get(); known && kept && f.sum.Met != nil {
		*f.sum.Met++
	}
	for i, of := range [...]func() (time.Duration, bool){r.TTFT, r.TPOT, r.E2E} {
		if d, ok := of(); ok {
			f.metrics[adapterMetrics[i]].Record(d)
		}
	}
}

// adapterSummaries are in the order of their names.
func (c *collector) adapterSummaries() []AdapterSummary {
	var out []AdapterSummary
	for _, name := range slices.Sorted(maps.Keys(c.adapters)) {
		f := c.adapters[name]
		s := f.sum
		if f.cache.Requests > 0 {
			f.cache.rate()
			s.PromptCache = &f.cache
		}
		s.fill(f.metrics)
		out = append(out, s)
	}
	return out
}

func (c *collector) adapterHistograms() map[string]map[LatencyMetric]*Histogram {
	if len(c.adapters) == 0 {
		return nil
	}
	out := make(map[string]map[LatencyMetric]*Histogram, len(c.adapters))
	for name, f := range c.adapters {
		out[name] = f.metrics
	}
	return out
}

func (s *AdapterSummary) fill(h map[LatencyMetric]*Histogram) {
	s.TTFT, s.TPOT, s.E2E = h[MetricTTFT].Figures(), h[MetricTPOT].Figures(), h[MetricE2E].Figures()
}

// addAdapters adds another worker's counts; distributions come later.
func (t *TenantSummary) addAdapters(more []AdapterSummary) {
	for i := range more {
		o := &more[i]
		at, found := slices.BinarySearchFunc(t.Adapters, o.Name,
			func(s AdapterSummary, name string) int { return strings.Compare(s.Name, name) })
		if !found {
			t.Adapters = slices.Insert(t.Adapters, at, AdapterSummary{Name: o.Name})
		}
		s := &t.Adapters[at]
		s.Requests += o.Requests
		s.OK += o.OK
		s.Failed += o.Failed
		s.PromptTokens += o.PromptTokens
		s.OutputTokens += o.OutputTokens
		addCache(&s.PromptCache, o.PromptCache)
		if o.Met != nil {
			s.Met = cmp.Or(s.Met, new(int64))
			*s.Met += *o.Met
		}
	}
}

func (t *TenantSummary) fillAdapters(h map[string]map[LatencyMetric]*Histogram) {
	for i := range t.Adapters {
		s := &t.Adapters[i]
		s.PromptCache.rate()
		s.fill(h[s.Name])
	}
}
