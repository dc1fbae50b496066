// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// WriteText writes the result for people: the money, a line for each workload (its placement, the reason in numbers,
// and the largest risk), the layout of the GPUs, the traps in the input, and sources. Fleets of many workloads are
// grouped by equal answers. An unknown workload is an error.
func (r *Result) WriteText(w io.Writer, opts TextOptions) error {
	t := text{page{bufio.NewWriter(w), cmp.Or(opts.Width, DefaultWidth)}, opts, r,
		&sharing.Citations{Rest: opts.More}}
	if opts.Explain == "" {
		t.money()
		t.workloads()
		t.layout()
		t.traps()
	} else if d := r.Decision(opts.Explain); d != nil {
		t.explain(d)
	} else {
		return fmt.Errorf("decision: no workload %q; the fleet has %s", opts.Explain,
			plaintext.Some(r.names(), 12, len(r.Decisions)))
	}
	if opts.More != "" {
		t.put(0, 0, "", "For more: "+opts.More)
	}
	t.w.WriteString("\n")
	_ = t.cites.WriteText(t.w) // t.w keeps its error
	return t.w.Flush()
}

func (r *Result) names() []string {
	out := make([]string, len(r.Decisions))
	for i := range r.Decisions {
		out[i] = r.Decisions[i].Workload
	}
	return out
}

// money writes the cost of the plan, and the statuses of its answers.
func (t *text) money() {
	s := &t.r.Totals
	count, origins := map[Status]int{}, map[string]int{}
	replicas, placed := 0, 0
	var waiting []string
	for i := range t.r.Decisions {
		d := &t.r.Decisions[i]
		count[d.Status]++
		origins[d.From]++
		if replicas, placed = replicas+d.Replicas, placed+d.Placed; d.Unplaced > 0 {
			waiting = append(waiting, d.Workload)
		}
	}
	if placed < replicas {
		t.put(0, 0, "", fmt.Sprintf("%s: %d of %s have a place; %s", StatusPartlyPlaced.String(), placed,
			plaintext.Count(replicas, "replica"), plaintext.Some(waiting, 4, len(waiting))+" must wait"))
	}
	t.costs(s)
	var counts, from []string
	for _, st := range []Status{StatusDecided, StatusProvisional, StatusPartlyPlaced, StatusNone} {
		if n := count[st]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, st.String()))
		}
	}
	for _, o := range [][2]string{{fromProfiles, "from measured profiles"}, {fromClosedForm, "from stated figures"}} {
		if n := origins[o[0]]; n > 0 {
			from = append(from, fmt.Sprintf("%d %s", n, o[1]))
		}
	}
	t.put(0, 0, "", fmt.Sprintf("%s: %s at %.4g%% confidence, %s%s", plaintext.Count(s.WorkloadsTotal, "workload"),
		strings.Join(counts, ", "), 100*t.r.Confidence, cmp.Or(strings.Join(from, ", "), "by filters only"), s.unshared()))
	for _, a := range t.r.Assumes {
		t.put(0, 0, "", fmt.Sprintf("assumes %s: %s", a.What, a.Why))
	}
	for k, remark := range t.r.Remarks {
		if k == mostRemarks && len(t.r.Remarks) > mostRemarks+1 {
			t.put(0, 0, "", fmt.Sprintf("and %d more remarks", len(t.r.Remarks)-k))
			break
		}
		t.put(0, 0, "", "remark"+": "+remark)
	}
}

// Summary returns the change in GPUs and money, for the first line of a text or page.
func (s *Totals) Summary() string {
	text, freed := "", s.GPUsToday-s.GPUsAfter
	switch {
	case freed > 0:
		text = fmt.Sprintf("Free %d of %s", freed, plaintext.Count(s.GPUsToday, "GPU"))
	case freed < 0 && s.GPUsToday == 0:
		text = "Buy " + plaintext.Count(s.GPUsAfter, "GPU")
	case freed < 0:
		text = fmt.Sprintf("Use %s in the place of %d", plaintext.Count(s.GPUsAfter, "GPU"), s.GPUsToday)
	default:
		text = "Keep " + plaintext.Count(s.GPUsToday, "GPU")
	}
	if s.MonthlyFreed == "" {
		return text
	}
	amount, more := strings.CutPrefix(plaintext.Amount(s.MonthlyFreed), "-")
	saved := map[bool]string{true: "more", false: "less"}[more]
	if amount == "0" {
		return text + fmt.Sprintf(": %s %s a month, as today", plaintext.Amount(s.MonthlyAfter), s.Currency)
	}
	return text + fmt.Sprintf(": %s %s a month %s (%s today, %s after)", amount, s.Currency, saved,
		plaintext.Amount(s.MonthlyToday), plaintext.Amount(s.MonthlyAfter))
}

// costs writes the cost of the pools today and once the answer is applied.
func (t *text) costs(s *Totals) {
	placed := 0
	for i := range t.r.Decisions {
		placed += t.r.Decisions[i].Placed
	}
	if placed == 0 && s.WorkloadsTotal > 0 {
		t.put(0, 0, "", "nothing is placed"+": no GPU is used")
		return
	}
	var parts []string
	part := func(amount, what string) {
		if amount != "" {
			parts = append(parts, plaintext.Amount(amount)+" "+what)
		}
	}
	part(s.MonthlyFreedBySharing, "freed by sharing")
	part(s.MonthlyFreedIdle, "freed of pools and nodes that nobody used before")
	part(s.MonthlyAdded, "added")
	part(s.MonthlyUnplaced, "of free GPUs kept, which work without a place may hold")
	line := s.Summary()
	if s.MonthlyFreed == "" && len(s.UnpricedPools) > 0 {
		line += "; no money: no price is stated for " + plaintext.Some(s.UnpricedPools, 6, len(s.UnpricedPools))
	}
	t.put(0, 0, "", line)
	if len(parts) > 1 || s.MonthlyUnplaced != "" {
		t.put(0, 0, "", strings.Join(parts, "; "))
	}
}

// unshared gives the GPUs and the price of the placed replicas if each were isolated.
func (s *Totals) unshared() string {
	if s.AloneGPUs == 0 {
		return ""
	}
	text := "; unshared: " + plaintext.Count(s.AloneGPUs, "GPU")
	if s.MonthlyAlone != "" {
		text += fmt.Sprintf(", %s %s", plaintext.Amount(s.MonthlyAlone), s.Currency)
	}
	return text
}

// mostRemarks bounds the remarks that the text shows; the rest are counted.
const mostRemarks = 4

func (t *text) workloads() {
	t.title("WORKLOADS")
	if len(t.r.Decisions) >= manyWorkloads {
		t.groups()
		return
	}
	at := column(t.r.names())
	for i := range t.r.Decisions {
		d := &t.r.Decisions[i]
		t.put(2, at, d.Workload, t.answer(d))
		for k := range t.r.Replicas {
			if c := &t.r.Replicas[k]; c.Workload == d.Workload {
				t.put(2, at, "", c.String())
			}
		}
		for _, rest := range t.provisional(d) {
			t.put(2, at, "", rest)
		}
	}
}

// provisional lists the assumptions of a provisional answer and the proposed measurement.
func (t *text) provisional(d *Decision) (lines []string) {
	if n := len(d.Assumes); n > 0 {
		line := "assumes " + d.Assumes[0].What
		if n > 1 {
			line += fmt.Sprintf(" (and %d more)", n-1)
		}
		lines = append(lines, line)
	}
	if s := d.Measurement; s != nil {
		stake := ""
		if s.MonthlyAtStake != "" && d.Cost != nil {
			stake = fmt.Sprintf(" (%s %s a month at stake)", plaintext.Amount(s.MonthlyAtStake), d.Cost.Currency)
		}
		lines = append(lines, fmt.Sprintf("measure%s: %s", stake, t.command(s)))
	}
	return lines
}

// mostTrapLines bounds the traps that the text shows; the rest are counted.
const mostTrapLines = 6

// traps are those that the input walks into, each with the workload that shows it best.
func (t *text) traps() {
	if len(t.r.Traps) == 0 {
		return
	}
	t.title("TRAPS that the input walks into")
	for k, hit := range t.r.Traps {
		if k == mostTrapLines && len(t.r.Traps) > mostTrapLines {
			t.put(2, 2, "", fmt.Sprintf("and %s more", plaintext.Count(len(t.r.Traps)-k, "trap")))
			break
		}
		var names []string
		message := ""
		for i := range t.r.Decisions {
			d := &t.r.Decisions[i]
			if at := slices.IndexFunc(d.Traps, func(h TrapHit) bool { return h.ID == hit.ID }); at >= 0 {
				names, message = append(names, d.Workload), cmp.Or(message, d.Traps[at].Message)
			}
		}
		t.put(2, 12, hit.Severity.String(), fmt.Sprintf("%s, %s: %s%s", hit.ID, plaintext.Some(names, 1, len(names)),
			message, t.cites.Ref(hit.Sources[0])))
	}
}
