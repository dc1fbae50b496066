package ledger

import (
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// TestTokensKept: tokens are what servers did while their pages were read, over
// restarts of servers and of the exporter, and are shown once they are stored.
func TestTokensKept(t *testing.T) {
	pod := container.Pod{Namespace: "shop", Name: "web", Container: "c"}
	body := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
	defer srv.Close()
	pages := map[container.Pod]Page{pod: {URL: srv.URL + "/metrics"}}
	log := slog.New(slog.DiscardHandler)
	open := func(m map[string]Tokens) *Servers {
		s := NewServers(pages, log)
		s.restore(m)
		return s
	}
	read := func(s *Servers, prompt, generated int) {
		body = fmt.Sprintf("# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{model_name=\"m\"} %d\n", generated)
		if prompt >= 0 {
			body += fmt.Sprintf("# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{model_name=\"m\"} %d\n", prompt)
		}
		page, err := s.get(t.Context(), srv.URL, time.Second)
		s.note(pod, page, err)
	}
	want := func(s *Servers, record string) map[string]Tokens {
		t.Helper()
		before := s.totals()[pod]
		changed := s.changes()
		if len(changed) != 1 || changed[0].Name != "tokens shop/web/c" || string(changed[0].Value) != record {
			t.Fatalf("%q, want %q", changed, record)
		}
		if s.totals()[pod] == before || len(s.changes()) != 0 {
			t.Errorf("shown before it was stored: %v", before)
		}
		kept, err := parseTokens(changed[0])
		if err != nil || kept != s.totals()[pod] {
			t.Errorf("%v, %v", kept, err)
		}
		return map[string]Tokens{changed[0].Name: kept}
	}
	s := open(nil)
	if c := s.changes(); len(c) != 0 {
		t.Errorf("before any page: %q", c)
	}
	read(s, -1, 1000) // before the first page: not this exporter's
	want(s, "- 0 - - -")
	read(s, 500, 1300)
	read(s, 700, 40) // restarted
	kept := want(s, "700 340 - - -")
	s = open(kept)
	read(s, 9000, 9000) // while the exporter was away
	if c := s.changes(); len(c) != 0 {
		t.Errorf("%q", c)
	}
	read(s, 9001, 9002)
	want(s, "701 342 - - -")
}

func TestBadTokens(t *testing.T) {
	for _, v := range []string{"", "1", "1 2 3", "x 1", "1 -2", "1 2 3 4", "1 2 3 4 x", "1 2 3 4 5 6", "NaN 1", "1 Inf"} {
		if got, err := parseTokens(Record{Name: "tokens a/b/c", Value: []byte(v)}); err == nil || !strings.Contains(err.Error(), "tokens a/b/c") {
			t.Errorf("%q: %v, %v", v, got, err)
		}
	}
}

// TestAPageThatLies lets a page say 1 token and then the largest number there is:
// nothing of it is counted, what is stored is finite, and a start on it goes well.
func TestAPageThatLies(t *testing.T) {
	pod := container.Pod{Namespace: "shop", Name: "web", Container: "c"}
	pages := map[container.Pod]Page{pod: {Objective: Objective{TTFT: telemetry.Some(1.0)}}}
	s := NewServers(pages, slog.New(slog.DiscardHandler))
	for _, n := range []float64{1, 1.7e308, 5, 1.7e308, 1.7e308, math.Inf(1), math.NaN(), -4, 1e300, 12, 20} {
		v := telemetry.Some(n)
		s.note(pod, []serving.Reading{{GenerationTokens: v, PromptTokens: v}}, nil)
	}
	records := s.changes()
	if len(records) != 1 {
		t.Fatalf("%q", records)
	}
	kept, err := parseTokens(records[0])
	if err != nil || kept.Generated.Or(0) > 1000 {
		t.Errorf("%s: %v", records[0].Value, err)
	}
	if _, err := New(Options{Clock: Clock{Name: "t", Now: func() time.Duration { return 0 }}, Records: records}); err != nil {
		t.Error(err)
	}
}

// TestABadRecordIsSetAside starts on a state with one record that cannot be read:
// it is named, kept under another name, and all others count on.
func TestABadRecordIsSetAside(t *testing.T) {
	var log strings.Builder
	good := container.Pod{Namespace: "a", Name: "b", Container: "c"}
	options := Options{
		Clock: Clock{Name: "t", Now: func() time.Duration { return 0 }}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Servers: NewServers(map[container.Pod]Page{good: {}}, slog.New(slog.DiscardHandler)),
		Records: []Record{
			{Name: "tokens a/b/c", Value: []byte("1 2 - - -")}, {Name: "tokens x/y/z", Value: []byte("- NaN - - -")},
			{Name: "energy GPU-1", Value: []byte("+Inf")}, {Name: "energy GPU-2", Value: []byte("7")},
			{Name: `row {"gpu"`, Value: []byte("{}")},
		},
	}
	a, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tokens x/y/z", "energy GPU-1", `aside row {\"gpu`} {
		if !strings.Contains(log.String(), name) {
			t.Errorf("%s is not named: %s", name, log.String())
		}
	}
	_, records, v, err := a.Changes()
	if err != nil || len(records) != 6 || v.Tokens[good].Generated.Or(0) != 2 || a.counters["GPU-2"] != 7 {
		t.Errorf("%q, %+v, %v", records, v.Tokens, err)
	}
	stored := slices.DeleteFunc(records, func(r Record) bool { return r.Value == nil })
	options.Records, options.Servers = stored, nil
	if a, err = New(options); err != nil || len(a.aside) != 0 {
		t.Error(err, a.aside)
	}
}
