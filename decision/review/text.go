// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

const mostRows = 12 // workloads of the short text

// WriteText writes the answer, then the costs, the workloads, the plan, the findings and the checklist, within a number
// of columns (0 means 100). The long form has the steps, all workloads, and the reasons of those that stay.
func (r *Review) WriteText(w io.Writer, width int, long bool) error {
	width = cmp.Or(width, 100)
	var out bytes.Buffer
	line := func(hang int, format string, args ...any) {
		fmt.Fprintln(&out, plaintext.Wrap(fmt.Sprintf(format, args...), width, hang))
	}
	line(0, "%s", r.Answer)
	r.money(&out)
	r.workloads(&out, width, long)
	steps := r.Plan.StepLines(mostRows)
	if long {
		steps = r.Plan.Lines(true)[1:]
	}
	for _, text := range steps {
		if !strings.HasPrefix(text, " ") {
			fmt.Fprintln(&out)
		}
		line(3, "%s", text)
	}
	r.noticed(long, line)
	if len(r.Checklist) > 0 {
		line(0, "\nCHECKLIST: facts that could free more, by the cost of the GPUs concerned")
	}
	for i := range r.Checklist {
		it := &r.Checklist[i]
		worth := ""
		if it.micros > 0 {
			worth = r.worth(it.micros) + "  "
		}
		of := ""
		if n := len(it.Workloads); n > 1 || n == 1 && !strings.Contains(it.Do, it.Workloads[0]) {
			of = ": " + plaintext.Some(it.Workloads, 3, n)
		}
		line(5, "%3d. %s%s%s", i+1, worth, it.Do, of)
		line(0, "     -> %s", it.How)
	}
	_, err := out.WriteTo(w)
	return err
}

// fewFindings bounds the kinds of findings of the short text.
const fewFindings = 6

// noticed writes the findings about the cluster or its metrics, the first of each kind, except those of idle GPUs.
func (r *Review) noticed(long bool, line func(hang int, format string, args ...any)) {
	n := map[string]int{}
	for i := range r.Discovery.Findings {
		n[r.Discovery.Findings[i].Code]++
	}
	kinds := 0
	for i := range r.Discovery.Findings {
		f := &r.Discovery.Findings[i]
		more := n[f.Code]
		if n[f.Code] = 0; more == 0 || f.Code == "gpus-not-held" || f.Code == "idle-gpus" ||
			f.Severity < sharing.SeverityMedium && !long {
			continue
		}
		if kinds++; kinds == 1 {
			line(0, "\nNOTICED")
		}
		if kinds > fewFindings && !long {
			line(0, "  and more: -v lists all kinds, cotenant discover all")
			return
		}
		text := ""
		if more > 1 {
			text = fmt.Sprintf(" (and %d more)", more-1)
		}
		line(2, "  %v  %s: %s%s", f.Severity, f.Object, f.Message, text)
	}
}

func (r *Review) money(out io.Writer) {
	if !r.priced {
		return
	}
	m := &r.Money
	fmt.Fprintf(out, "\n%s A MONTH\n", m.Currency)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range []struct{ name, amount string }{{"today", m.Today}, {"moves", m.Moves}, {"shared", m.Shares},
		{"kept", m.Kept}, {"open", m.Open}, {"idle", m.Idle}, {"of which on nodes that nothing runs on", m.IdleNodes},
		{"freed by the plan", m.Freed}} {
		if row.amount != "" && row.amount != "0.00" && row.amount != "0" {
			fmt.Fprintf(tw, "%s\t%s\t\n", row.name, plaintext.Amount(row.amount))
		}
	}
	_ = tw.Flush() // to memory
}

func (r *Review) workloads(out *bytes.Buffer, width int, long bool) {
	fmt.Fprintf(out, "\nWORKLOADS\n")
	var rows bytes.Buffer
	tw := tabwriter.NewWriter(&rows, 0, 0, 2, ' ', 0)
	for i := range r.Workloads {
		if i == mostRows && len(r.Workloads) > mostRows+1 && !long {
			break
		}
		v := &r.Workloads[i]
		use := "not measured"
		busy, ok := v.Busy.Get()
		if memory, known := v.Memory.Get(); ok || known {
			use = ""
			if ok {
				use = fmt.Sprintf("busy %.0f%%", 100*busy)
			}
			if known {
				use = strings.TrimPrefix(use+fmt.Sprintf(", %v", memory), ", ")
			}
			if v.Together {
				use += " with others"
			}
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\t%v: %s\n", v.Name, v.Runs, r.worth(v.micros), use, v.Verdict, v.Why)
	}
	_ = tw.Flush() // to memory
	for text := range strings.Lines(rows.String()) {
		row := []rune(strings.TrimRight(text, "\n"))
		if !long && len(row) > width {
			row = append(row[:width-1], '…')
		}
		fmt.Fprintln(out, string(row))
	}
	if n := len(r.Workloads) - mostRows; n > 1 && !long {
		fmt.Fprintf(out, "  and %d more: -v lists all\n", n)
	}
}
