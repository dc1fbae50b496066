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
