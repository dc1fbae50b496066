package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/decision/capacity"
)

const width = 100 // columns

// writeText writes the report for people.
func (r *report) writeText(out io.Writer) error {
	w := &bytes.Buffer{}
	t := &r.Trace
	if t.PerS > 0 {
		wrap(w, fmt.Sprintf("%d requests in %s, %.3g a second in the stretch that is searched", t.Requests, seconds(t.DurationS), t.PerS))
	} else {
		wrap(w, fmt.Sprintf("requests: %d, all at one time", t.Requests))
	}
	wrap(w, "objectives: "+r.SLO)
	for _, n := range r.Notes {
		wrap(w, "note: "+n)
	}
	fmt.Fprintf(w, "\nAll figures are simulated; the table is at load %g\n\n", r.load)
	table, err := r.table(2)
	if err == nil && slices.ContainsFunc(strings.Split(table, "\n"), func(line string) bool { return len(line) > width }) {
		table, err = r.table(1)
	}
	if err != nil {
		return err
	}
	w.WriteString(table)
	switch {
	case len(r.Arrangements) > 0:
		wrap(w, "(low-high): bounds that hold the figure with 90%. BUSY: of the GPUs' time. UP TO: times the load of the table, what is still known to be kept."+r.beyond())
	case r.interrupted:
		fmt.Fprintln(w, "interrupted before the first arrangement of this load was found")
	default:
		fmt.Fprintln(w, "nothing can be arranged")
	}
	r.writeWhy(w)
	for _, c := range r.Crossovers {
		wrap(w, fmt.Sprintf("crossover: between load %g and %g the cheapest changes from %s (%d %s) to %s (%d %s)", c.Above, c.UpTo, c.From.Kind, c.From.GPUs, c.From.GPU, c.To.Kind, c.To.GPUs, c.To.GPU))
	}
	if v := r.Whole; v != nil {
		for _, tn := range v.Tenants {
			wrap(w, fmt.Sprintf("whole trace, %s: TTFT P99 %.0f ms, TPOT P99 %.1f ms", tn.Name, tn.Predicted["ttft_p99"].Value, tn.Predicted["tpot_p99"].Value))
		}
	}
	writeVerified(w, r.Verified)
	_, err = w.WriteTo(out)
	return err
}

// table is what each kind would take, its columns so far apart.
func (r *report) table(padding int) (string, error) {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, padding, ' ', 0)
	fmt.Fprintf(tw, "KIND\tGPUS\tROUTER\tVERDICT\t%s/H\t/M TOK\tTTFT P99 MS\tTPOT P99 MS\tBUSY\tUP TO\n", r.Currency)
	for _, a := range r.ByVerdict() {
		mark := " "
		if r.isChosen(a) {
			mark = "*"
		}
		million := "-"
		if m, ok := a.PerMillion.Get(); ok {
			million = amount(m)
		}
		headroom := "-"
		if h, ok := a.Headroom.Get(); ok {
			headroom = fmt.Sprintf("%gx", h)
		}
		gpus, price := fmt.Sprintf("%dx %s", a.GPUs, shortGPU(a.GPU)), amount(a.CostPerHour)
		if notBy(a) {
			gpus, price, million = fmt.Sprintf(">%dx %s", a.Tried, shortGPU(a.GPU)), "-", "-"
		}
		fmt.Fprintf(tw, "%s%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f%%\t%s\n", mark, a.Kind, gpus, shortRouter(a.Router), a.Verdict, price, million,
			interval(a, "ttft_p99"), interval(a, "tpot_p99"), 100*a.Utilisation, headroom)
	}
	err := tw.Flush()
	return b.String(), err
}

func (r *report) isChosen(a *capacity.Arrangement) bool {
	return r.Chosen != nil && a.Kind == r.Chosen.Kind && a.Verdict == r.Chosen.Verdict
}

// notBy says that no number of GPUs that was tried keeps an arrangement's objectives.
func notBy(a *capacity.Arrangement) bool {
	return a.Tried > 0 && a.Verdict == capacity.VerdictMissed
}

// beyond explains the mark of what no number of GPUs keeps, if there is any.
func (r *report) beyond() string {
	for i := range r.Arrangements {
		if a := &r.Arrangements[i]; notBy(a) {
			return fmt.Sprintf(" >%dx: no number of GPUs up to %d does.", a.Tried, a.Tried)
		}
	}
	return ""
}

// ByVerdict are the arrangements as the table has them: those that miss the objectives,
// however cheap, after the others.
func (r *report) ByVerdict() []*capacity.Arrangement {
	var out, missed []*capacity.Arrangement
	for i := range r.Arrangements {
		if a := &r.Arrangements[i]; a.Verdict == capacity.VerdictMissed {
			missed = append(missed, a)
		} else {
			out = append(out, a)
		}
	}
	return append(out, missed...)
}

func (r *report) writeWhy(w io.Writer) {
	fmt.Fprintln(w)
	if c := r.Chosen; c != nil {
		text := fmt.Sprintf("chosen: %s, %d %s", c.Kind, c.GPUs, c.GPU)
		if c.Division != "" {
			text += " (" + c.Division + ")"
		}
		for _, s := range c.Servers {
			text += fmt.Sprintf(", %d x %s", s.Replicas, s.Name)
		}
		wrap(w, text)
		wrap(w, "  because "+c.Reason)
		wrap(w, "  breaks first: "+c.FirstLimit)
		if c.Gap > 0 {
			wrap(w, fmt.Sprintf("  some other use of the GPUs by the same kind may save up to %.0f%% of them", 100*c.Gap))
		}
	} else {
		fmt.Fprintln(w, "chosen: none")
	}
	for _, why := range r.Why {
		wrap(w, "- "+why)
	}
	seen := map[string]bool{}
	for _, e := range r.Excluded {
		text := strings.TrimSpace(e.Kind+" "+e.GPU) + ": " + e.Reason
		if !seen[text] {
			wrap(w, "not searched: "+text)
		}
		seen[text] = true
	}
}

func amount(m capacity.Money) string { return fmt.Sprintf("%.2f", float64(m.Micros())/1e6) }

func seconds(s float64) string {
	if s >= 7200 {
		return fmt.Sprintf("%.1f h", s/3600)
	}
	return fmt.Sprintf("%.0f s", s)
}

// interval is a figure with its bounds, in ms.
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

// shortGPU is a GPU's name without its form.
func shortGPU(name string) string {
	var short []string
	for one := range strings.SplitSeq(name, " + ") {
		first, _, _ := strings.Cut(strings.TrimPrefix(one, "NVIDIA "), "-")
		short = append(short, first)
	}
	return strings.Join(short, "+")
}

func shortRouter(name string) string {
	switch name {
	case "prefix-approximate":
		return "prefix~"
	case "prefix-exact":
		return "prefix="
	case "least-requests":
		return "least"
	case "round-robin":
		return "robin"
	case "power-of-two":
		return "two"
	}
	return name
}

// wrap writes a line in lines that are not too long.
func wrap(w io.Writer, text string) {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	n := 0
	for i, word := range strings.Fields(text) {
		size := len([]rune(word))
		switch {
		case i == 0:
			fmt.Fprint(w, indent)
			n = len(indent)
		case n+1+size > width:
			fmt.Fprint(w, "\n"+indent+"  ")
			n = len(indent) + 2
		default:
			fmt.Fprint(w, " ")
			n++
		}
		fmt.Fprint(w, word)
		n += size
	}
	fmt.Fprintln(w)
}
