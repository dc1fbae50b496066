// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
)

// schemaVersion is the version of the artifacts that this package writes.
const schemaVersion = 1

// Millis is a time in milliseconds.
type Millis float64

func millis(d time.Duration) Millis { return Millis(float64(d) / 1e6) }

// MarshalJSON writes it to a whole nanosecond, the resolution of the clock.
func (m Millis) MarshalJSON() ([]byte, error) { return json.Marshal(math.Round(float64(m)*1e6) / 1e6) }

// Figures describes a distribution in milliseconds. With Count 0 the other figures are meaningless, and the JSON has
// only the count.
type Figures struct {
	Count  int64  `json:"count"`
	Mean   Millis `json:"mean"`
	P50    Millis `json:"p50"`
	P90    Millis `json:"p90"`
	P95    Millis `json:"p95"`
	P99    Millis `json:"p99"`
	Max    Millis `json:"max"`
	Method string `json:"method"` // "exact" or "hdr"; see the definition of percentile
}

// MarshalJSON writes only the count of an empty distribution.
func (f Figures) MarshalJSON() ([]byte, error) {
	if f.Count == 0 {
		return []byte(`{"count":0}`), nil
	}
	type plain Figures
	return json.Marshal(plain(f))
}

// Counts counts requests.
type Counts struct {
	Total   int64           `json:"total"`
	OK      int64           `json:"ok"`
	Failed  int64           `json:"failed"` // all that are not ok, cancelled ones included
	ByClass map[Class]int64 `json:"by_class"`
	// Examples holds one error for each failed class, with credentials removed.
	Examples map[Class]string `json:"error_examples,omitempty"`
	Retries  int64            `json:"retries"`
	// Stale counts the retries because the server had closed a kept-alive connection before it read the request
	// (Record.Stale).
	Stale int64 `json:"stale_connections,omitempty"`
}

func (c *Counts) add(o *Counts) {
	for class, n := range o.ByClass {
		c.ByClass[class] += n
	}
	for class, text := range o.Examples {
		c.example(class, text)
	}
	c.Total += o.Total
	c.OK += o.OK
	c.Failed += o.Failed
	c.Retries += o.Retries
	c.Stale += o.Stale
}

func (c *Counts) took(r *Record) {
	c.ByClass[r.Class]++
	c.Total++
	if r.Class == ClassOK {
		c.OK++
	} else {
		c.Failed++
		c.example(r.Class, r.Error)
	}
	c.Retries += int64(r.Retries)
	if r.Stale {
		c.Stale++
	}
}

// example keeps the first error of a class.
func (c *Counts) example(class Class, text string) {
	if text == "" {
		return
	}
	if c.Examples == nil {
		c.Examples = map[Class]string{}
	}
	c.Examples[class] = cmp.Or(c.Examples[class], text)
}

// took adds an ok request to the sums.
func (m *Measures) took(r *Record) {
	m.PromptTokens += int64(r.PromptTokens)
	m.ReasoningTokens += int64(r.ReasoningTokens)
	m.HiddenTokens += int64(r.HiddenTokens)
	for _, c := range []struct {
		count *int64
		holds bool
	}{{&m.Refusals, r.Refused}, {&m.ShortAnswers, r.short()}, {&m.ShortIgnoringEOS, r.short() && r.IgnoreEOS},
		{&m.ImplausibleCounts, r.Implausible}} {
		if c.holds {
			*c.count++
		}
	}
}

// addSums adds the sums over requests of o.
func (m *Measures) addSums(o *Measures) {
	m.PromptTokens += o.PromptTokens
	m.ReasoningTokens += o.ReasoningTokens
	m.HiddenTokens += o.HiddenTokens
	m.Refusals += o.Refusals
	m.ShortAnswers += o.ShortAnswers
	m.ShortIgnoringEOS += o.ShortIgnoringEOS
	m.ImplausibleCounts += o.ImplausibleCounts
	m.OutputTokensFailed += o.OutputTokensFailed
}

// Goodput counts the requests that meet a tenant's SLO.
//
// In the totals it counts the requests of all tenants with an SLO, each against its own, or is absent.
type Goodput struct {
	SLO SLOFigures `json:"slo,omitzero"` // absent where tenants' differ
	Of  int64      `json:"of"`           // requests of the window that have an SLO
	Met int64      `json:"met"`          // known to have met it
	// Unknown counts the ok requests that lack a figure bounded by the SLO. With any of them the shares are missing.
	Unknown  int64             `json:"unknown,omitempty"`
	Fraction Optional[float64] `json:"fraction,omitzero"` // of Of
	PerS     Optional[float64] `json:"requests_per_s,omitzero"`
	// OutputTokens counts the window's output tokens of requests that met it. Absent with Unknown, and in summaries of
	// older versions.
	OutputTokens     Optional[int64]   `json:"output_tokens,omitzero"`
	OutputTokensPerS Optional[float64] `json:"output_tokens_per_s,omitzero"`
}

// SLOFigures are an SLO's bounds in milliseconds; 0 (absent) means none.
type SLOFigures struct {
	TTFT  Millis `json:"ttft_ms,omitempty"`
	TPOT  Millis `json:"tpot_ms,omitempty"`
	E2E   Millis `json:"e2e_ms,omitempty"`
	Stall Millis `json:"stall_ms,omitempty"`
}

// Measures are the figures of a tenant, or of all of them together.
type Measures struct {
	Counts        Counts  `json:"counts"`
	DurationS     float64 `json:"duration_s"`
	OfferedPerS   float64 `json:"offered_per_s"`
	CompletedPerS float64 `json:"completed_per_s"` // ok requests
	// Of ok requests; Record defines each figure for one.
	PromptTokens    int64 `json:"prompt_tokens"`
	ReasoningTokens int64 `json:"reasoning_tokens,omitempty"`
	HiddenTokens    int64 `json:"hidden_tokens,omitempty"`
	Refusals        int64 `json:"refusals,omitempty"` // requests
	// ShortAnswers counts the requests with answers known to have fewer tokens than requested, and
	// ShortIgnoringEOS those of them that requested exactly as many: a server that knows ignore_eos has none.
	ShortAnswers     int64 `json:"short_answers,omitempty"`
	ShortIgnoringEOS int64 `json:"short_ignoring_eos,omitempty"`
	// ImplausibleCounts counts the requests with token counts that contradict their stream.
	ImplausibleCounts int64 `json:"implausible_counts,omitempty"`
	// PromptCache is absent where no answer reports cached tokens.
	PromptCache        *PromptCache `json:"prompt_cache,omitempty"`
	OutputTokens       int64        `json:"output_tokens"`
	OutputTokensFailed int64        `json:"output_tokens_failed"`
	TokenSource        string       `json:"token_source"`
	ITLBasis           string       `json:"itl_basis,omitempty"`
	OutputTokensPerS   float64      `json:"output_tokens_per_s"`

	TTFT          Figures `json:"ttft_ms"`
	TTFTService   Figures `json:"ttft_service_ms"`
	TTFV          Figures `json:"ttfv_ms"`
	TPOT          Figures `json:"tpot_ms"`
	ChunkGap      Figures `json:"chunk_gap_ms"`
	ITL           Figures `json:"itl_ms"`
	E2E           Figures `json:"e2e_ms"`
	E2EService    Figures `json:"e2e_service_ms"`
	E2EClose      Figures `json:"e2e_close_ms"`
	ScheduleDelay Figures `json:"schedule_delay_ms"`
	Connected     Figures `json:"connected_ms"`
	Written       Figures `json:"written_ms"`
	FirstByte     Figures `json:"first_byte_ms"`

	Goodput *Goodput `json:"goodput,omitempty"` // absent without an SLO
}

// TenantSummary is one tenant's part of a summary.
type TenantSummary struct {
	Name  string `json:"name"`
	Model string `json:"model,omitempty"`
	API   string `json:"api"`
	Load  string `json:"load"` // e.g. "closed loop, concurrency 8" or "open loop, poisson 15/s"
	Measures
}

// WindowSummary is the interval that the figures cover.
type WindowSummary struct {
	FromNS int64 `json:"from_ns"` // Unix
	ToNS   int64 `json:"to_ns"`   // Unix
	Cut    bool  `json:"cut"`     // part of the run is outside the window
}

// Summary holds the figures of a run: the content of summary.json. The embedded Measures cover all tenants.
type Summary struct {
	SchemaVersion int    `json:"schema_version"`
	RunID         string `json:"run_id"`
	Scenario      string `json:"scenario,omitempty"`
	// Basis is "measured", or "simulated" when the plan says so.
	Basis string `json:"basis"`
	// Complete is false when the run was cut off before its end.
	Complete bool `json:"complete"`
	// Stopped is the reason why a run ended early.
	Stopped string        `json:"stopped,omitempty"`
	Window  WindowSummary `json:"window"`
	Measures
	Tenants      []TenantSummary   `json:"tenants"`
	ClientHealth ClientHealth      `json:"client_health"`
	Definitions  map[string]string `json:"definitions"`
}

// Tenant returns the named tenant's part.
func (s *Summary) Tenant(name string) (*TenantSummary, bool) {
	if i := slices.IndexFunc(s.Tenants, func(t TenantSummary) bool { return t.Name == name }); i >= 0 {
		return &s.Tenants[i], true
	}
	return nil, false
}

// Implausible returns a reason for each tenant with token counts that contradict the stream in more than a tenth of its
// ok requests; none if all counts are plausible.
func (s *Summary) Implausible() (reasons []string) {
	for i := range s.Tenants {
		if t := &s.Tenants[i]; 10*t.ImplausibleCounts > t.Counts.OK {
			reasons = append(reasons, fmt.Sprintf("%s: the token counts (%v) contradict the stream in %d of %d requests",
				t.Name, t.TokenSource, t.ImplausibleCounts, t.Counts.OK))
		}
	}
	return reasons
}

// Result holds a run's summary and its distributions.
type Result struct {
	Summary Summary
	// Histograms hold every distribution, by tenant.
	Histograms map[string]map[LatencyMetric]*Histogram
	// Timeline has one row per tenant and second.
	Timeline []TimelineRow
	// Records are the requests of the run, in the order in which they ended, when Options.KeepRecords is set.
	Records []Record
	// Dir is the run's directory, "" if it has none.
	Dir string
}

func (l OfferedLoad) describe() string {
	if l.open() {
		return "open loop, " + describe(l.Schedule)
	}
	s := fmt.Sprintf("closed loop, concurrency %d", l.Concurrency)
	if l.ThinkTime > 0 {
		s += fmt.Sprintf(", think time %v", l.ThinkTime)
	}
	if l.Ramp > 0 {
		s += fmt.Sprintf(", ramp %v", l.Ramp)
	}
	return s
}

// PromptCache measures the servers' prefix caches by the ok requests with answers that report cached tokens.
type PromptCache struct {
	Requests     int64 `json:"requests"` // that report cached tokens
	Hits         int64 `json:"hits"`     // of these, with any cached token
	PromptTokens int64 `json:"prompt_tokens"`
	CachedTokens int64 `json:"cached_tokens"`
	// HitRate is cached tokens over prompt tokens.
	HitRate Optional[float64] `json:"hit_rate,omitzero"`
}

func (c *PromptCache) took(r *Record) {
	cached, ok := r.CachedTokens.Get()
	if !ok {
		return
	}
	c.Requests++
	if cached > 0 {
		c.Hits++
	}
	c.PromptTokens += int64(r.PromptTokens)
	c.CachedTokens += int64(cached)
}

func (c *PromptCache) add(o *PromptCache) {
	c.Requests += o.Requests
	c.Hits += o.Hits
	c.PromptTokens += o.PromptTokens
	c.CachedTokens += o.CachedTokens
}

// rate computes the hit rate from the counts. c may be nil.
func (c *PromptCache) rate() {
	if c != nil && c.PromptTokens > 0 {
		c.HitRate = optional.Of(float64(c.CachedTokens) / float64(c.PromptTokens))
	}
}

func (s RequestSLO) figures() SLOFigures {
	return SLOFigures{millis(s.TTFT), millis(s.TPOT), millis(s.E2E), millis(s.Stall)}
}
