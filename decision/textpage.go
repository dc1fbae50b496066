// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// TextOptions select the content of [Result.WriteText].
type TextOptions struct {
	// Explain names a workload of which everything is shown, every candidate with
	// its reasons among it, and nothing of the others.
	Explain string
	// Width is the number of columns to wrap at; 0 means DefaultWidth.
	Width int
	// Command puts a measurement that a result proposes as the front end's own
	// command; without it the measurement is put in words.
	Command func(*Measurement) string
	// More is the option for the complete output, for example "-format json".
	More string
}

// DefaultWidth counts the columns of text unless TextOptions say otherwise.
const DefaultWidth = 100

// narrowest is the width below which text is not wrapped further.
const narrowest = 40

// page writes paragraphs of at most width columns; the writer keeps the first error.
type page struct {
	w     *bufio.Writer
	width int
}

func (p *page) title(s string) { fmt.Fprintf(p.w, "\n%s\n", s) }

// put writes head at column indent and text from column at on, wrapped there. A
// head that reaches further pushes only its own line's text on.
func (p *page) put(indent, at int, head, text string) {
	line := strings.Repeat(" ", indent) + head
	used := indent + utf8.RuneCountInString(head)
	if head != "" && used < at {
		line += strings.Repeat(" ", at-used)
		used = at
	} else if head != "" {
		line += "  "
		used += 2
	} else {
		line, used = strings.Repeat(" ", at), at
	}
	width := max(p.width, narrowest)
	margin := used // the line is empty
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		for used > margin && used+1+n > width || used == margin && used > at && used+n > width {
			p.end(line)
			line, used, margin = strings.Repeat(" ", at), at, at
		}
		if used > margin {
			line, used = line+" ", used+1
		}
		for ; n > width-used; n = utf8.RuneCountInString(word) { // an address, or a name
			head := string([]rune(word)[:max(1, width-used)])
			p.end(line + head)
			word = word[len(head):]
			line, used, margin = strings.Repeat(" ", at), at, at
		}
		line, used = line+word, used+n
	}
	p.end(line)
}

func (p *page) end(line string) { fmt.Fprintln(p.w, strings.TrimRight(line, " ")) }

// text writes a result.
type text struct {
	page
	opts  TextOptions
	r     *Result
	cites *sharing.Citations
}

// answer is a decision in a line: placement, reason in numbers, and the largest risk.
func (t *text) answer(d *Decision) string {
	if d.Status == StatusNone {
		return d.Status.String() + ": " + d.Why
	}
	line := d.Where()
	if d.Replicas > 1 && len(d.Places) == 0 {
		line = fmt.Sprintf("%d x %s", d.Placed, line)
	}
	if d.GPUs > 1 {
		each := map[bool]string{true: " each"}[d.Replicas > 1]
		line = fmt.Sprintf("%d GPUs%s, %s", d.GPUs, each, line)
	}
	if d.Status != StatusDecided {
		line = d.Status.String() + ": " + line
	}
	if d.Unplaced > 0 {
		line += ", " + fmt.Sprintf("%d unplaced", d.Unplaced)
		if m := d.MoreGPUs; m != nil {
			line += fmt.Sprintf(" (%s more in %s would do)", plaintext.Count(m.GPUs, "GPU"), m.Pool)
		}
	}
	if c := d.Cost; c != nil {
		line += fmt.Sprintf(", %s %s an hour", plaintext.Amount(c.PerWorkloadHour), c.Currency)
	}
	line += ": " + d.Why
	if risk := t.worst(d); risk != "" {
		line += "; risk: " + risk
	}
	return line
}

// worst is the worst that can come of a decision.
func (t *text) worst(d *Decision) string {
	if len(d.Traps) > 0 && d.Traps[0].Severity >= sharing.SeverityHigh {
		return fmt.Sprintf("%s (%s)", d.Traps[0].ID, d.Traps[0].Severity)
	}
	risk := score.TraitOf(d.Mechanism).Risk
	if risk != "" && d.TradeOff != nil && !slices.Contains(t.cites.IDs, d.TradeOff.Source) {
		risk += t.cites.Ref(d.TradeOff.Source)
	}
	return risk
}

// command returns the front end's command for a proposed measurement.
func (t *text) command(s *Measurement) string {
	if t.opts.Command == nil {
		return s.String()
	}
	return t.opts.Command(s)
}

// column returns the first column of the text next to these names.
func column(names []string) int {
	at := 0
	for _, n := range names {
		at = max(at, utf8.RuneCountInString(n))
	}
	return min(at, 20) + 4
}

// manyWorkloads is from where on workloads are grouped by equal answers.
const manyWorkloads = 21
