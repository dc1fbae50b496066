package mig

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
)

const hooksText = `version: v1
hooks:
  apply-exit: []
  apply-start:
    - {command: /bin/bash, args: ["-c", "echo \"a: b\" ${X}"], envs: {LANG: C}, workdir: /etc}
    - {command: "true"}
`

func TestHooksRoundTrip(t *testing.T) {
	h, err := ParsePartedHooks([]byte(hooksText))
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/hooks.yaml", out)
	back, err := ParsePartedHooks(out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, back); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for in, want := range map[string]string{
		"version: v2\nhooks: {}":                             `is "v2"`,
		"version: v1":                                        "hooks: is missing",
		"version: v1\nhooks: {now: []}":                      "is no hook",
		"version: v1\nhooks: {apply-exit: [{args: [a]}]}":    "command: is missing",
		"version: v1\nhooks: {apply-exit: [{command: ''}]}":  "is empty",
		"version: v1\nhooks: {apply-exit: [{command: [a]}]}": "must be",
		"version: v1\nhooks: {apply-exit: [{cmd: a}]}":       "unknown key",
	} {
		if h, err := ParsePartedHooks([]byte(in)); !errors.Is(err, ErrInvalid) || h != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func FuzzParsePartedHooks(f *testing.F) {
	f.Add(hooksText)
	f.Fuzz(func(t *testing.T, s string) {
		h, err := ParsePartedHooks([]byte(s))
		if (err == nil) != (h != nil) {
			t.Fatalf("%v with %v", h, err)
		}
		if err != nil {
			return
		}
		out, err := h.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParsePartedHooks(out)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := back.Marshal(); err != nil || string(again) != string(out) {
			t.Errorf("%v\n%s\n%s", err, out, again)
		}
	})
}
