//go:build linux

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// TestOpenFileLimit: with 64 open files the program refuses 200 users, says how to
// go on, and sends nothing; where it could not know, the run is invalid.
func TestOpenFileLimit(t *testing.T) {
	srv, err := loadgentest.NewServer(loadgentest.Options{Script: loadgentest.Always(loadgentest.Reply{TTFT: 300 * time.Millisecond, Tokens: 1})})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	limited := func(args ...string) (int, string) {
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -n 64; exec "$0" "$@"`, os.Args[0], "-endpoint", srv.URL, "-progress=false"}, args...)...)
		cmd.Env = append(os.Environ(), asProcess+"=1")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	if code, out := limited("-concurrency", "200", "-requests", "600"); code != exitBad || !strings.Contains(out, "ulimit -n 2") || len(srv.Served()) != 0 {
		t.Errorf("exit %d, %d served: %s", code, len(srv.Served()), out)
	}
	if code, out := limited("-rate", "1000", "-requests", "300"); code != exitInvalid || !strings.Contains(out, "client_limit ") || !strings.Contains(out, "want of the client's own resources") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestConnectCause: a refused connection is called so.
func TestConnectCause(t *testing.T) {
	for want, url := range map[string]string{"connect 2: connection refused": "http://127.0.0.1:1", "no such host": "http://name.invalid"} {
		if code, _, errs := execProgram(t.Context(), "", "-endpoint", url, "-requests", "2", "-progress=false"); code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("exit %d: %s", code, errs)
		}
	}
}
