package loadgen

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
)

// ErrMerge says that results do not belong together.
var ErrMerge = errors.New("loadgen: results cannot be merged")

// Merge puts the results of workers that shared one plan's load together: counts and tokens add, histograms merge,
// rates are over the longest worker's time. Tenants are matched by name. Times of different machines are never
// compared. Results whose token sources differ, which belong to different plans or which are the same run do not merge;
// every contradiction is named. The inputs stay as they are.
func Merge(results ...*Result) (*Result, error) {
	if len(results) == 0 {
		return nil, fmt.Errorf("%w: none given", ErrMerge)
	} else if i := slices.Index(results, nil); i >= 0 {
		return nil, fmt.Errorf("%w: results[%d] is nil (leave it out)", ErrMerge, i)
	}
	if err := mergeable(results); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMerge, err)
	}
	first := &results[0].Summary
	out := &Result{Summary: Summary{
		SchemaVersion: SchemaVersion, RunID: first.RunID, Scenario: first.Scenario, Basis: first.Basis, Complete: true,
		Window:      first.Window,
		Definitions: Definitions(), SteadyState: SteadyState{Verdict: "unknown", Reason: "merged from several workers"},
	}}
	sum := &out.Summary
	health := &sum.ClientHealth
	health.Valid, health.Reasons = true, []string{}
	merged := map[string]*TenantHistograms{}
	totals := map[LatencyMetric]*Histogram{}
	for _, r := range results {
		s := &r.Summary
		sum.Workers += max(s.Workers, 1)
		sum.Complete = sum.Complete && s.Complete
		sum.Stopped = strings.TrimPrefix(sum.Stopped+"; "+s.Stopped, "; ")
		sum.Window.FromNS, sum.Window.ToNS = min(sum.Window.FromNS, s.Window.FromNS), max(sum.Window.ToNS, s.Window.ToNS)
		health.merge(&s.ClientHealth)
		sum.add(&s.Measures)
		for i := range s.Tenants {
			t := &s.Tenants[i]
			at := slices.IndexFunc(sum.Tenants, func(have TenantSummary) bool { return have.Name == t.Name })
			if at < 0 {
				at = len(sum.Tenants)
				sum.Tenants = append(sum.Tenants,
					TenantSummary{Name: t.Name, Model: t.Model, API: t.API, Load: t.Load})
				merged[t.Name] = &TenantHistograms{Tenant: t.Name, ByMetric: map[LatencyMetric]*Histogram{}}
			}
			sum.Tenants[at].add(&t.Measures)
		}
		for _, th := range r.Histograms {
			mergeInto(totals, th.ByMetric)
			if into := merged[th.Tenant]; into != nil {
				mergeInto(into.ByMetric, th.ByMetric)
			}
		}
	}
	sum.Stopped = strings.Trim(sum.Stopped, "; ")
	sum.rates()
	sum.fill(totals)
	for i := range sum.Tenants {
		t := &sum.Tenants[i]
		t.rates()
		t.fill(merged[t.Name].ByMetric)
		out.Histograms = append(out.Histograms, *merged[t.Name])
	}
	health.SendLag, health.PacingLag, health.ReadLag = totals[MetricSendLag].Figures(), totals[MetricPacingLag].Figures(),
		totals[MetricReadLag].Figures()
	return out, nil
}

func mergeInto(into, more map[LatencyMetric]*Histogram) {
	for m, h := range more {
		if into[m] == nil {
			into[m] = NewHistogram()
		}
		into[m].Merge(h)
	}
}

// mergeable names everything that keeps results from belonging together.
func mergeable(results []*Result) error {
	var l problem.List
	first := &results[0].Summary
	sources := map[string]TokenSource{}
	for i, r := range results {
		s, at := &r.Summary, fmt.Sprintf("results[%d]", i)
		if k := slices.IndexFunc(results[:i], func(o *Result) bool { return reflect.DeepEqual(o.Summary, *s) }); k >= 0 {
			l.Addf(at, "give each run once", "%s holds the run of results[%d] %s", r.Dir, k, results[k].Dir)
		}
		l.If(s.Scenario != first.Scenario, at+".scenario", "merge the workers of one plan", "%q, the first has %q",
			s.Scenario, first.Scenario)
		l.If(s.Basis != first.Basis, at+".basis", "never mix simulated with measured", "%q, the first is %q", s.Basis,
			first.Basis)
		for j := range s.Tenants {
			t := &s.Tenants[j]
			if t.Counts.OK == 0 {
				continue
			}
			have, ok := sources[t.Name]
			l.If(ok && have != t.TokenSource, fmt.Sprintf("%s.tenants[%d].token_source", at, j),
				"make every server report usage, or none", "%v, another worker has %v", t.TokenSource, have)
			sources[t.Name] = t.TokenSource
		}
	}
	return l.Err()
}

// add adds another worker's counts; rates and distributions come later.
func (m *Measures) add(o *Measures) {
	if m.Counts.ByClass == nil {
		m.Counts.ByClass = map[Class]int64{}
	}
	m.Counts.add(&o.Counts)
	m.DurationS = max(m.DurationS, o.DurationS)
	m.AnswerSums.add(o.AnswerSums)
	addCache(&m.PromptCache, o.PromptCache)
	m.OutputTokens += o.OutputTokens
	m.OutputTokensFailed += o.OutputTokensFailed
	if o.Counts.OK > 0 {
		m.TokenSource = o.TokenSource
		if m.ITLBasis = cmp.Or(m.ITLBasis, o.ITLBasis); m.ITLBasis != o.ITLBasis {
			m.ITLBasis = "mixed"
		}
	}
	m.addGoodput(o)
}

// addGoodput adds another's goodput; rates come later.
func (m *Measures) addGoodput(o *Measures) {
	if o.Goodput == nil {
		return
	}
	m.Goodput = cmp.Or(m.Goodput, &Goodput{SLO: o.Goodput.SLO, OutputTokens: optional.Of(int64(0))})
	if m.Goodput.SLO != o.Goodput.SLO {
		m.Goodput.SLO = SLOFigures{}
	}
	m.Goodput.Of += cmp.Or(o.Goodput.Of, o.Counts.Total) // older summaries do not say
	m.Goodput.Met += o.Goodput.Met
	m.Goodput.Unknown += o.Goodput.Unknown
	have, ok := m.Goodput.OutputTokens.Get()
	more, known := o.Goodput.OutputTokens.Get()
	m.Goodput.OutputTokens = Optional[int64]{}
	if ok && known {
		m.Goodput.OutputTokens = optional.Of(have + more)
	}
}

// rates computes what follows from counts and duration.
func (m *Measures) rates() {
	m.PromptCache.rate()
	if g := m.Goodput; g != nil && g.Unknown == 0 && g.Of > 0 {
		g.Fraction = optional.Of(float64(g.Met) / float64(g.Of))
	}
	if m.DurationS <= 0 {
		return
	}
	m.OfferedPerS = float64(m.Counts.Total) / m.DurationS
	m.CompletedPerS = float64(m.Counts.OK) / m.DurationS
	m.OutputTokensPerS = float64(m.OutputTokens) / m.DurationS
	if g := m.Goodput; g != nil && g.Unknown == 0 {
		g.PerS = optional.Of(float64(g.Met) / m.DurationS)
		if n, ok := g.OutputTokens.Get(); ok {
			g.OutputTokensPerS = optional.Of(float64(n) / m.DurationS)
		}
	}
}

// merge adds another worker's health: sums of counts, the worst of the rest.
func (h *ClientHealth) merge(o *ClientHealth) {
	h.Valid = h.Valid && o.Valid
	for _, r := range o.Reasons {
		if !slices.Contains(h.Reasons, r) {
			h.Reasons = append(h.Reasons, r)
		}
	}
	join := func(have *string, more string) {
		if *have = cmp.Or(*have, more); more != "" && *have != more {
			*have = "mixed"
		}
	}
	join(&h.Pacer, o.Pacer)
	join(&h.MergedBy, o.MergedBy)
	h.ReadCounts.add(o.ReadCounts)
	h.Stamps = h.stamps()
	h.ClientLimits += o.ClientLimits
	h.GCPauses += o.GCPauses
	h.GCPauseMaxMS = max(h.GCPauseMaxMS, o.GCPauseMaxMS)
	h.SchedulingP99MS = max(h.SchedulingP99MS, o.SchedulingP99MS)
	if cpu, ok := o.CPUSeconds.Get(); ok {
		h.CPUSeconds = optional.Of(h.CPUSeconds.Or(0) + cpu)
		h.CPUFraction = optional.Of(max(h.CPUFraction.Or(0), o.CPUFraction.Or(0)))
	}
	h.GOMAXPROCS = max(h.GOMAXPROCS, o.GOMAXPROCS)
	h.ArtifactProblems += o.ArtifactProblems
}

// SaveResult writes a merged result's summary and histograms into dir, which must not exist or must be empty.
func SaveResult(dir string, res *Result) error {
	d, err := newRunDir(dir, newScrubber(nil))
	if err != nil {
		return err
	}
	lines, err := histogramLines(res.Histograms)
	if err != nil {
		return errors.Join(err, d.abandon())
	}
	return errors.Join(d.requests.discard(), d.remove(reserveFile), d.write(ArtifactHistograms, lines),
		d.writeJSON(ArtifactSummary, &res.Summary))
}
