package account

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
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
		s.note(pod, s.get(t.Context(), srv.URL, time.Second))
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
		if got, err := parseTokens(ledger.Record{Name: "tokens a/b/c", Value: []byte(v)}); err == nil || !strings.Contains(err.Error(), "tokens a/b/c") {
			t.Errorf("%q: %v, %v", v, got, err)
		}
	}
}
