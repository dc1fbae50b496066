// SPDX-License-Identifier: Apache-2.0

// Package plaintext makes text of other programs safe to print on terminals, without control characters, and formats
// numbers, money and lists.
package plaintext

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hidden reports whether a terminal or a browser obeys r instead of showing it: control
// characters other than line feed and tab, those of format, and other ends of lines.
func hidden(r rune) bool {
	return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Show returns text with each control character written as its escape, "\u001b" for ESC, and each byte that is no
// UTF-8 as U+FFFD. Line feeds and tabs stay. JSON keeps its meaning.
func Show(text string) string {
	if strings.IndexFunc(text, hidden) < 0 {
		return strings.ToValidUTF8(text, "\ufffd")
	}
	var b strings.Builder
	for _, r := range text {
		if hidden(r) && r > 0xffff {
			b.WriteRune(utf8.RuneError)
		} else if hidden(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// NewWriter returns a Writer that passes its input through Show to w. A character that is
// split between two calls of Write is written whole.
func NewWriter(w io.Writer) io.Writer { return &writer{to: w} }

type writer struct {
	to   io.Writer
	part []byte // the beginning of a character
}

// Write returns the length of b unless the underlying Writer fails.
func (w *writer) Write(b []byte) (int, error) {
	text := append(w.part, b...)
	cut := len(text)
	for i := max(0, cut-utf8.UTFMax+1); i < cut; i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			cut = i
		}
	}
	w.part = append([]byte(nil), text[cut:]...)
	if _, err := io.WriteString(w.to, Show(string(text[:cut]))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Count writes a number with its noun, in the plural unless that is 1; fractions are rounded to hundredths.
func Count[N int | float64](n N, noun string) string {
	rounded := math.Round(float64(n)*100) / 100
	if rounded != 1 {
		noun += "s"
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64) + " " + noun
}

// Wrap breaks lines longer than width at words. Continuation lines are indented by hang more columns.
func Wrap(text string, width, hang int) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		rest := strings.TrimLeft(line, " ")
		indent := len(line) - len(rest)
		line = line[:indent]
		for k, word := range strings.Fields(rest) {
			switch {
			case k == 0:
				line += word
			case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
				line += " " + word
			default:
				out = append(out, line)
				line = strings.Repeat(" ", indent+hang) + word
			}
		}
		out = append(out, strings.TrimRight(line, " "))
	}
	return strings.Join(out, "\n")
}

// Some lists the first of names, at most most, and counts the rest of all n.
func Some(names []string, most, n int) string {
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := n - min(most, len(names)); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Digits writes a figure with four significant digits, or as a whole number.
func Digits(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// Amount writes an amount of money for people: rounded to cents, which are left out where they are 0, with commas
// between thousands; "-" for none.
func Amount(decimal string) string {
	f, err := strconv.ParseFloat(decimal, 64)
	if err != nil {
		return "-"
	}
	whole, cents, _ := strings.Cut(strconv.FormatFloat(f, 'f', 2, 64), ".")
	for at := len(whole) - 3; at > 0 && whole[at-1] != '-'; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if cents != "00" {
		whole += "." + cents
	}
	return whole
}
