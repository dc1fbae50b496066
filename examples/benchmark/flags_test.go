package main

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// asked starts a server that notes what it was asked, and returns its URL and the
// requests so far.
func asked(t *testing.T) (string, func() []loadgentest.Request) {
	var mu sync.Mutex
	var all []loadgentest.Request
	url := serve(t, func(r loadgentest.Request) loadgentest.Reply {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, r)
		return loadgentest.Reply{Tokens: 2}
	})
	return url, func() []loadgentest.Request {
		mu.Lock()
		defer mu.Unlock()
		defer func() { all = nil }()
		return all
	}
}

func TestWhatIsAsked(t *testing.T) {
	url, requests := asked(t)
	chats := filepath.Join(t.TempDir(), "chats.json")
	if err := os.WriteFile(chats, []byte(`[{"id":"a","conversations":[{"from":"human","value":"How many?"},{"from":"gpt","value":"Sixteen or so."}]}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args  []string
		wants []string
	}{
		{[]string{"-body", "temperature=0", "-body", "stop=[\"x\"]", "-body", "user=me", "-ignore-eos"}, []string{`"temperature":0`, `"stop":["x"]`, `"user":"me"`, `"ignore_eos":true`}},
		{[]string{"-random-input-len", "50", "-random-output-len", "7"}, []string{`"max_tokens":7`}},
		{[]string{"-sharegpt", chats}, []string{`"content":"How many?"`, `"max_tokens":4`}},
	} {
		code, out, errs := execProgram(t.Context(), "", append([]string{"-endpoint", url, "-requests", "2", "-concurrency", "1", "-progress=false"}, tc.args...)...)
		got := requests()
		if code != exitOK && code != exitInvalid || len(got) != 2 {
			t.Fatalf("%q: exit %d, %d requests: %s%s", tc.args, code, len(got), out, errs)
		}
		for _, want := range tc.wants {
			if !strings.Contains(string(got[1].Body), want) {
				t.Errorf("%q: no %s in %.300s", tc.args, want, got[1].Body)
			}
		}
		if tc.args[0] == "-random-input-len" && len(strings.Fields(got[0].Prompt)) != 50 {
			t.Errorf("%d words", len(strings.Fields(got[0].Prompt)))
		}
	}
	for want, args := range map[string][]string{
		"write NAME=VALUE": {"-body", "temperature"}, "exclude one another": {"-sharegpt", chats, "-prompts", "x"}, "-random-input-len and -sharegpt exclude": nil,
		"-ca: has no effect": {"-ca", "x"}, "no known figure": {"-fail-if", "speed>1"}, "-fail-if: a search": {"-fail-if", "failed>1%", "-search", "1,2", "-slo-e2e", "1s"},
	} {
		if args == nil {
			args = []string{"-random-input-len", "5", "-sharegpt", chats}
			want = "exclude one another"
		}
		if code, _, errs := execProgram(t.Context(), "", append([]string{"-endpoint", url}, args...)...); code != exitBad || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d: %s", args, code, errs)
		}
	}
}

// TestFailIf: a run ends with 4 where a condition holds or cannot be told.
func TestFailIf(t *testing.T) {
	// Slow answers, which a busy machine reads in time.
	url := serve(t, loadgentest.Every(4, loadgentest.Reply{Status: 503}, loadgentest.Reply{TTFT: 20 * time.Millisecond, Interval: 80 * time.Millisecond, Tokens: 3}))
	for condition, want := range map[string]int{"failed>1%": exitMissed, "failed>50%": exitOK, "ttft.p99>1m": exitBad, "ttft.p50>30s": exitOK, "ttft.p99>30s": exitMissed, "goodput<1%": exitMissed} {
		code, errs := exitInvalid, ""
		for try := 0; code == exitInvalid && try < 5; try++ {
			code, _, errs = execProgram(t.Context(), "", "-endpoint", url, "-requests", "20", "-concurrency", "10", "-progress=false", "-fail-if", condition)
		}
		if code != want || want == exitMissed && !strings.Contains(errs, condition) {
			t.Errorf("%s: exit %d, want %d: %s", condition, code, want, errs)
		}
	}
}

// TestCertificateAuthority: an https endpoint is checked against the file of -ca, or of
// a plan's ca_file.
func TestCertificateAuthority(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
	}))
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-endpoint", srv.URL, "-requests", "2", "-progress=false"}
	if code, out, errs := execProgram(t.Context(), "", append(args, "-ca", ca)...); code != exitOK && code != exitInvalid {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if code, _, errs := execProgram(t.Context(), "", args...); code != exitFailed || !strings.Contains(errs, "unknown authority") {
		t.Errorf("without -ca: exit %d: %s", code, errs)
	}
	plan := filepath.Join(filepath.Dir(ca), "plan.yaml")
	for file, want := range map[string]string{"ca.pem": "", "none.pem": "tenants[0].endpoints[0].ca_file", "plan.yaml": "no certificate in PEM"} {
		text := fmt.Sprintf("tenants:\n- {name: a, requests: 2, concurrency: 1, endpoints: [{url: '%s', ca_file: %s}]}\n", srv.URL, file)
		if err := os.WriteFile(plan, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		code, out, errs := execProgram(t.Context(), "", "-plan", plan, "-progress=false")
		if want == "" && code != exitOK && code != exitInvalid || want != "" && (code != exitBad || !strings.Contains(errs, want)) {
			t.Errorf("%s: exit %d: %s%s", file, code, out, errs)
		}
	}
	for _, bad := range []string{filepath.Join(t.TempDir(), "none"), os.Args[0]} {
		if code, _, errs := execProgram(t.Context(), "", append(args, "-ca", bad)...); code != exitBad || !strings.Contains(errs, "-ca:") {
			t.Errorf("%s: exit %d: %s", bad, code, errs)
		}
	}
}
