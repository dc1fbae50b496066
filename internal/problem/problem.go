// SPDX-License-Identifier: Apache-2.0

// Package problem collects all problems of an input, so that a user gets one error that names each with its path and
// remedy.
package problem

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cotenant/cotenant/internal/plaintext"
)

// Problem is one thing wrong with an input.
type Problem struct {
	// Path locates the problem in the input, e.g. "workloads[2].slo.ttft_p99".
	// It is empty for a problem of the whole input.
	Path string
	// Line is the 1-based line in the source document, or 0 if not known.
	Line int
	// Message states the problem.
	Message string
	// Remedy is a way to solve it. It may be empty.
	Remedy string
}

// Error formats the problem on one line, each part cut after partAt bytes.
func (p *Problem) Error() string {
	var b strings.Builder
	if p.Path != "" {
		b.WriteString(cut(p.Path))
		b.WriteString(": ")
	}
	b.WriteString(cut(p.Message))
	if p.Remedy != "" {
		b.WriteString(" (")
		b.WriteString(cut(p.Remedy))
		b.WriteString(")")
	}
	return b.String()
}

// partAt bounds a problem's path, message and remedy in an error's text, in bytes: each may repeat a part of an input.
const partAt = 2000

// cut cuts a part, at the start of a character.
func cut(part string) string {
	if len(part) <= partAt {
		return part
	}
	end := partAt
	for end > partAt-utf8.UTFMax && !utf8.RuneStart(part[end]) {
		end--
	}
	return part[:end] + "…"
}

// named bounds the problems that an error names. It counts the others.
const named = 100

// rest counts the problems that an error does not name.
type rest int

func (r rest) Error() string { return "and " + plaintext.Count(int(r), "more problem") }

// List collects problems in the order in which they are found. The zero value
// is an empty list. It is not safe for concurrent use.
type List struct {
	problems []*Problem
	seen     map[string]bool
	rest     rest // counted in errors that were added
}

// Addf records a problem at path. remedy may be empty.
func (l *List) Addf(path, remedy, format string, args ...any) {
	l.Add(&Problem{Path: path, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

// If records a problem at path, which is there when wrong.
func (l *List) If(wrong bool, path, remedy, format string, args ...any) {
	if wrong {
		l.Addf(path, remedy, format, args...)
	}
}

// Add records p unless the list has the same path and message already.
func (l *List) Add(p *Problem) {
	key := p.Path + "\x00" + p.Message
	if l.seen[key] {
		return
	}
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	l.seen[key] = true
	l.problems = append(l.problems, p)
}

// AddErr records err at path. Joined errors, and errors that wrap problems at any depth, are recorded one by one;
// path is put before the paths of the problems.
func (l *List) AddErr(path string, err error) {
	var inside *Problem
	switch e := err.(type) {
	case nil:
		return
	case *Problem:
		q := *e
		q.Path = Join(path, e.Path)
		l.Add(&q)
		return
	case rest:
		l.rest += e
		return
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			l.AddErr(path, one)
		}
		return
	case interface{ Unwrap() error }:
		if errors.As(err, &inside) {
			l.AddErr(path, e.Unwrap())
			return
		}
	}
	l.Addf(path, "", "%v", err)
}

// Len is the number of problems.
func (l *List) Len() int { return len(l.problems) }

// Problems returns the problems in order. The slice is the list's own.
func (l *List) Problems() []*Problem { return l.problems }

// Err returns nil for an empty list and otherwise errors.Join of its problems,
// ordered by line where every line is known. It names the first 100 and counts the rest.
func (l *List) Err() error {
	if len(l.problems) == 0 {
		return nil
	}
	ps := slices.Clone(l.problems)
	if !slices.ContainsFunc(ps, func(p *Problem) bool { return p.Line == 0 }) {
		slices.SortStableFunc(ps, func(a, b *Problem) int { return cmp.Compare(a.Line, b.Line) })
	}
	more := l.rest + rest(max(0, len(ps)-named))
	ps = ps[:min(len(ps), named)]
	errs := make([]error, len(ps), len(ps)+1)
	for i, p := range ps {
		errs[i] = p
	}
	if more > 0 {
		errs = append(errs, more)
	}
	return errors.Join(errs...)
}

// Under returns the error of Err under an error of a kind, nil for an empty list.
func (l *List) Under(kind error) error { return Under(kind, l.Err()) }

// Under returns err under an error of a kind: errors.Is finds both. It is nil for nil.
func Under(kind, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// Input returns an error about an input: its text is err's with a package's prefix, and errors.Is finds kind in it. In
// a List it adds the text of err. It is nil for nil.
func Input(prefix string, kind, err error) error {
	if err == nil {
		return nil
	}
	if inside := (*Problem)(nil); !errors.As(err, &inside) {
		err = &Problem{Message: err.Error()}
	}
	return &inputError{prefix, kind, err}
}

type inputError struct {
	prefix    string
	kind, err error
}

func (e *inputError) Error() string        { return e.prefix + e.err.Error() }
func (e *inputError) Unwrap() error        { return e.err }
func (e *inputError) Is(target error) bool { return target == e.kind }

// Enough is the number of problems that a reader lists before it gives up: a file of the
// wrong kind is wrong on every line.
const Enough = 20

// Join joins two paths: an index ("[3]") follows without a dot.
func Join(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	case strings.HasPrefix(b, "["):
		return a + b
	}
	return a + "." + b
}

// Nearest returns the candidate closest to word by edit distance, or "" when none is within a third of the word's
// length (at least 2 edits). Case does not count.
func Nearest(word string, candidates []string) string {
	limit := max(2, len(word)/3)
	best, bestD := "", limit+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c), limit); d < bestD {
			best, bestD = c, d
		}
	}
	return best
}

// Meant is the remedy for a word that is none of the candidates: it asks whether the nearest was meant, and is
// otherwise where none is near.
func Meant(word string, candidates []string, otherwise string) string {
	if near := Nearest(word, candidates); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return otherwise
}

// distance is the Levenshtein distance of a and b, cut off above limit.
func distance(a, b string, limit int) int {
	if len(a) > 64 || len(b) > 64 || max(len(a), len(b))-min(len(a), len(b)) > limit {
		return limit + 1
	}
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			c := prev[j-1]
			if a[i-1] != b[j-1] {
				c++
			}
			cur[j] = min(c, prev[j]+1, cur[j-1]+1)
		}
		prev, cur = cur, prev
	}
	return prev[len(b)]
}

// clipAt bounds the runes of a text from outside that an error message repeats.
const clipAt = 100

// Clip makes a text from outside fit for an error message: valid UTF-8, control characters shown, cut after 100 runes.
func Clip(s string) string {
	s = plaintext.Show(s)
	if r := []rune(s); len(r) > clipAt {
		return string(r[:clipAt]) + "…"
	}
	return s
}

// A puts the article before a name as it is read aloud: an L4, a T4, an NVIDIA A30.
func A(name string) string {
	article := "a "
	switch spelt := len(name) > 1 && (name[1] < 'a' || name[1] > 'z'); {
	case name == "":
	case spelt && strings.IndexByte("AEFHILMNORSX8", name[0]) >= 0, !spelt && strings.IndexByte("AEIOaeio", name[0]) >= 0:
		article = "an "
	}
	return article + name
}
