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

var still = Clock{Name: "t", Now: func() time.Duration { return 0 }}

// TestTokensKept: tokens are what servers did while their pages were read, over
// restarts of servers and of the exporter, and are shown once they are stored.
func TestTokensKept(t *testing.T) {
	body := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
	defer srv.Close()
	var stored []Record
	open := func() *Accountant {
		return New(Options{Clock: still, Records: stored, Servers: map[container.Pod]string{shop: srv.URL}})
	}
	read := func(a *Accountant, prompt, generated int) {
		body = fmt.Sprintf("# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{model_name=\"m\"} %d\n", generated)
		if prompt >= 0 {
			body += fmt.Sprintf("# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{model_name=\"m\"} %d\n", prompt)
		}
		page, err := a.servers.client.Fetch(t.Context(), srv.URL)
		a.servers.note(shop, page, err)
	}
	want := func(a *Accountant, record string) {
		t.Helper()
		before := a.View().Tokens[shop]
		_, changed, v, err := a.Changes()
		if err != nil || len(changed) != 1 || changed[0].Name != recordName(shop) || string(changed[0].Value) != record {
			t.Fatalf("%q, want %q, %v", changed, record, err)
		}
		if v.Tokens[shop] == before {
			t.Errorf("shown before it was stored: %v", before)
		}
		stored = changed
	}
	nothing := func(a *Accountant) {
		t.Helper()
		if _, c, _, _ := a.Changes(); len(c) != 0 {
			t.Errorf("%q", c)
		}
	}
	a := open()
	nothing(a)
	read(a, -1, 1000) // before the first page: not this exporter's
	want(a, `{"generated":0}`)
	read(a, 500, 1300)
	read(a, 700, 40) // restarted
	want(a, `{"prompt":700,"generated":340}`)
	a = open()
	nothing(a)
	read(a, 9000, 9000) // while the exporter was away
	read(a, 9001, 9002)
	want(a, `{"prompt":701,"generated":342}`)
}

// TestTokensOfAWorkload: a server is known by what owns its pod, over rollouts; of two pods it may be either's.
func TestTokensOfAWorkload(t *testing.T) {
	s, l := newServers(map[container.Pod]string{shop: ""}, slog.New(slog.DiscardHandler)), newBook(bookOptions{})
	pod := func(name string) Claim {
		return Claim{Pod: container.Pod{Namespace: "shop", Name: name, Container: "c"}, Resident: true}
	}
	for i, claims := range [][]Claim{{pod("web-7d4b9-x2k4z")}, {pod("web-55c6f-bcdfg"), pod("website-55c6f-bcdfg")}, {pod("web-55c6f-bcdfg"), pod("web-55c6f-hjklm")}} {
		s.note(shop, []serving.Reading{{GenerationTokens: telemetry.Some(float64(100 * i))}}, nil)
		s.tokens("GPU-1", claims, time.Minute)
		s.post(l)
		if n, told := claims[0].Tokens.Get(); told != (i == 1) || told && n != 100 {
			t.Errorf("%d: %v tokens, %v", i, n, told)
		}
	}
	for name, want := range map[string]float64{"web-7d4b9-x2k4z": 0, "web-55c6f-bcdfg": 200} {
		if got := l.tokens[pod(name).Pod].Generated.Or(-1); got != want {
			t.Errorf("%s has %v tokens, want %v", name, got, want)
		}
	}
}

// TestAPageThatLies lets a page say 1 token and then the largest number there is:
// nothing of it is counted, what is stored is finite, and a start on it goes well.
func TestAPageThatLies(t *testing.T) {
	o := Options{Clock: still, Servers: map[container.Pod]string{shop: ""}}
	a := New(o)
	for _, n := range []float64{1, 1.7e308, 5, 1.7e308, 1.7e308, math.Inf(1), math.NaN(), -4, 1e300, 12, 20} {
		v := telemetry.Some(n)
		a.servers.note(shop, []serving.Reading{{GenerationTokens: v, PromptTokens: v}}, nil)
	}
	_, records, v, err := a.Changes()
	if err != nil || len(records) != 1 || v.Tokens[shop].Generated.Or(1e9) > 1000 {
		t.Fatalf("%q, %v", records, err)
	}
	o.Records = records
	if got := New(o).View().Tokens[shop]; got != v.Tokens[shop] {
		t.Error(got)
	}
}

// TestABadRecordIsSetAside starts on a state with records that cannot be read:
// they are named, kept under other names, and all others count on.
func TestABadRecordIsSetAside(t *testing.T) {
	var log strings.Builder
	options := Options{
		Clock: still, Logger: slog.New(slog.NewTextHandler(&log, nil)), Servers: map[container.Pod]string{shop: ""},
		Records: []Record{
			{Name: recordName(shop), Value: []byte(`{"generated":2}`)}, {Name: recordName(train), Value: []byte(`{"generated":-2}`)},
			{Name: "tokens a/b/c", Value: []byte("1 2 - - -")}, {Name: `row {"gpu"`, Value: []byte("{}")},
		},
	}
	a := New(options)
	for _, name := range []string{"train", "tokens a/b/c", `row {\"gpu`} {
		if !strings.Contains(log.String(), name) {
			t.Errorf("%s is not named: %s", name, log.String())
		}
	}
	_, records, v, err := a.Changes()
	if err != nil || len(records) != 6 || v.Tokens[shop].Generated.Or(0) != 2 {
		t.Errorf("%q, %+v, %v", records, v.Tokens, err)
	}
	log.Reset()
	options.Records = slices.DeleteFunc(records, func(r Record) bool { return r.Value == nil })
	if New(options); log.Len() > 0 {
		t.Error(log.String())
	}
}
