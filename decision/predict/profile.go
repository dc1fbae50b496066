package predict

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// SoloProfile is what was measured of one workload alone on a GPU, under one
// mechanism: what a Predictor predicts its co-location from. What is not known
// is nil, and makes predictions wider or impossible, never zero.
type SoloProfile struct {
	Version int `yaml:"version,required" json:"version"`
	// Mechanism it ran under: time-slicing (the uncontended baseline) or MPS
	// (what MPS costs a lone tenant).
	Mechanism sharing.Mechanism `yaml:"mechanism,required" json:"mechanism"`
	Server    Server            `yaml:"server,required" json:"server"`
	Load      Load              `yaml:"load,required" json:"load"`

	GPU    string `yaml:"gpu_name" json:"gpu_name,omitempty"` // product name; "" is unknown
	Driver string `yaml:"driver" json:"driver,omitempty"`
	Run    string `yaml:"run" json:"run,omitempty"` // which run measured it

	Requests   *int       `yaml:"requests" json:"requests,omitempty"`
	TokensPerS *float64   `yaml:"tokens_per_s" json:"tokens_per_s,omitempty"`
	TTFT       *LatencyMS `yaml:"ttft_ms" json:"ttft_ms,omitempty"`
	TPOT       *LatencyMS `yaml:"tpot_ms" json:"tpot_ms,omitempty"`
	ITL        *LatencyMS `yaml:"itl_ms" json:"itl_ms,omitempty"`
	E2E        *LatencyMS `yaml:"e2e_ms" json:"e2e_ms,omitempty"`

	// Shares of time or capacity over the run, 0 to 1.
	GPUBusyFraction *float64 `yaml:"gpu_busy_fraction" json:"gpu_busy_fraction,omitempty"` // GPM graphics_util
	SMFraction      *float64 `yaml:"sm_fraction" json:"sm_fraction,omitempty"`
	TensorFraction  *float64 `yaml:"tensor_fraction" json:"tensor_fraction,omitempty"`
	DRAMFraction    *float64 `yaml:"dram_fraction" json:"dram_fraction,omitempty"` // of peak bandwidth
	EngineFraction  *float64 `yaml:"engine_fraction" json:"engine_fraction,omitempty"`

	MemoryUsed *sharing.Bytes `yaml:"memory_used" json:"memory_used,omitempty"`
}

// Server is the configuration of a server under test, as any JSON object. Two
// servers are the same when their objects are. The keys "model", "slots"
// (requests served at once) and "sm_percent" (MPS active thread percentage)
// have a meaning.
type Server map[string]any

// Key is the server's canonical text.
func (s Server) Key() string {
	b, err := json.Marshal(map[string]any(s)) // map keys are sorted
	if err != nil {
		return fmt.Sprintf("%v", map[string]any(s))
	}
	return string(b)
}

// Model is the server's model, or "" when the object does not say.
func (s Server) Model() string {
	m, _ := s["model"].(string)
	return m
}

// SMPercent is the server's active thread percentage, 100 when not capped.
func (s Server) SMPercent() float64 {
	if v, ok := s.number("sm_percent"); ok {
		return v
	}
	return 100
}

// uncapped is the same server without an active thread percentage.
func (s Server) uncapped() Server {
	out := Server{}
	for k, v := range s {
		if k != "sm_percent" {
			out[k] = v
		}
	}
	return out
}

func (s Server) number(key string) (float64, bool) {
	switch v := s[key].(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// Load is what clients ask of a server: in a closed loop of Concurrency clients
// that each send the next request when the last one ends, or in an open loop of
// Rate requests a second (Poisson). Exactly one of the two is set.
type Load struct {
	Server      int     `yaml:"server" json:"server"` // index among a case's servers
	Concurrency int     `yaml:"concurrency" json:"concurrency,omitempty"`
	Rate        float64 `yaml:"rate" json:"rate,omitempty"` // requests a second
	Prompt      int     `yaml:"prompt,required" json:"prompt"`
	Output      int     `yaml:"output,required" json:"output"`
	Seed        *int    `yaml:"seed" json:"seed,omitempty"`
}

// Closed says that the load is a closed loop.
func (l Load) Closed() bool { return l.Concurrency > 0 }

// same is the load apart from the server's index and the seed: what two runs
// must have in common to be of the same workload.
func (l Load) same() Load {
	l.Server, l.Seed = 0, nil
	return l
}

// String returns the load in words, for example "4 clients, 128 in, 64 out".
func (l Load) String() string {
	if l.Closed() {
		return fmt.Sprintf("%d clients, %d in, %d out", l.Concurrency, l.Prompt, l.Output)
	}
	return fmt.Sprintf("%g requests/s, %d in, %d out", l.Rate, l.Prompt, l.Output)
}

// Validate names everything that is wrong with l in one error, or returns nil.
func (l Load) Validate() error {
	var list problem.List
	l.check(&list, "")
	return list.Err()
}

func (l Load) check(list *problem.List, path string) {
	switch {
	case l.Concurrency != 0 && l.Rate != 0:
		list.Addf(path, "leave one of them out", "has a concurrency and a rate")
	case l.Concurrency == 0 && l.Rate == 0:
		list.Addf(path, "set concurrency (closed loop) or rate (open loop)", "asks for nothing")
	case l.Concurrency < 0 || l.Concurrency > 1<<16:
		list.Addf(problem.Join(path, "concurrency"), "", "must lie between 1 and %d, is %d", 1<<16, l.Concurrency)
	case !(l.Rate >= 0 && l.Rate <= 1e5):
		list.Addf(problem.Join(path, "rate"), "", "must be positive and at most 1e5 requests a second, is %v", l.Rate)
	}
	if l.Prompt < 1 || l.Prompt > 1<<24 {
		list.Addf(problem.Join(path, "prompt"), "", "must be a number of tokens, at least 1, is %d", l.Prompt)
	}
	if l.Output < 1 || l.Output > 1<<24 {
		list.Addf(problem.Join(path, "output"), "", "must be a number of tokens, at least 1, is %d", l.Output)
	}
	if l.Server < 0 {
		list.Addf(problem.Join(path, "server"), "", "must be an index, is %d", l.Server)
	}
}

// LatencyMS are statistics of a latency in milliseconds. What was not measured is
// nil.
type LatencyMS struct {
	P50  *float64 `yaml:"p50" json:"p50,omitempty"`
	P90  *float64 `yaml:"p90" json:"p90,omitempty"`
	P95  *float64 `yaml:"p95" json:"p95,omitempty"`
	P99  *float64 `yaml:"p99" json:"p99,omitempty"`
	Mean *float64 `yaml:"mean" json:"mean,omitempty"`
}

func (m *LatencyMS) check(list *problem.List, path string) {
	if m == nil {
		return
	}
	last, lastName := 0.0, ""
	for _, s := range []struct {
		name string
		v    *float64
	}{{"p50", m.P50}, {"p90", m.P90}, {"p95", m.P95}, {"p99", m.P99}} {
		if s.v == nil {
			continue
		}
		if !(*s.v >= 0 && *s.v <= 1e9) {
			list.Addf(path+"."+s.name, "", "must lie between 0 and 1e9 ms, is %v", *s.v)
			continue
		}
		if *s.v < last {
			list.Addf(path+"."+s.name, "swap them or measure again", "%v is below %s, %v", *s.v, lastName, last)
		}
		last, lastName = *s.v, s.name
	}
	if m.Mean != nil && !(*m.Mean >= 0 && *m.Mean <= 1e9) {
		list.Addf(path+".mean", "", "must lie between 0 and 1e9 ms, is %v", *m.Mean)
	}
}

// p50 and mean read a statistic that may be missing.
func (m *LatencyMS) p50() (float64, bool) {
	if m == nil || m.P50 == nil || *m.P50 <= 0 {
		return 0, false
	}
	return *m.P50, true
}

func (m *LatencyMS) mean() (float64, bool) {
	if m == nil || m.Mean == nil || *m.Mean <= 0 {
		return 0, false
	}
	return *m.Mean, true
}

// ParseProfiles reads a list of profiles, YAML or JSON, strictly: the error
// names every problem with its path.
func ParseProfiles(data []byte) ([]SoloProfile, error) {
	var ps []SoloProfile
	if err := strictyaml.Decode(data, &ps, strictyaml.Options{}); err != nil {
		return nil, err
	}
	var list problem.List
	for i := range ps {
		ps[i].check(&list, fmt.Sprintf("[%d]", i))
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	return ps, nil
}

// Validate names everything that is wrong with p in one error, or returns nil.
func (p *SoloProfile) Validate() error {
	var list problem.List
	p.check(&list, "")
	return list.Err()
}

func (p *SoloProfile) check(list *problem.List, path string) {
	at := func(name string) string { return problem.Join(path, name) }
	if p.Version != Version {
		list.Addf(at("version"), fmt.Sprintf("this package reads %d", Version), "is %d", p.Version)
	}
	if p.Mechanism != sharing.MechanismTimeSlicing && p.Mechanism != sharing.MechanismMPS {
		list.Addf(at("mechanism"), "use time-slicing for a run without MPS", "is %s; a profile is taken under time-slicing or mps", p.Mechanism)
	}
	if len(p.Server) == 0 {
		list.Addf(at("server"), `say at least {"model": ...}`, "is empty")
	}
	if c := p.Server.SMPercent(); !(c > 0 && c <= 100) {
		list.Addf(at("server.sm_percent"), "", "must lie above 0 and at most at 100, is %v", c)
	}
	p.Load.check(list, at("load"))
	if p.Requests != nil && *p.Requests < 0 {
		list.Addf(at("requests"), "", "is negative")
	}
	if p.TokensPerS == nil || !(*p.TokensPerS > 0 && *p.TokensPerS <= 1e9) {
		list.Addf(at("tokens_per_s"), "measure the workload alone", "must be positive in a profile")
	}
	for _, m := range []struct {
		name string
		v    *LatencyMS
	}{{"ttft_ms", p.TTFT}, {"tpot_ms", p.TPOT}, {"itl_ms", p.ITL}, {"e2e_ms", p.E2E}} {
		m.v.check(list, at(m.name))
	}
	if p.Load.Output > 1 {
		if _, ok := p.ITL.p50(); !ok {
			list.Addf(at("itl_ms.p50"), "record the gaps between tokens: the median of them is one decode step", "is missing from a profile")
		}
		if _, ok := p.TPOT.p50(); !ok {
			list.Addf(at("tpot_ms.p50"), "", "is missing from a profile")
		}
	}
	if _, ok := p.E2E.p50(); !ok {
		list.Addf(at("e2e_ms.p50"), "", "is missing from a profile")
	}
	for _, f := range []struct {
		name string
		v    *float64
	}{{"gpu_busy_fraction", p.GPUBusyFraction}, {"sm_fraction", p.SMFraction}, {"tensor_fraction", p.TensorFraction},
		{"dram_fraction", p.DRAMFraction}, {"engine_fraction", p.EngineFraction}} {
		if f.v != nil && !(*f.v >= 0 && *f.v <= 1.02) { // counters overshoot a little
			list.Addf(at(f.name), "give a fraction of 1", "must lie between 0 and 1, is %v", *f.v)
		}
	}
}

// Profiles finds the profile of a workload. The zero value is empty.
type Profiles struct {
	byKey map[profileKey]*SoloProfile
	order []*SoloProfile
}

type profileKey struct {
	mechanism sharing.Mechanism
	server    string
	load      Load
}

// Add adds valid profiles. Of two profiles of the same workload under the same
// mechanism the one with more requests counts, and of equals the first.
func (ps *Profiles) Add(profiles ...SoloProfile) error {
	var list problem.List
	for i := range profiles {
		profiles[i].check(&list, fmt.Sprintf("[%d]", i))
	}
	if err := list.Err(); err != nil {
		return err
	}
	if ps.byKey == nil {
		ps.byKey = map[profileKey]*SoloProfile{}
	}
	for _, p := range profiles {
		key := profileKey{p.Mechanism, p.Server.Key(), p.Load.same()}
		old, ok := ps.byKey[key]
		switch {
		case !ok:
			added := p
			ps.byKey[key] = &added
			ps.order = append(ps.order, &added)
		case count(p.Requests) > count(old.Requests):
			*old = p
		}
	}
	return nil
}

func count(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// Len is the number of profiles.
func (ps *Profiles) Len() int { return len(ps.order) }

func (ps *Profiles) find(m sharing.Mechanism, s Server, l Load) *SoloProfile {
	return ps.byKey[profileKey{m, s.Key(), l.same()}]
}

// Solo is all that is known of a workload alone: what a prediction starts from.
type Solo struct {
	Server Server
	Load   Load
	// TimeSlicing and MPS are the profiles under each mechanism; nil when there
	// is none.
	TimeSlicing, MPS *SoloProfile
	// Siblings are profiles of the same server at any load, which tell its
	// prefill's use of the SMs from its decode's.
	Siblings []*SoloProfile
	// CapPercent is the active thread percentage that was not measured alone, to
	// which MPS's profile must be scaled; 0 when there is nothing to scale.
	CapPercent float64
}

// Solo returns what ps knows of a workload. A server with an active thread
// percentage that was not measured alone falls back to the same server without
// one. ErrNoProfile says that there is nothing to predict from.
func (ps *Profiles) Solo(s Server, l Load) (Solo, error) {
	solo := Solo{Server: s, Load: l, TimeSlicing: ps.find(sharing.MechanismTimeSlicing, s, l), MPS: ps.find(sharing.MechanismMPS, s, l)}
	from := s
	if solo.MPS == nil && s.SMPercent() < 100 {
		from = s.uncapped()
		solo.MPS, solo.CapPercent = ps.find(sharing.MechanismMPS, from, l), s.SMPercent()
	}
	if solo.TimeSlicing == nil && s.SMPercent() < 100 {
		solo.TimeSlicing = ps.find(sharing.MechanismTimeSlicing, s.uncapped(), l) // a cap is MPS's; it means nothing here
	}
	if solo.MPS == nil && solo.TimeSlicing == nil {
		return Solo{}, fmt.Errorf("%w: %s with %s", ErrNoProfile, s.Key(), l)
	}
	key := from.Key()
	for _, p := range ps.order {
		if p.Server.Key() == key {
			solo.Siblings = append(solo.Siblings, p)
		}
	}
	return solo, nil
}

// logRatio is the distance of two positive numbers on the scale of ratios.
func logRatio(a, b float64) float64 { return math.Abs(math.Log(a / b)) }

// nearestRank is the q-quantile of sorted values: the smallest that a share q
// of them does not exceed.
func nearestRank(sorted []float64, q float64) float64 {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
