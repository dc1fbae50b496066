package report

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/loadgen"
)

// SyntheticNote heads texts of simulated runs.
const SyntheticNote = "SYNTHETIC: from a simulated GPU, not a measurement of a real one"

func synthetic(s *loadgen.Summary) bool { return s.Basis != "measured" }

// LoadLevel is the load that a run offered: users of closed loops, or the rate of open ones.
type LoadLevel struct {
	Value float64
	Unit  string // UnitUsers, UnitRate, or UnitMixed (Value is then 0)
	Text  string // e.g. "8 users"; both where there are both
}

// The units of a LoadLevel.
const (
	UnitUsers = "users"
	UnitRate  = "requests/s"
	UnitMixed = "mixed" // closed and open loops together: no single level
)

// LevelOf returns the load that a run offered.
func LevelOf(s *loadgen.Summary) LoadLevel {
	users, rate := 0.0, 0.0
	for i := range s.Tenants {
		t := &s.Tenants[i]
		if after, closed := strings.CutPrefix(t.Load, "closed loop, concurrency "); closed {
			n, _, _ := strings.Cut(after, ",")
			if v, err := strconv.ParseFloat(n, 64); err == nil {
				users += v
			}
			continue
		}
		rate += offered(t)
	}
	usersText, rateText := fmt.Sprintf("%v %s", users, UnitUsers), fmt.Sprintf("%v %s", rate, UnitRate)
	switch {
	case rate > 0 && users > 0:
		return LoadLevel{0, UnitMixed, usersText + ", " + rateText}
	case rate > 0:
		return LoadLevel{rate, UnitRate, rateText}
	}
	return LoadLevel{users, UnitUsers, usersText}
}

// offered is the rate that the schedule was to offer, or what it did offer where that is not one number.
func offered(t *loadgen.TenantSummary) float64 {
	fields := strings.Fields(t.Load)
	if i := slices.IndexFunc(fields,
		func(f string) bool { return f == "constant" || f == "poisson" || f == "gamma" }); i >= 0 && i+1 < len(fields) {
		if v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSuffix(fields[i+1], ","), "/s"), 64); err == nil {
			return v
		}
	}
	return math.Round(t.OfferedPerS*100) / 100
}

// Scenario is the runs of a scenario under one load. Figures are medians over the runs.
type Scenario struct {
	Scenario    string  `json:"scenario"`
	Load        string  `json:"load"` // e.g. "8 users" or "15 requests/s"
	Level       float64 `json:"level,omitempty"`
	Unit        string  `json:"unit"` // of Level; see LoadLevel
	Runs        int     `json:"runs"`
	TokensPerS  float64 `json:"output_tokens_per_s"`
	P99S        float64 `json:"e2e_p99_s,omitempty"` // 0 when nothing succeeded
	OK          int64   `json:"ok"`
	Failed      int64   `json:"failed"`
	Simulated   bool    `json:"simulated"`
	Invalid     int     `json:"invalid_runs"`
	CutOff      int     `json:"cut_off_runs,omitempty"`   // ended before their time
	P99IsMax    bool    `json:"p99_is_maximum,omitempty"` // fewer than 100 requests in a run
	FailuresInf bool    `json:"p99_infinite_with_failures,omitempty"`
}

// Scenarios is the table of an LLM-serving study: throughput and P99 latency by scenario and load.
type Scenarios []Scenario

// ScenariosOf puts runs into the table, scenarios in the order in which they appear and loads from the lowest.
func ScenariosOf(results []*loadgen.Result) Scenarios {
	groups := map[Scenario][]*loadgen.Summary{}
	var keys []Scenario
	first := map[string]int{}
	for _, r := range results {
		s := &r.Summary
		l := LevelOf(s)
		k := Scenario{Scenario: s.Scenario, Level: l.Value, Unit: l.Unit, Load: l.Text, Simulated: synthetic(s)}
		if groups[k] == nil {
			keys = append(keys, k)
		}
		if _, seen := first[s.Scenario]; !seen {
			first[s.Scenario] = len(keys)
		}
		groups[k] = append(groups[k], s)
	}
	var rows Scenarios
	for _, k := range keys {
		row := k
		var tokens, p99 []float64
		for _, s := range groups[k] {
			row.Runs++
			row.OK += s.Counts.OK
			row.Failed += s.Counts.Failed
			if !s.ClientHealth.Valid || len(s.Implausible()) > 0 {
				row.Invalid++
			}
			if !s.Complete {
				row.CutOff++
			}
			tokens = append(tokens, s.OutputTokensPerS)
			if s.E2E.Count > 0 {
				p99 = append(p99, float64(s.E2E.P99)/1e3)
				row.P99IsMax = row.P99IsMax || s.E2E.Count < 100
			}
			row.FailuresInf = row.FailuresInf || math.IsInf(float64(s.E2EFailuresInfinite.P99), 1)
		}
		slices.Sort(tokens)
		slices.Sort(p99)
		row.TokensPerS = medianOf(tokens)
		if len(p99) > 0 {
			row.P99S = medianOf(p99)
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b Scenario) int {
		return cmp.Or(cmp.Compare(first[a.Scenario], first[b.Scenario]), cmp.Compare(a.Unit, b.Unit),
			cmp.Compare(a.Level, b.Level))
	})
	return rows
}

// remarks returns the reservations that belong to the row's figures.
func (r *Scenario) remarks() string {
	var m []string
	if r.Simulated {
		m = append(m, "SYNTHETIC")
	}
	if r.Invalid > 0 {
		m = append(m, fmt.Sprintf("%d of %d INVALID", r.Invalid, r.Runs))
	}
	if r.CutOff > 0 {
		m = append(m, fmt.Sprintf("%d of %d cut off", r.CutOff, r.Runs))
	}
	if all := r.OK + r.Failed; r.Failed > 0 {
		m = append(m, fmt.Sprintf("%.3g%% failed", 100*float64(r.Failed)/float64(all)))
	}
	if r.P99IsMax {
		m = append(m, "P99 is the maximum")
	}
	if r.FailuresInf {
		m = append(m, "P99 infinite with failures")
	}
	return strings.Join(m, ", ")
}

func (r *Scenario) p99() string {
	if r.P99S == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", r.P99S)
}

func (rows Scenarios) synthetic() bool {
	return slices.ContainsFunc(rows, func(r Scenario) bool { return r.Simulated })
}

// WriteText writes the table for people.
func (rows Scenarios) WriteText(w io.Writer) error {
	b := bufio.NewWriter(plaintext.NewWriter(w))
	if rows.synthetic() {
		fmt.Fprintln(b, SyntheticNote)
	}
	unit := "Concurrency"
	if slices.ContainsFunc(rows, func(r Scenario) bool { return r.Unit != UnitUsers }) {
		unit = "Load"
	}
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "Scenario\t%s\tThroughput (tokens/s)\tP99 latency (s)\tok\tfailed\truns\t\n", unit)
	for i := range rows {
		r := &rows[i]
		load := r.Load
		if unit == "Concurrency" {
			load = fmt.Sprint(r.Level)
		}
		fmt.Fprintf(tw, "%s\t%s\t%.1f\t%s\t%d\t%d\t%d\t%s\n", r.Scenario, load, r.TokensPerS, r.p99(), r.OK, r.Failed, r.Runs,
			r.remarks())
	}
	return errors.Join(tw.Flush(), b.Flush())
}

// Slowdown compares a tenant with neighbours to the same tenant alone. A factor
// is with/alone; it is missing when one of the two is not known.
type Slowdown struct {
	Tenant string `json:"tenant"`
	With   string `json:"with"`  // run id of the co-located run
	Alone  string `json:"alone"` // run id of the solo run
	Basis  string `json:"basis"` // measured, or simulated when one of the two is

	TTFTP50      Optional[float64] `json:"ttft_p50_factor,omitzero"`
	TTFTP99      Optional[float64] `json:"ttft_p99_factor,omitzero"`
	TPOTP50      Optional[float64] `json:"tpot_p50_factor,omitzero"`
	TPOTP99      Optional[float64] `json:"tpot_p99_factor,omitzero"`
	ChunkGapP99  Optional[float64] `json:"chunk_gap_p99_factor,omitzero"`
	E2EP50       Optional[float64] `json:"e2e_p50_factor,omitzero"`
	E2EP99       Optional[float64] `json:"e2e_p99_factor,omitzero"`
	TokenRate    Optional[float64] `json:"output_tokens_per_s_factor,omitzero"`
	FailedAlone  int64             `json:"failed_alone"`
	FailedBeside int64             `json:"failed_with"`
	// Withheld says why there are no factors: the shares of failed requests differ
	// beyond chance, and the figures are those of the requests that did not fail.
	Withheld string `json:"withheld,omitempty"`
	// Valid is false when the client spoiled one of the runs.
	Valid bool `json:"valid"`
}

// SlowdownTable holds the slow-downs of a run's tenants beside one another.
type SlowdownTable []Slowdown

// Slowdowns compares every tenant of a co-located run that was also run alone, in the order of the co-located run.
func Slowdowns(colocated *loadgen.Summary, alone []*loadgen.Summary) SlowdownTable {
	var out SlowdownTable
	for i := range colocated.Tenants {
		with := &colocated.Tenants[i]
		for _, s := range alone {
			if len(s.Tenants) != 1 || s.Tenants[0].Name != with.Name {
				continue
			}
			a := &s.Tenants[0].Measures
			d := Slowdown{
				Tenant: with.Name, With: colocated.RunID, Alone: s.RunID, Basis: "measured",
				FailedAlone: a.Counts.Failed, FailedBeside: with.Counts.Failed,
				Valid: colocated.ClientHealth.Valid && s.ClientHealth.Valid,
			}
			if w, c := with.Counts, a.Counts; w.Total > 0 && c.Total > 0 &&
				fisher(c.Failed, c.Total, w.Failed, w.Total) <= slowdownLevel {
				d.Withheld = fmt.Sprintf("%d of %d requests failed together, %d of %d alone: the factors would be of the others",
					w.Failed, w.Total, c.Failed, c.Total)
			} else {
				d.TTFTP50, d.TTFTP99 = factor(with.TTFT.P50, a.TTFT.P50), factor(with.TTFT.P99, a.TTFT.P99)
				d.TPOTP50, d.TPOTP99 = factor(with.TPOT.P50, a.TPOT.P50), factor(with.TPOT.P99, a.TPOT.P99)
				d.E2EP50, d.E2EP99 = factor(with.E2E.P50, a.E2E.P50), factor(with.E2E.P99, a.E2E.P99)
				d.ChunkGapP99 = factor(with.ChunkGap.P99, a.ChunkGap.P99)
				d.TokenRate = factor(loadgen.Millis(with.OutputTokensPerS), loadgen.Millis(a.OutputTokensPerS))
			}
			if colocated.Basis == "simulated" || s.Basis == "simulated" {
				d.Basis = "simulated"
			}
			out = append(out, d)
			break
		}
	}
	return out
}

// slowdownLevel is that of the test whether shares of failed requests differ.
const slowdownLevel = 0.05

func factor(with, alone loadgen.Millis) Optional[float64] {
	if with <= 0 || alone <= 0 {
		return Optional[float64]{}
	}
	return optional.Of(float64(with / alone))
}

// WriteText writes the factors for people, a tenant a line.
func (t SlowdownTable) WriteText(w io.Writer) error {
	w = plaintext.NewWriter(w)
	for _, d := range t {
		if d.Basis != "measured" {
			if _, err := fmt.Fprintln(w, SyntheticNote); err != nil {
				return err
			}
			break
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "together / alone\tttft p50\tttft p99\ttpot p50\tchunk gap p99\te2e p99\ttokens/s\tfailed\tvalid")
	for _, d := range t {
		fmt.Fprint(tw, d.Tenant)
		for _, factor := range []Optional[float64]{d.TTFTP50, d.TTFTP99, d.TPOTP50, d.ChunkGapP99, d.E2EP99, d.TokenRate} {
			if f, ok := factor.Get(); ok {
				fmt.Fprintf(tw, "\t%.2fx", f)
			} else {
				fmt.Fprint(tw, "\t-")
			}
		}
		fmt.Fprintf(tw, "\t%d / %d\t%v\n", d.FailedBeside, d.FailedAlone, d.Valid)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, d := range t {
		if d.Withheld != "" {
			if _, err := fmt.Fprintf(w, "note: %s: %s\n", d.Tenant, d.Withheld); err != nil {
				return err
			}
		}
	}
	return nil
}
