package main

import (
	"io"
	"strings"
	"testing"

	pages "github.com/cotenant/cotenant/examples/internal/page"
)

func TestBadServing(t *testing.T) {
	for _, s := range []string{"", "a/b=http://x", "a/b/c", "a/b/c=ftp://x", "a/b/c=/metrics"} {
		if pod, page, err := parseServing(s); err == nil {
			t.Errorf("%q: %v %s", s, pod, page)
		}
	}
}

func TestBadObjective(t *testing.T) {
	for _, s := range []string{"", "a/b/c", "a/b=ttft:1s", "a/b/c=", "a/b/c=ttft", "a/b/c=ttft:1", "a/b/c=ttft:-1s", "a/b/c=itl:1s", "a/b/c=ttft:1s,ttft:2s", "a/b/c=ttft:1s,"} {
		if _, o, err := parseObjective(s); err == nil {
			t.Errorf("%q: %+v", s, o)
		}
	}
	for _, args := range [][]string{{"-objective", "a/b/c=ttft:1s"}, {"-serving", "a/b/c=http://x/m", "-objective", "a/b/c=ttft:1s", "-objective", "a/b/c=e2e:1s"}} {
		var stderr strings.Builder
		if code := run(t.Context(), append([]string{"-simulate"}, args...), io.Discard, &stderr); code != pages.ExitBadInput || !strings.Contains(stderr.String(), "-objective") {
			t.Errorf("%q: %d, %s", args, code, stderr.String())
		}
	}
}
