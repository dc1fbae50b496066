// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bufio"
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// TextOptions select the content of [Result.WriteText].
type TextOptions struct {
	// Explain names the only workload to show, in full detail, with every candidate and its reasons; "" shows all
	// workloads.
	Explain string
	// Width is the number of columns to wrap at; 0 means DefaultWidth.
	Width int
	// Command returns the front end's command for a proposed measurement; nil describes measurements in words.
	Command func(*Measurement) string
	// More is the front end's option for the complete output, for example "-format json".
	More string
}

// DefaultWidth is the default of TextOptions.Width, in columns.
const DefaultWidth = 100

//go:embed result.txt.tmpl
var textTemplates string

// texts are the templates "result", of a *text, and "explain", of an answerText. flat keeps a text in its line.
var texts = template.Must(template.New("").Funcs(template.FuncMap{
	"amount": plaintext.Amount, "digits": plaintext.Digits, "count": plaintext.Count[int], "join": strings.Join,
	"amounts": amounts, "flat": flat, "holds": holds,
	"metric": func(c *Consequence) string { metric, _ := c.named(); return metric },
	"unit":   func(c *Consequence) string { _, unit := c.named(); return unit },
	"minus":  func(n, less int) int { return n - less }, "needed": needed, "trim": strings.TrimSuffix,
	"minutes": func(d profile.Duration) string { return fmt.Sprintf("%.3g", time.Duration(d).Minutes()) },
	"percent": func(part float64) string { return fmt.Sprintf("%.4g", 100*part) },
	"some":    func(names []string, most int) string { return plaintext.Some(names, most, len(names)) },
	"tenants": (*LayoutResult).tenants,
	"trap":    func(id string) sharing.Trap { trap, _ := sharing.TrapByID(id); return trap },
}).Parse(textTemplates))

func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// amounts lists the amounts that there are, each with the text after it.
func amounts(pairs ...string) (out []string) {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[0] != "" {
			out = append(out, plaintext.Amount(pair[0])+" "+pair[1])
		}
	}
	return out
}

// WriteText writes the result as text: the money, a line for each workload (its placement, the reason in numbers, and
// the largest risk), the layout of the GPUs, the traps in the input, and sources. Fleets of many workloads are grouped
// by equal answers. An unknown workload is an error.
func (r *Result) WriteText(w io.Writer, opts TextOptions) error {
	t := &text{Result: r, tally: r.tally(), opts: opts, cites: &sharing.Citations{Rest: opts.More}}
	var lines strings.Builder
	var err error
	if d := r.Decision(opts.Explain); opts.Explain == "" {
		err = texts.ExecuteTemplate(&lines, "result", t)
	} else if d != nil {
		err = texts.ExecuteTemplate(&lines, "explain", &answerText{d, t})
	} else {
		err = fmt.Errorf("no workload %q; the fleet has %s", opts.Explain, plaintext.Some(t.names(), 12, len(r.Decisions)))
	}
	if err != nil {
		return fmt.Errorf("decision: %w", err)
	}
	p := page{bufio.NewWriter(w), cmp.Or(opts.Width, DefaultWidth)}
	p.render(lines.String())
	if opts.More != "" {
		p.put(0, 0, "", "For more: "+opts.More)
	}
	p.w.WriteString("\n")
	_ = t.cites.WriteText(p.w) // p.w keeps its error
	return p.w.Flush()
}

// narrowest is the width below which text is not wrapped further.
const narrowest = 40

// page writes paragraphs of at most width columns; the writer keeps the first error.
type page struct {
	w     *bufio.Writer
	width int
}

// render writes lines of a template: "# " begins a title and "@" gives the column of the texts after a tab, before
// which is a head. Other texts begin at the line's own indentation. Empty lines are left out.
func (p *page) render(lines string) {
	at := 0
	for line := range strings.SplitSeq(lines, "\n") {
		head, text, tabbed := strings.Cut(line, "\t")
		indent := len(head) - len(strings.TrimLeft(head, " "))
		switch title, is := strings.CutPrefix(line, "# "); {
		case is:
			fmt.Fprintf(p.w, "\n%s\n", title)
		case strings.HasPrefix(line, "@"):
			at, _ = strconv.Atoi(line[1:])
		case tabbed:
			p.put(indent, at, head[indent:], text)
		case indent < len(line):
			p.put(indent, indent, "", line)
		}
	}
}

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
