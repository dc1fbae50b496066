// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestListErr(t *testing.T) {
	var l List
	if l.Err() != nil {
		t.Fatal("an empty list is an error")
	}
	l.Addf("a.b", "use 1", "must be %d", 1)
	l.Addf("a.b", "use 1", "must be %d", 1)
	var inner List
	inner.Addf("[0].x", "", "bad")
	inner.Addf("y", "", "worse")
	l.AddErr("list", inner.Err())
	l.AddErr("plain", errors.New("boom"))
	want := "a.b: must be 1 (use 1)\nlist[0].x: bad\nlist.y: worse\nplain: boom"
	if got := l.Err().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var p *Problem
	if !errors.As(l.Err(), &p) || p.Path != "a.b" {
		t.Errorf("errors.As finds %+v", p)
	}
}

// TestAddErrKeepsAllThatIsWrapped: errors under one or more %w are recorded one by one.
func TestAddErrKeepsAllThatIsWrapped(t *testing.T) {
	var inner List
	inner.Addf("x", "", "bad")
	inner.Addf("y", "use 1", "worse")
	deep := fmt.Errorf("tenant: %w", fmt.Errorf("again: %w", errors.Join(inner.Err(), errors.New("plain"))))
	var l List
	l.AddErr("list", deep)
	l.AddErr("", fmt.Errorf("reading: %w", io.EOF))
	want := "list.x: bad\nlist.y: worse (use 1)\nlist: plain\nreading: EOF"
	if got := l.Err().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestErrIsBounded: an error names 100 problems, each cut, and counts the others, also those of errors in errors.
func TestErrIsBounded(t *testing.T) {
	var inner, outer List
	long := strings.Repeat("ä", 2000)
	for i := range 3_000 {
		inner.Addf(fmt.Sprintf("[%d]", i), "", "%s", long)
	}
	outer.Addf("first", "", "bad")
	outer.AddErr("list", fmt.Errorf("wrapped: %w", inner.Err()))
	text := outer.Err().Error()
	if n := strings.Count(text, "\n"); n != 100 || len(text) > 250_000 || !strings.HasSuffix(text, "\nand 2901 more problems") || !utf8.ValidString(text) {
		t.Errorf("%d lines, %d bytes, ends in %q", n+1, len(text), text[len(text)-40:])
	}
}

func TestErrOrdersByLine(t *testing.T) {
	var l List
	l.Add(&Problem{Path: "b", Line: 9, Message: "m"})
	l.Add(&Problem{Path: "a", Line: 2, Message: "m"})
	if got := l.Err().Error(); !strings.HasPrefix(got, "a: m") {
		t.Errorf("got %q", got)
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct{ word, want string }{
		{"replcas", "replicas"}, {"GPU", "gpu"}, {"zzzzzz", ""}, {"", ""},
	} {
		if got := Nearest(c.word, []string{"replicas", "gpu", "memory"}); got != c.want {
			t.Errorf("Nearest(%q) = %q, want %q", c.word, got, c.want)
		}
	}
}

func TestClip(t *testing.T) {
	long := strings.Repeat("ä", 100)
	for in, want := range map[string]string{"": "", "a\x1b[2J": `a\u001b[2J`, "short": "short", long: long, long + "b": long + "…", "a\xffb": "a\uFFFDb"} {
		if got := Clip(in); got != want {
			t.Errorf("%q is clipped to %q, want %q", in, got, want)
		}
	}
}

func TestA(t *testing.T) {
	for name, want := range map[string]string{"L4": "an L4", "T4": "a T4", "Tesla T4": "a Tesla T4", "NVIDIA A30": "an NVIDIA A30", "H100 80GB HBM3": "an H100 80GB HBM3",
		"GB10": "a GB10", "RTX 5090": "an RTX 5090", "Quadro RTX 6000": "a Quadro RTX 6000", "V100": "a V100", "A100": "an A100", "": "a "} {
		if got := A(name); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
