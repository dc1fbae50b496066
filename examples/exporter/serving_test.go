package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// TestTokensNarrowMPS: what two vLLM servers say they generated divides the
// server's time.
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
	b := newBench(t)
	s, err := newServers([]string{"shop/web/c=" + one.URL + "/metrics", "lab/train/c=" + two.URL + "/metrics"}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	b.servers = s
	b.process(10, 1, shop, 1)
	b.process(11, 2, train, 2)
	b.uses(10, 0)
	b.uses(11, 0)
	b.procs = append(b.procs, telemetry.Process{PID: 5, Name: "nvidia-cuda-mps-server"})
	b.busy = 100
	read := func() {
		for pod, url := range s.pages {
			s.note(pod, s.get(t.Context(), url, time.Second))
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
	for _, r := range b.book.Rows() {
		if r.Basis == sharing.BasisDerived && (r.Low <= 0 || r.High >= 20*time.Second) {
			t.Errorf("the bounds are no narrower: %+v", r)
		}
	}
	broken.Store(true)
	read()
	b.seconds(10)
	b.want("tenant/web/c 25.0", "tenant/train/c 15.0")
	if r := b.book.Rows(); r[len(r)-1].Account != ledger.AccountTenant {
		t.Errorf("%+v", r)
	}
}

func TestBadServing(t *testing.T) {
	for _, s := range []string{"", "a/b=http://x", "a/b/c", "a/b/c=ftp://x", "a/b/c=/metrics"} {
		if pod, page, err := parseServing(s); err == nil {
			t.Errorf("%q: %v %s", s, pod, page)
		}
	}
}
