// SPDX-License-Identifier: Apache-2.0

// Package page prints the examples' text, folded at Width columns, without losing write errors. It also writes their
// files. Copy it together with an example.
package page

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// Width is the number of columns of a page.
const Width = 100

// Fold breaks the lines of a text that are longer than Width, at spaces, else after commas. The rest of a row
// of a table goes on under its last column where that leaves it room; the rest of other lines is indented by
// two columns more, where they are indented at all.
func Fold(text string) string { return fold(text, 2) }

// Flags returns the help of a flag set, folded.
func Flags(fs *flag.FlagSet) string {
	var b strings.Builder
	was := fs.Output()
	fs.SetOutput(&b)
	fs.PrintDefaults()
	fs.SetOutput(was)
	return fold(strings.ReplaceAll(b.String(), "\t", "    "), 0)
}

func fold(text string, hanging int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		indent := strings.Repeat(" ", under(line, hanging))
		line, end := strings.CutSuffix(line, "\n")
		now, rest := split(line, Width)
		for b.WriteString(now); rest != ""; b.WriteString("\n" + indent + now) {
			now, rest = split(rest, Width-len(indent))
		}
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Table lines up the columns of rows.
func Table(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // b takes everything
	return b.String()
}

// leastRoom is the smallest number of columns for the rest of a folded line.
const leastRoom = 40

// under returns the column at which a folded line continues.
func under(line string, hanging int) int {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	if indent > 0 {
		indent += hanging
	}
	if at := strings.LastIndex(text, "  "); at >= 0 {
		if column := len(line) - len(text) + utf8.RuneCountInString(text[:at]) + 2; column <= Width-leastRoom {
			return column
		}
	}
	return min(indent, Width-leastRoom)
}

// split cuts the part that fits into a number of columns off a line; a word or a list
// that is longer is cut at the next possible place.
func split(line string, room int) (now, rest string) {
	space, comma, columns := 0, 0, 0
	for i, r := range line {
		if columns++; r == ' ' && strings.TrimLeft(line[:i], " ") != "" {
			space = i
		}
		if at := cmp.Or(space, comma); columns > room && at > 0 {
			return strings.TrimRight(line[:at], " "), strings.TrimLeft(line[at:], " ")
		}
		if r == ',' {
			comma = i + 1
		}
	}
	return line, ""
}

// Fail writes an error for people: each line of it once, under the program's name, which the line does not repeat, and
// with the file or flag that it is about. Nothing is written of a pipe that its reader has closed.
func Fail(name string, stderr io.Writer, err error) {
	if errors.Is(err, syscall.EPIPE) {
		return
	}
	own := name[strings.LastIndexByte(name, ' ')+1:] + ": "
	var said []string
	for _, line := range lines(err) {
		if line = strings.TrimPrefix(Show(line), own); !slices.Contains(said, line) {
			said = append(said, line)
			fmt.Fprintf(stderr, "%s: %s\n", name, line)
		}
	}
}

// lines are those of an error's text. The prefix of an error that wraps several is put before each of them.
func lines(err error) (all []string) {
	var inside []error
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		inside = append(inside, e.Unwrap())
	case interface{ Unwrap() []error }:
		inside = e.Unwrap()
	}
	text, before := err.Error(), ""
	if n := len(inside); n > 0 && text != fmt.Sprint(errors.Join(inside...)) {
		inside = inside[n-1:]
		before, _ = strings.CutSuffix(text, fmt.Sprint(inside[0]))
	}
	if len(inside) == 0 || before == text || strings.Contains(before, "\n") {
		return strings.Split(text, "\n")
	}
	for _, one := range inside {
		for i, line := range lines(one) {
			if i == 0 || !strings.HasPrefix(line, " ") { // an indented line continues the line before
				line = before + line
			}
			all = append(all, line)
		}
	}
	return all
}

// exitCannot is the exit code of every program that could not do its work
// because a disk, a driver or a network failed.
const exitCannot = 5

// Check returns a writer to stdout that remembers the first error, and a function to defer with the exit code:
// where anything was not written it sets the code to 5, and reports the error on stderr after the command's name
// unless the code shows that another error was reported. A reader may close its end of a pipe at any time:
// that is no error, and a code of 5 becomes 0.
func Check(name string, stdout, stderr io.Writer) (io.Writer, func(code *int)) {
	w := &writer{to: stdout}
	return w, func(code *int) {
		switch {
		case w.err == nil:
		case errors.Is(w.err, syscall.EPIPE):
			if *code == exitCannot {
				*code = 0
			}
		default:
			if *code == 0 {
				Fail(name, stderr, w.err)
			}
			*code = exitCannot
		}
	}
}

// writer escapes control characters, since any output may hold names of others, and keeps its first error.
type writer struct {
	to   io.Writer
	mu   sync.Mutex
	part []byte // the beginning of a character
	err  error
}

// Show writes each character of a text that a terminal would obey or hide as its escape, which JSON reads as the same,
// and bytes that are no UTF-8 as U+FFFD. Line feeds and tabs stay.
func Show(text string) string {
	var b strings.Builder
	for _, r := range text { // a byte that is no UTF-8 is U+FFFD
		switch {
		case r == '\n' || r == '\t' || !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			b.WriteRune(r)
		case r > 0xffff:
			b.WriteRune(utf8.RuneError)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// Write escapes whole characters; one that is split between two calls is written with the second.
func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.part, p...)
	cut := len(text)
	for i := max(0, cut-utf8.UTFMax+1); i < cut; i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			cut = i
		}
	}
	w.part = slices.Clone(text[cut:])
	_, err := io.WriteString(w.to, Show(string(text[:cut])))
	if w.err = cmp.Or(w.err, err); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Fd is the file's descriptor, so that a terminal is still known for one; none where it is no file.
func (w *writer) Fd() uintptr {
	if file, ok := w.to.(interface{ Fd() uintptr }); ok {
		return file.Fd()
	}
	return math.MaxInt32
}

// OutlivePipe keeps a closed pipe from ending the program at once: writing to it
// fails, as to a full disk, and the program can stop the processes that it started.
func OutlivePipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
