// SPDX-License-Identifier: Apache-2.0

package loadgen_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// noLeak fails when goroutines that were not there before are left.
func noLeak(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		deadline := time.Now().Add(time.Minute)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<16)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

func serve(t *testing.T, opts loadgentest.Options) *loadgentest.Server {
	t.Helper()
	srv, err := loadgentest.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

func planFor(e loadgen.Endpoint, requests int) loadgen.LoadPlan {
	return loadgen.LoadPlan{Tenants: []loadgen.Tenant{{
		Name: "t", Model: "m", Endpoints: []loadgen.Endpoint{e}, Prompts: loadgen.Texts("hello"), MaxTokens: 5,
		Requests: requests, Load: loadgen.OfferedLoad{Concurrency: min(4, requests)},
	}}}
}

func TestFaultsOverTCP(t *testing.T) {
	fast := loadgentest.Reply{TTFT: ms, Interval: ms, Tokens: 5}
	for _, tc := range []struct {
		name  string
		reply loadgentest.Reply
		url   string
		limit loadgen.Timeouts
		class loadgen.Class
		text  string
	}{
		{name: "endpoint down", url: "http://127.0.0.1:1", class: loadgen.ClassConnect, text: "refused"},
		{name: "name does not resolve", url: "http://name.invalid:80", class: loadgen.ClassConnect, text: "name.invalid"},
		{name: "TLS where there is none", url: "https", class: loadgen.ClassConnect, text: "TLS handshake"},
		{name: "a path that is not there", url: "/nope/v1/chat/completions", class: "http_4xx", text: "no such path"},
		{name: "429", reply: loadgentest.Reply{Status: 429, RetryAfter: "7"}, class: "http_429", text: "Retry-After 7"},
		{name: "503", reply: loadgentest.Reply{Status: 503}, class: "http_5xx", text: "Service Unavailable"},
		{name: "redirect", reply: loadgentest.Reply{Status: 302}, class: "malformed", text: "redirects are not followed"},
		{name: "HTML", reply: loadgentest.Reply{Fault: "html"}, class: "malformed", text: "Welcome"},
		{name: "huge event", reply: loadgentest.Reply{Tokens: 2, Fault: "huge-event", FaultAfter: 1}, class: "malformed", text: "size limit"},
		{name: "endless", reply: loadgentest.Reply{Interval: ms, Fault: "endless"}, limit: loadgen.Timeouts{Total: 200 * ms}, class: "timeout_total"},
		{name: "stall", reply: loadgentest.Reply{Tokens: 9, Fault: "stall", FaultAfter: 2}, limit: loadgen.Timeouts{Idle: 100 * ms}, class: "timeout_idle"},
		{name: "no answer", reply: loadgentest.Reply{Fault: "no-answer"}, limit: loadgen.Timeouts{FirstToken: 100 * ms}, class: "timeout_ttft"},
		{name: "cut", reply: loadgentest.Reply{Tokens: 9, Fault: "cut", FaultAfter: 2}, class: loadgen.ClassTruncated, text: "EOF"},
		{name: "fine", reply: fast, class: loadgen.ClassOK},
	} {
		t.Run(tc.name, func(t *testing.T) {
			noLeak(t)
			srv := serve(t, loadgentest.Options{Script: loadgentest.Always(tc.reply)})
			url := srv.URL
			switch {
			case tc.url == "https":
				url = "https" + strings.TrimPrefix(url, "http")
			case strings.HasPrefix(tc.url, "/"):
				url += tc.url
			case tc.url != "":
				url = tc.url
			}
			plan := planFor(loadgen.Endpoint{URL: url}, 4)
			plan.Tenants[0].Timeouts = tc.limit
			res, err := loadgen.Run(context.Background(), plan, loadgen.Options{KeepRecords: true})
			if err != nil {
				t.Fatal(err)
			}
			if n := res.Summary.Counts.ByClass[tc.class]; n != 4 {
				t.Errorf("%v; %s", res.Summary.Counts.ByClass, res.Records[0].Error)
			}
			if got := res.Records[0].Error; !strings.Contains(got, tc.text) {
				t.Errorf("error %q lacks %q", got, tc.text)
			}
		})
	}
}

// TestServerThatStopsReading: the request cannot be written, and the run goes on.
func TestServerThatStopsReading(t *testing.T) {
	noLeak(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	plan := planFor(loadgen.Endpoint{URL: "http://" + ln.Addr().String()}, 2)
	plan.Tenants[0].Prompts = loadgen.Texts(strings.Repeat("x", 12<<20))
	plan.Tenants[0].Timeouts = loadgen.Timeouts{FirstToken: 200 * ms}
	res, err := loadgen.Run(context.Background(), plan, loadgen.Options{KeepRecords: true})
	if err != nil {
		t.Fatal(err)
	}
	if r := res.Records[0]; r.Class != "timeout_ttft" || r.WrittenNS != 0 || r.ConnectedNS == 0 {
		t.Errorf("%+v", r)
	}
}

func TestKernelStamps(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("receive times are read on Linux")
	}
	for _, secure := range []bool{false, true} {
		noLeak(t)
		srv := serve(t, loadgentest.Options{TLS: secure, Script: loadgentest.Always(loadgentest.Reply{TTFT: 5 * ms, Interval: 2 * ms, Tokens: 50})})
		e := loadgen.Endpoint{URL: srv.URL}
		if secure {
			e.TLS = &tls.Config{RootCAs: srv.CertPool()}
		}
		plan := planFor(e, 8)
		plan.Tenants[0].MaxTokens = 50
		res, err := loadgen.Run(context.Background(), plan, loadgen.Options{KeepRecords: true})
		if err != nil {
			t.Fatal(err)
		}
		h := res.Summary.ClientHealth
		// The first reads after enabling may lack a stamp: "mixed" is honest then.
		if res.Summary.Counts.OK != 8 || h.Stamps == "user" || h.ReadLag.Count == 0 {
			t.Errorf("tls %v: %d ok, stamps %q, %+v; %s", secure, res.Summary.Counts.OK, h.Stamps, h.ReadLag, res.Records[0].Error)
		}
		served := srv.Served()
		for i, r := range res.Records {
			// An event cannot be received before it was sent.
			var truth *loadgentest.Served
			for j := range served {
				if d := served[j].Received.UnixNano() - r.SentNS; d >= 0 && r.FirstTokenNS > served[j].Events[0].UnixNano()-int64(ms) {
					truth = &served[j]
					break
				}
			}
			if truth == nil {
				t.Errorf("record %d matches no request of the server", i)
			}
		}
		res, err = loadgen.Run(context.Background(), plan, loadgen.Options{ProcessTimes: true})
		if err != nil {
			t.Fatal(err)
		}
		if h := res.Summary.ClientHealth; h.Stamps != "user" || h.ReadLag.Count != 0 {
			t.Errorf("with process times: %q, %+v", h.Stamps, h.ReadLag)
		}
	}
}

const key = "sk-very-secret-0123456789"

// TestSecretsStayOut: the server echoes the key in its error, and nothing of it reaches an artifact.
func TestSecretsStayOut(t *testing.T) {
	srv := serve(t, loadgentest.Options{APIKey: "another", Script: loadgentest.Always(loadgentest.Reply{})})
	dir := filepath.Join(t.TempDir(), "run")
	plan := planFor(loadgen.Endpoint{
		URL: srv.URL + "/v1?api_key=" + key + "1", APIKey: loadgen.Secret(key),
		Header: http.Header{"X-Api-Key": {key + "2"}, "X-Team": {"blue"}},
	}, 2)
	res, err := loadgen.Run(context.Background(), plan, loadgen.Options{Dir: dir, Meta: map[string]any{"argv": []string{"-key", key}}})
	if err != nil {
		t.Fatal(err)
	}
	if res.Summary.Counts.ByClass["http_4xx"] != 2 {
		t.Errorf("%+v", res.Summary.Counts)
	}
	all := ""
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all += string(b)
		if strings.Contains(string(b), key) {
			t.Errorf("%s holds the key", e.Name())
		}
	}
	for _, want := range []string{"blue", "[redacted]", "invalid api key [redacted]"} {
		if !strings.Contains(all, want) {
			t.Errorf("artifacts lack %q", want)
		}
	}
}

func TestRunDirectory(t *testing.T) {
	srv := serve(t, loadgentest.Options{Script: loadgentest.Always(loadgentest.Reply{TTFT: ms, Interval: ms, Tokens: 5})})
	plan := planFor(loadgen.Endpoint{URL: srv.URL}, 20)
	plan.Scenario = "unit"
	dir := filepath.Join(t.TempDir(), "a", "run")
	res, err := loadgen.Run(context.Background(), plan, loadgen.Options{Dir: dir, KeepRecords: true})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "config.json hist.jsonl requests.jsonl summary.json timeline.csv" {
		t.Errorf("files: %s", got)
	}
	back, err := loadgen.LoadResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(res.Summary)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(back.Summary)
	if err != nil || string(got) != string(want) {
		t.Errorf("summary read back differs (%v):\n%s\n%s", err, got, want)
	}
	lines, err := os.ReadFile(filepath.Join(dir, loadgen.ArtifactRequests))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(lines), "\n"); n != 20 {
		t.Errorf("%d lines in requests.jsonl", n)
	}
	var rec loadgen.Record
	if err := json.Unmarshal([]byte(strings.SplitN(string(lines), "\n", 2)[0]), &rec); err != nil || !slices.Contains(res.Records, rec) {
		t.Errorf("%+v is none of the records: %v", rec, err) // lines are in the order in which requests end
	}
	sent := len(srv.Served())
	if _, err := loadgen.Run(context.Background(), plan, loadgen.Options{Dir: dir}); !errors.Is(err, loadgen.ErrRunExists) {
		t.Errorf("second run into the directory: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadgen.Run(context.Background(), plan, loadgen.Options{Dir: filepath.Join(file, "x")}); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("directory under a file: %v", err)
	}
	if len(srv.Served()) != sent {
		t.Error("requests were sent for a run that cannot be recorded")
	}
}

// TestLostDirectory: the directory vanishes during the run, so that the run is not valid but what was measured is kept.
func TestLostDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("open files keep their directory there")
	}
	dir := filepath.Join(t.TempDir(), "run")
	srv := serve(t, loadgentest.Options{Script: func(r loadgentest.Request) loadgentest.Reply {
		if r.N == 5 {
			os.RemoveAll(dir)
		}
		return loadgentest.Reply{TTFT: ms, Tokens: 2}
	}})
	res, err := loadgen.Run(context.Background(), planFor(loadgen.Endpoint{URL: srv.URL}, 10), loadgen.Options{Dir: dir})
	if res == nil || !errors.Is(err, os.ErrNotExist) || res.Summary.Counts.OK != 10 || res.Summary.ClientHealth.Valid {
		t.Errorf("%v, %v", res, err)
	}
}

// TestCancelKeepsWhatWasMeasured: six requests are answered, then each of many users has one that stalls. No user whose
// request is cut off sends another.
func TestCancelKeepsWhatWasMeasured(t *testing.T) {
	noLeak(t)
	const users = 50
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	srv := serve(t, loadgentest.Options{Script: func(r loadgentest.Request) loadgentest.Reply {
		if r.N < 6 {
			return loadgentest.Reply{TTFT: ms, Tokens: 2}
		}
		if r.N == 6+users-1 {
			time.AfterFunc(500*ms, cancel)
		}
		return loadgentest.Reply{Tokens: 3, Fault: "stall", FaultAfter: 2}
	}})
	plan := planFor(loadgen.Endpoint{URL: srv.URL}, 1000)
	plan.Tenants[0].Load = loadgen.OfferedLoad{Concurrency: users}
	res, err := loadgen.Run(ctx, plan, loadgen.Options{Dir: dir})
	if !errors.Is(err, context.Canceled) || res == nil {
		t.Fatalf("%v, %v", res, err)
	}
	back, err := loadgen.LoadResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	if c := back.Summary.Counts; back.Summary.Complete || c.OK != 6 || c.ByClass["cancelled"] != users ||
		back.Summary.OutputTokensFailed != 2*users || back.Summary.Stopped != "run cut off: context canceled" {
		t.Errorf("%+v", back.Summary)
	}
	if res, err := loadgen.Run(ctx, plan, loadgen.Options{}); !errors.Is(err, context.Canceled) || res == nil || res.Summary.Counts.Total != 0 {
		t.Errorf("cancelled before the start: %v, %v", res, err)
	}
}

type brokenSource struct{ n int }

var errBroken = errors.New("line 3: not JSON")

func (b *brokenSource) Next() (loadgen.Prompt, error) {
	if b.n++; b.n > 2 {
		return loadgen.Prompt{}, errBroken
	}
	return loadgen.Prompt{Text: "x"}, nil
}

func TestBrokenPrompts(t *testing.T) {
	srv := serve(t, loadgentest.Options{})
	plan := planFor(loadgen.Endpoint{URL: srv.URL}, 10)
	plan.Tenants[0].Prompts = &brokenSource{}
	plan.Tenants[0].Load.Concurrency = 1
	res, err := loadgen.Run(context.Background(), plan, loadgen.Options{})
	if !errors.Is(err, errBroken) || res == nil || res.Summary.Counts.OK != 2 {
		t.Errorf("%v, %v", res, err)
	}
	plan.Tenants[0].Prompts = loadgen.NewPromptCycle(loadgen.Prompt{Messages: []loadgen.Message{{Role: "user", Content: "x"}}})
	plan.Tenants[0].API = "completions"
	if _, err := loadgen.Run(context.Background(), plan, loadgen.Options{}); err == nil || !strings.Contains(err.Error(), "unusable prompt") {
		t.Errorf("messages under completions: %v", err)
	}
}
