// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/colocation"
)

// program runs the program with arguments and returns its exit code and output.
func program(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("COLUMNS", "")
	var out, errs strings.Builder
	code = run(t.Context(), args, stdio{strings.NewReader(stdin), &out, &errs})
	return code, out.String(), errs.String()
}

// asProgram makes the test's binary run as the program.
const asProgram = "COTENANT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if isPlugin() || os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestOutputNotWanted starts the program with an output that its reader has closed,
// which ends it quietly, and with a full disk, which is reported once.
func TestOutputNotWanted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/dev/full is Linux's")
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, args := range [][]string{
		{"help"}, {"decide", "../quickstart/testdata/measured.yaml"}, {"decide", "-json", "../quickstart/testdata/measured.yaml"},
		{"monitor", "-duration", "30m"}, {"discover"}, {"mig", "pack", "-gpu", "A30", "-demand", "1g.6gb"},
	} {
		start := func(stdout *os.File) (code int, stderr string) {
			var errs strings.Builder
			cmd := exec.Command(os.Args[0], args...)
			cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asProgram+"=1"), stdout, &errs
			if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
				t.Fatal(err)
			}
			return cmd.ProcessState.ExitCode(), errs.String()
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		if code, stderr := start(w); code != exitDone || stderr != "" {
			t.Errorf("%q into a closed pipe: exit %d: %s", args, code, stderr)
		}
		w.Close()
		if code, stderr := start(full); code != exitCannot || strings.Count(stderr, "no space left on device") != 1 {
			t.Errorf("%q on a full disk: exit %d: %s", args, code, stderr)
		}
	}
}

// TestMeasureNotValid: figures that the load client shaped are no answer.
func TestMeasureNotValid(t *testing.T) {
	if err := notValid(&colocation.Report{}); err != nil {
		t.Error(err)
	}
	var coded *exitError
	err := notValid(&colocation.Report{Invalid: []string{"mps/pair"}})
	if !errors.As(err, &coded) || coded.Code != exitInvalid || !strings.Contains(err.Error(), "mps/pair") {
		t.Errorf("%v", err)
	}
}

// TestWrongLargeFile: of a model's weights, given where a small file is meant, only the first bytes are read.
func TestWrongLargeFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 1<<40); err != nil {
		t.Skip(err)
	}
	for _, line := range []string{"guard -real -config FILE", "canary -plan FILE -listen :0", "predict -profiles FILE",
		"decide -profiles FILE ../quickstart/fleet.yaml", "decide FILE", "diff -fleet ../quickstart/fleet.yaml -with FILE", "plan -hints FILE", "probe -predictor FILE"} {
		code, out, errs := program(t, "", strings.Fields(strings.ReplaceAll(line, "FILE", file))...)
		if code != exitBadInput || out != "" || !strings.Contains(errs, file+": the input is larger than ") {
			t.Errorf("%s: exit %d: %s%s", line, code, out, errs)
		}
	}
}
