// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/golden"
)

func call(t *testing.T, ctx context.Context, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(ctx, args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

const pair = `tenants:
- {name: chat, step: 1.8ms, think: 100us, steps: 64}
- {name: batch, step: 6.5ms, think: 300us, steps: 10}
`

func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"builtin.txt": {"-for", "20s"},
		"pair.txt":    {"-for", "10s", "-f", "-"},
	} {
		code, out, errs := call(t, context.Background(), pair, args...)
		if code != 0 || errs != "" {
			t.Fatalf("%s: exit %d, %s", name, code, errs)
		}
		golden.Check(t, filepath.Join("testdata", name), []byte(out))
	}
}

func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		name, stdin string
		args        []string
		want        []string
	}{
		{"unknown flag", "", []string{"-tenant", "3"}, []string{"not defined: -tenant"}},
		{"argument", "", []string{"x.yaml"}, []string{`unknown argument "x.yaml"`}},
		{"no file", "", []string{"-f", "nowhere.yaml"}, []string{"nowhere.yaml"}},
		{"empty", "", []string{"-f", "-"}, []string{"standard input"}},
		{"every problem", "tenants:\n- {name: a, step: 1.8, think: x}\n- {nam: b, step: 1ms}\n", []string{"-f", "-"},
			[]string{"tenants[0].step", "tenants[0].think", `tenants[1]`, "name"}},
		{"twice", "tenants:\n- {name: a, step: 1ms}\n- {name: a, step: 1ms}\n", []string{"-f", "-"}, []string{`"a" is there twice`}},
		{"nonsense values", "tenants:\n- {name: a, step: -1ms, step_cv: -2}\n", []string{"-f", "-"}, []string{"tenants[0].step.mean", "tenants[0].step.cv"}},
		{"quantum", "", []string{"-quantum", "-1ms"}, []string{"scheduler.quantum"}},
		{"no quantum", "", []string{"-quantum", "0"}, []string{"scheduler.quantum"}},
		{"switch", "", []string{"-switch", "-5ms"}, []string{"scheduler.switch"}},
		{"time", "", []string{"-for", "-1s"}, []string{"-for: must be over 0, is -1s"}},
		{"no time", "", []string{"-for", "0"}, []string{"-for: must be over 0, is 0s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := call(t, context.Background(), c.stdin, c.args...)
			if code != 2 || out != "" {
				t.Errorf("exit %d, printed %q", code, out)
			}
			for _, want := range c.want {
				if !strings.Contains(errs, want) {
					t.Errorf("%q does not say %q", errs, want)
				}
			}
		})
	}
}

func TestHelp(t *testing.T) {
	code, out, errs := call(t, context.Background(), "", "-h")
	if code != 0 || errs != "" || !strings.Contains(out, "rate_per_second") || !strings.Contains(out, "-quantum") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	code, out, errs := call(t, ctx, "")
	if code != 130 || !strings.Contains(out, "TENANTS") || !strings.Contains(errs, "interrupted") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
