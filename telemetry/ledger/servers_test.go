// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
)

// TestTokensNarrowMPS: what two vLLM servers say they generated divides the server's time.
func TestTokensNarrowMPS(t *testing.T) {
	var generated [2]atomic.Int64
	var broken atomic.Bool
	page := func(i int) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if broken.Load() {
				http.Error(w, "no", http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintf(w, "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{model_name=\"m\"} %d\n", generated[i].Load())
		}))
	}
	one, two := page(0), page(1)
	defer one.Close()
	defer two.Close()
	b := benchOf(t, 0, 0)
	s := newServers(map[container.Pod]string{shop: one.URL + "/metrics", train: two.URL + "/metrics"}, slog.New(slog.DiscardHandler))
	b.servers = s
	b.procs = append(b.procs, telemetry.Process{PID: 5, Name: "nvidia-cuda-mps-server"})
	b.busy = 100
	read := func() {
		for pod, url := range s.pages {
			page, err := s.client.Fetch(t.Context(), url)
			s.note(pod, page, err)
		}
	}
	read()
	b.seconds(10) // nothing to compare with yet
	generated[0].Add(3000)
	generated[1].Add(1000)
	read()
	b.seconds(10)
	generated[0].Store(600) // it was restarted
	generated[1].Add(200)
	read()
	b.seconds(10)
	b.want("tenant/web/c 20.0", "tenant/train/c 10.0")
	for _, r := range b.book.listRows() {
		if r.Basis == sharing.BasisDerived && (r.Low <= 0 || r.High >= 20*time.Second) {
			t.Errorf("the bounds are no narrower: %+v", r)
		}
	}
	broken.Store(true)
	read()
	b.seconds(10)
	b.want("tenant/web/c 25.0", "tenant/train/c 15.0")
	if r := b.book.listRows(); r[len(r)-1].Account != AccountTenant {
		t.Errorf("%+v", r)
	}
}

// TestHostilePage: of a page that says too much nothing is counted and nothing
// else is held up; what a page leaves out for once is not counted twice.
func TestHostilePage(t *testing.T) {
	var text atomic.Pointer[string]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, *text.Load()) }))
	defer server.Close()
	pod := shop
	s := newServers(map[container.Pod]string{pod: server.URL}, slog.New(slog.DiscardHandler))
	counted := 0.0
	says := func(more float64, models ...string) {
		t.Helper()
		var b strings.Builder
		b.WriteString("# TYPE vllm:generation_tokens_total counter\n")
		for _, m := range models {
			name, n, _ := strings.Cut(m, " ")
			fmt.Fprintf(&b, "vllm:generation_tokens_total{model_name=%q} %s\n", name, n)
		}
		page := b.String()
		text.Store(&page)
		readings, err := s.client.Fetch(t.Context(), server.URL)
		s.note(pod, readings, err)
		counted += more
		if got := s.state[pod].counted.Generated.Or(0); got != counted {
			t.Errorf("%d models: %v tokens, want %v", len(models), got, counted)
		}
	}
	says(0, "a 1000", "b 500")
	says(10, "a 1010")
	says(30, "a 1020", "b 520") // b was left out for once
	says(7, "a 7", "b 520")     // it was restarted
	var many []string
	for i := range 20_000 {
		many = append(many, fmt.Sprintf("m%d 1", i))
	}
	says(0, many...)
	says(3, "a 9", "b 521")
	for i := 0; i < len(many) && i < 2000; i += 100 {
		says(float64(min(100, max(0, maxReplicas-2-i))), many[i:i+100]...)
	}
	says(1, "a 10")
}
