// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

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

// column returns the first column of the text next to these names.
func column(names []string) int {
	at := 0
	for _, n := range names {
		at = max(at, utf8.RuneCountInString(n))
	}
	return min(at, 20) + 4
}
