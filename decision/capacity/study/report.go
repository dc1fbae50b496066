package study

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/manifest/routers"
	"github.com/cotenant/cotenant/decision/predict/serving"
)

// Report is a search's result with the question it answers.
type Report struct {
	Simulated bool     `json:"simulated"`
	Seed      uint64   `json:"seed"`
	SLO       string   `json:"slo"`
	Notes     []string `json:"notes,omitempty"`
	*capacity.Result
	Verified []Verified `json:"verified,omitempty"`

	load        float64 // the one that decides
	interrupted bool
}

// WriteJSON writes the report as indented JSON with a final newline.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

const tableWidth = 100 // the width in columns that the table keeps to where it can

// WriteText writes the report for people. Its sentences are one line each, however long, for the caller to fold.
func (r *Report) WriteText(out io.Writer) error {
	w := &bytes.Buffer{}
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	t := &r.Trace
	if t.PerS > 0 {
		line("%d requests in %s, %.3g a second in the stretch that is searched", t.Requests, seconds(t.DurationS), t.PerS)
	} else {
		line("requests: %d, all at one time: a multiple of the load changes nothing", t.Requests)
	}
	line("objectives: %s", r.SLO)
	for _, n := range r.Notes {
		line("note: %s", n)
	}
	line("\nAll figures are simulated; the table is at load %g%s\n", r.load, r.perS(r.load, ", %s requests a second"))
	table := r.table(2)
	if slices.ContainsFunc(strings.Split(table, "\n"), func(line string) bool { return len(line) > tableWidth }) {
		table = r.table(1)
	}
	w.WriteString(table)
	switch {
	case len(r.Arrangements) > 0:
		line("(low-high): bounds that hold the figure with 90%%. BUSY: of the GPUs' time. GOOD/S: requests a "+
			"second within the limits. UP TO: times the load of the table up to which the objectives are known to be "+
			"kept.%s", r.beyond())
	case r.interrupted:
		line("interrupted before the first arrangement of this load was found")
	default:
		line("nothing can be arranged")
	}
	r.writeWhy(line)
	if v := r.Whole; v != nil {
		for _, tn := range v.Tenants {
			line("whole trace, %s: TTFT P99 %.0f ms, TPOT P99 %.1f ms", tn.Name,
				tn.Predicted["ttft_p99"].Value, tn.Predicted["tpot_p99"].Value)
		}
	}
	for i := range r.Verified {
		writeVerified(w, &r.Verified[i])
	}
	_, err := w.WriteTo(out)
	return err
}

// perS writes the requests a second of a load into a text; "" where the trace has no rate.
func (r *Report) perS(load float64, text string) string {
	if r.Trace.PerS <= 0 {
		return ""
	}
	return fmt.Sprintf(text, strconv.FormatFloat(load*r.Trace.PerS, 'g', 3, 64))
}

// tabular writes rows of cells as a table.
func tabular(padding int, align uint, rows func(row func(cells ...any))) string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, padding, ' ', align)
	rows(func(cells ...any) { fmt.Fprintf(tw, strings.Repeat("%v\t", len(cells)-1)+"%v\n", cells...) })
	_ = tw.Flush() // a strings.Builder takes everything
	return b.String()
}

// table lists the arrangements, its columns so far apart.
func (r *Report) table(padding int) string {
	return tabular(padding, 0, func(row func(...any)) {
		row("KIND", "GPUS", "ROUTE", "VERDICT", r.Currency+"/H", "/MTOK", "TTFT P99 MS", "TPOT P99 MS", "BUSY", "GOOD/S",
			"UP TO")
		for _, a := range r.ByVerdict() {
			mark := " "
			if r.isChosen(a) {
				mark = "*"
			}
			headroom := "-"
			if h, ok := a.Headroom.Get(); ok {
				headroom = fmt.Sprintf("%gx", h)
			}
			gpus, price, million := fmt.Sprintf("%dx %s", a.GPUs, shortGPU(a.GPU)), amount(a.CostPerHour), perMillion(a)
			if notBy(a) {
				gpus, price, million = fmt.Sprintf(">%dx %s", a.Tried, shortGPU(a.GPU)), "-", "-"
			}
			router := cmp.Or(shortRouters[a.Router], a.Router)
			row(mark+a.Kind.String(), gpus, router, a.Verdict, price, million, interval(a, "ttft_p99"),
				interval(a, "tpot_p99"), fmt.Sprintf("%.0f%%", 100*a.Utilisation), fmt.Sprintf("%.3g", a.GoodputPerS), headroom)
		}
	})
}

var shortRouters = map[string]string{
	"prefix-approximate": "prefix~", "prefix-exact": "prefix=", "least-requests": "least", "round-robin": "robin",
	"power-of-two": "two",
}

func (r *Report) isChosen(a *capacity.Arrangement) bool {
	return r.Chosen != nil && a.Kind == r.Chosen.Kind && a.Verdict == r.Chosen.Verdict
}

// notBy reports that no number of GPUs that was tried keeps the objectives.
func notBy(a *capacity.Arrangement) bool { return a.Tried > 0 && a.Verdict == capacity.VerdictMissed }

// beyond explains the mark of arrangements that no number of GPUs helps.
func (r *Report) beyond() string {
	for i := range r.Arrangements {
		if a := &r.Arrangements[i]; notBy(a) {
			return fmt.Sprintf(" >%dx: no number of GPUs up to %d does.", a.Tried, a.Tried)
		}
	}
	return ""
}

// ByVerdict returns the arrangements in the table's order: those that miss the
// objectives, however cheap, after the others.
func (r *Report) ByVerdict() (out []*capacity.Arrangement) {
	for _, missed := range []bool{false, true} {
		for i := range r.Arrangements {
			if a := &r.Arrangements[i]; (a.Verdict == capacity.VerdictMissed) == missed {
				out = append(out, a)
			}
		}
	}
	return out
}

// writeWhy writes what was chosen, why, and what was not searched.
func (r *Report) writeWhy(line func(format string, args ...any)) {
	line("")
	if c := r.Chosen; c != nil {
		text := "chosen: " + label(c)
		for _, s := range c.Servers {
			text += fmt.Sprintf(", %d x %s", s.Replicas, s.Name)
		}
		line("%s", text)
		line("  because %s", c.Reason)
		line("  breaks first: %s", c.FirstLimit)
		if c.Gap > 0 {
			line("  some other use of the GPUs by the same kind may save up to %.0f%% of them", 100*c.Gap)
		}
	} else {
		line("chosen: none")
	}
	for _, why := range r.Why {
		line("- %s", why)
	}
	seen := map[string]bool{}
	for _, e := range r.Excluded {
		text := strings.TrimSpace(e.Kind+" "+e.GPU) + ": " + e.Reason
		if !seen[text] {
			line("not searched: %s", text)
		}
		seen[text] = true
	}
	for _, c := range r.Crossovers {
		line("crossover: between load %g%s and %g%s the cheapest changes from %s (%d %s) to %s (%d %s)",
			c.Above, r.perS(c.Above, " (%s/s)"), c.UpTo, r.perS(c.UpTo, " (%s/s)"), c.From.Kind, c.From.GPUs,
			c.From.GPU, c.To.Kind, c.To.GPUs, c.To.GPU)
	}
}

// label names an arrangement: "mps, 2 L40S (25% + 75%)".
func label(a *capacity.Arrangement) string {
	text := fmt.Sprintf("%s, %d %s", a.Kind, a.GPUs, a.GPU)
	if a.Division != "" {
		text += " (" + a.Division + ")"
	}
	return text
}

func amount(m capacity.Money) string { return fmt.Sprintf("%.2f", float64(m.Micros())/1e6) }

func perMillion(a *capacity.Arrangement) string {
	if m, ok := a.PerMillion.Get(); ok {
		return amount(m)
	}
	return "-"
}

func seconds(s float64) string {
	if s >= 7200 {
		return fmt.Sprintf("%.1f h", s/3600)
	}
	return fmt.Sprintf("%.0f s", s)
}

// interval writes a figure with its bounds, in ms.
func interval(a *capacity.Arrangement, metric string) string {
	i, ok := a.Predicted[metric]
	if !ok {
		return "-"
	}
	unit := func(v float64) string {
		if v >= 10_000 {
			return fmt.Sprintf("%.0fs", v/1e3)
		}
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%s (%s-%s)", unit(i.Value), unit(i.Low), unit(i.High))
}

// formFactor begins where a GPU's name goes on with its memory or board.
var formFactor = regexp.MustCompile(`-.*| \d+GB.*`)

// shortGPU returns a GPU's name without its form factor.
func shortGPU(name string) string {
	var short []string
	for one := range strings.SplitSeq(name, " + ") {
		short = append(short, formFactor.ReplaceAllString(strings.TrimPrefix(one, "NVIDIA "), ""))
	}
	return strings.Join(short, "+")
}

// writeVerified writes an arrangement's prediction beside its measurement.
func writeVerified(w io.Writer, v *Verified) {
	fmt.Fprintf(w, "\n%s on %d %s, %.0f s of load on %d %s servers; predicted/measured, in ms\n",
		v.Kind, v.GPUs, shortGPU(v.GPU), v.Seconds, v.Endpoints, v.Basis)
	fmt.Fprint(w, tabular(2, tabwriter.AlignRight, func(row func(...any)) {
		row("tenant", "requests", "ttft p50", "p99", "tpot p50", "p99", "good %", "")
		for _, t := range v.Tenants {
			cells := []any{t.Name, t.Requests}
			for _, m := range []string{"ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99"} {
				cells = append(cells, figure(t.Predicted[m])+"/"+figure(t.Measured[m]))
			}
			row(append(cells, fmt.Sprintf("%.1f/%.1f", 100*t.Predicted["share"], 100*t.Measured["share"]), "")...)
		}
	}))
	for _, n := range v.Notes {
		fmt.Fprintln(w, "note: "+n)
	}
}

func figure(ms float64) string {
	switch {
	case ms == 0 || math.IsNaN(ms):
		return "-"
	case ms < 100:
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

// WriteRouters writes the configuration that puts requests before the chosen arrangement's replicas to a new folder:
// a pool for each server, by the label app. Its warnings become notes. Nothing is written where nothing is chosen.
func (r *Report) WriteRouters(dir string) error {
	if r.Chosen == nil {
		return nil
	}
	var policy serving.RoutePolicy // of one replica each, any does
	if r.Chosen.Router != "none" {
		if err := policy.UnmarshalText([]byte(r.Chosen.Router)); err != nil {
			return err
		}
	}
	var pools []routers.Pool
	for _, s := range r.Chosen.Servers {
		name := strings.ToLower(s.Name)
		labels := map[string]string{"app": name}
		pools = append(pools, routers.Pool{Name: name, Model: s.Name, Labels: labels, Policy: policy})
	}
	folder, err := routers.Build(pools)
	if err != nil {
		return err
	}
	for _, w := range folder.Warnings {
		r.Notes = append(r.Notes, w.Message)
	}
	return folder.Write(dir)
}
