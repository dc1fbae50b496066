package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/golden"
)

func command(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("COLUMNS", "")
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestBuiltIn(t *testing.T) {
	code, stdout, stderr := command(t, "")
	if code != exitOK || stderr != "" {
		t.Fatal(code, stderr)
	}
	golden.Check(t, "testdata/builtin.txt", []byte(stdout))
}

func TestJSON(t *testing.T) {
	code, stdout, stderr := command(t, "", "-json")
	if code != exitOK {
		t.Fatal(code, stderr)
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"fleet", "provenance", "findings", "unknown", "today", "rightsize"} {
		if len(doc[key]) == 0 || string(doc[key]) == "null" {
			t.Errorf("%s: %s", key, doc[key])
		}
	}
}

// TestOut: the file is what quickstart reads.
func TestOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	if code, _, stderr := command(t, "", "-out", file); code != exitOK || !strings.Contains(stderr, "wrote "+file) {
		t.Fatal(code, stderr)
	}
	f, err := decision.LoadFleet(file)
	if err != nil || len(f.Pools) != 2 || len(f.Workloads) != 8 {
		t.Error(err)
	}
	if code, _, stderr := command(t, "", "-out", filepath.Join(file, "below")); code != exitBadInput || stderr == "" {
		t.Error(code, stderr)
	}
}

func TestExits(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	all := string(cluster)
	for _, c := range []struct {
		name  string
		stdin string
		args  []string
		code  int
		want  string // on standard error
	}{
		{"standard input", all, []string{"-"}, exitOK, ""},
		{"half a file", all[:len(all)/2], []string{"-"}, exitInPart, "standard input: the JSON is cut off after"},
		{"one of two", all, []string{"-", write("x.txt", "hello")}, exitInPart, "of no kind that is read"},
		{"nothing", "", []string{"-"}, exitBadInput, "is empty"},
		{"no file", "", []string{filepath.Join(dir, "none")}, exitBadInput, "none"},
		{"prices", all, []string{"-prices", write("p.yaml", "A100: 3 USD"), "-"}, exitBadInput, "ambiguous"},
		{"hints", all, []string{"-hints", write("h.yaml", "workload: {}"), "-"}, exitBadInput, "workload: unknown key"},
		{"flag", "", []string{"-nope"}, exitBadInput, "not defined"},
		{"help", "", []string{"-h"}, exitOK, ""},
	} {
		code, stdout, stderr := command(t, c.stdin, c.args...)
		if code != c.code || !strings.Contains(stderr, c.want) || c.want == "" && stderr != "" || (stdout == "") != (c.code == exitBadInput) {
			t.Errorf("%s: exit %d, %d bytes out, stderr %s", c.name, code, len(stdout), stderr)
		}
		for line := range strings.Lines(stdout) {
			if len([]rune(line)) > 101 {
				t.Errorf("%s: over 100 columns: %s", c.name, line)
			}
		}
	}
}
