package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/golden"
)

func TestRun(t *testing.T) {
	nodes, pods := filepath.Join("testdata", "nodes.yaml"), filepath.Join("testdata", "pods.yaml")
	args := filepath.Join(t.TempDir(), "args.yaml")
	if err := os.WriteFile(args, []byte("policy: spread\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		args  []string
		stdin string
		code  int
		want  string // of standard error
	}{
		{"sample", nil, "", 1, "no node takes research/too-big"},
		{"sample-table", []string{"-table"}, "", 1, ""},
		{"", []string{"-nodes", nodes, "-pods", pods, "-args", args, "-table"}, "", 1, ""},
		{"", []string{"-nodes", nodes, "-pods", "-", "-table"}, "kind: Pod\nmetadata: {name: x}\n", 0, ""},
		{"", []string{"-nonsense"}, "", 2, "not defined: -nonsense"},
		{"", []string{"-nodes", nodes}, "", 2, "give both -nodes and -pods"},
		{"", []string{"-nodes", "-", "-pods", "-"}, "", 2, "standard input is either"},
		{"", []string{"extra"}, "", 2, `unexpected argument "extra"`},
		{"", []string{"-nodes", "gone", "-pods", "gone too"}, "", 2, "gone too"},
		{"", []string{"-nodes", pods, "-pods", nodes}, "", 2, "it is a Node, not a Pod"},
		{"", []string{"-nodes", pods, "-pods", nodes}, "", 2, "dra: " + pods + ": Nodes, document 0: it is a Pod, not a Node"},
		{"", []string{"-nodes", nodes, "-pods", "-"}, "[]\n---\nmetadata: {}\n", 2, "dra: -: Pods, document 1: it has no kind"},
		{"", []string{"-args", nodes}, "", 2, "unknown field"},
		{"", []string{"-slices", nodes}, "", 2, "it is a Node, not a ResourceSlice"},
		{"", []string{"-nodes", nodes, "-pods", "-"},
			"kind: Pod\nmetadata: {name: x, annotations: {cotenant.dev/kind: mining}}\nspec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 1}}}]}\n",
			2, "metadata.annotations[cotenant.dev/kind]"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), tc.args, strings.NewReader(tc.stdin), &stdout, &stderr)
		if code != tc.code || !strings.Contains(stderr.String(), tc.want) {
			t.Errorf("%v: %d, want %d; %s", tc.args, code, tc.code, stderr.String())
		}
		if code == 2 && (stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "dra: ")) {
			t.Errorf("%v: %q and %q", tc.args, stdout.String(), stderr.String())
		}
		if tc.name != "" {
			golden.Check(t, filepath.Join("testdata", "golden", tc.name+".txt"), stdout.Bytes())
		}
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), []string{"-h"}, strings.NewReader(""), &stdout, &stderr); code != 0 || stderr.Len() > 0 || !strings.Contains(stdout.String(), "usage: dra") || !strings.Contains(stdout.String(), "-nodes") {
		t.Errorf("%d: %q and %q", code, stdout.String(), stderr.String())
	}
}

// TestInterrupted writes nothing.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	if code := run(ctx, nil, strings.NewReader(""), &stdout, &stderr); code != 130 || stdout.Len() > 0 {
		t.Errorf("%d, %q", code, stdout.String())
	}
}

// TestReadme holds that the README prints what the command prints.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	run(context.Background(), []string{"-table"}, strings.NewReader(""), &stdout, &stderr)
	for line := range strings.Lines(stdout.String() + stderr.String()) {
		if !strings.Contains(string(readme), "    "+line) {
			t.Errorf("the README does not have %q", line)
		}
	}
}
