// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/golden"
)

func runQuick(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestRun(t *testing.T) {
	code, text, stderr := runQuick()
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	golden.Check(t, "testdata/golden/fleet.txt", []byte(text))
	_, out, _ := runQuick("-json", "-fleet", "fleet.yaml")
	if err := json.Unmarshal([]byte(out), new(decision.Result)); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"-h", "", 0},
		{"fleet.yaml", "-fleet", 2},
		{"-nope", "-nope", 2},
		{"-fleet none.yaml", "none.yaml", 2},
		{"-fleet main.go", "main.go", 2},
	} {
		if code, _, stderr := runQuick(strings.Fields(c.args)...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, %s", c.args, code, stderr)
		}
	}
}

// TestSmall: the README's first program is short, and nothing that it links needs
// cgo, which would add half a minute to its first start.
func TestSmall(t *testing.T) {
	src, err := os.ReadFile("main.go")
	if n := bytes.Count(src, []byte("\n")); err != nil || n > 100 {
		t.Errorf("%d lines, %v", n, err)
	}
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if .CgoFiles}}{{.ImportPath}}{{end}}", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("%v, packages with cgo: %s", err, out)
	}
}
