// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bufio"
	"fmt"
	"strings"
	"unicode/utf8"
)

// DefaultWidth counts the columns of text unless TextOptions say otherwise.
const DefaultWidth = 100

// narrowest is the width below which text is not wrapped further.
const narrowest = 40

// page writes paragraphs of at most width columns; the writer keeps the first error.
type page struct {
	w     *bufio.Writer
	width int
	color bool
}

// The colours of a page, as a terminal knows them.
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (p *page) paint(color, s string) string {
	if !p.color || color == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

func (p *page) title(s string) { fmt.Fprintf(p.w, "\n%s\n", p.paint(bold, s)) }

// put writes head at column indent and text from column at on, wrapped there. A
// head that reaches further pushes only its own line's text on.
func (p *page) put(indent, at int, head, text string) {
	line := strings.Repeat(" ", indent) + head
	used := indent + columns(head)
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
		for used > margin && used+1+columns(word) > width || used == margin && used > at && used+columns(word) > width {
			p.end(line)
			line, used, margin = strings.Repeat(" ", at), at, at
		}
		if used > margin {
			line, used = line+" ", used+1
		}
		for columns(word) > width-used { // an address, or a name
			head := string([]rune(word)[:max(1, width-used)])
			p.end(line + head)
			word = word[len(head):]
			line, used, margin = strings.Repeat(" ", at), at, at
		}
		line, used = line+word, used+columns(word)
	}
	p.end(line)
}

func (p *page) end(line string) { fmt.Fprintln(p.w, strings.TrimRight(line, " ")) }

// columns counts those of a text without its colours.
func columns(s string) int {
	n := 0
	for {
		before, rest, ok := strings.Cut(s, "\x1b[")
		n += utf8.RuneCountInString(before)
		if !ok {
			return n
		}
		_, s, _ = strings.Cut(rest, "m")
	}
}
