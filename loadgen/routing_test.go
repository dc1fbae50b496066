package loadgen_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// servers starts scripted servers in the bubble and returns their endpoints.
func servers(t *testing.T, scripts ...loadgentest.Script) (all []*loadgentest.Server, endpoints []loadgen.Endpoint) {
	t.Helper()
	for _, script := range scripts {
		srv, err := loadgentest.NewServer(loadgentest.Options{Script: script, Pipe: true})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, srv)
		endpoints = append(endpoints, loadgen.Endpoint{URL: srv.URL, Dial: srv.Dial})
	}
	return all, endpoints
}

func leastInFlight(_ *loadgen.Prompt, at []loadgen.EndpointState) int {
	best := 0
	for i := range at {
		if at[i].InFlight < at[best].InFlight {
			best = i
		}
	}
	return best
}

// TestRouter: a router of the caller's sees what is in flight where, and its choice
// is taken. One endpoint answers in 100 ms and the other in 1 s; a request comes every
// 100 ms and 1 ms.
func TestRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, endpoints := servers(t, loadgentest.Always(loadgentest.Reply{TTFT: 1000 * ms}), loadgentest.Always(loadgentest.Reply{TTFT: 100 * ms}))
		var seen [][]loadgen.EndpointState
		router := loadgen.RouterFunc(func(p *loadgen.Prompt, at []loadgen.EndpointState) int {
			seen = append(seen, append([]loadgen.EndpointState(nil), at...))
			return leastInFlight(p, at)
		})
		res, err := loadgen.Run(t.Context(), loadgen.LoadPlan{Tenants: []loadgen.Tenant{{
			Name: "t", Endpoints: endpoints, Router: router, Requests: 8, MaxTokens: 1,
			Prompts: loadgen.NewPromptCycle(loadgen.Prompt{Text: "a b c", PromptTokens: 3}), Load: loadgen.OfferedLoad{Schedule: loadgen.Constant{PerS: 1000. / 101}},
		}}}, loadgen.Options{Pacing: loadgen.PacingTimer})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range srv {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		// The first goes to the slow one, which is busy for a second; all others to the fast one.
		if slow, fast := len(srv[0].Served()), len(srv[1].Served()); slow != 1 || fast != 7 {
			t.Errorf("%d requests went to the slow endpoint and %d to the fast one", slow, fast)
		}
		want := []loadgen.EndpointState{{InFlight: 1, TokensInFlight: 4}, {}}
		if diff := cmp.Diff(want, seen[2]); len(seen) != 8 || diff != "" {
			t.Errorf("%d picks, the third (-want +got)\n%s", len(seen), diff)
		}
		if res.Summary.Counts.OK != 8 {
			t.Errorf("%+v", res.Summary.Counts)
		}
	})
}

// TestRouterRetries: a request that is tried again is routed again, and what failed is
// no longer in flight.
func TestRouterRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, endpoints := servers(t, loadgentest.Always(loadgentest.Reply{Status: 503}), loadgentest.Always(loadgentest.Reply{}))
		var picks []loadgen.EndpointState
		router := loadgen.RouterFunc(func(_ *loadgen.Prompt, at []loadgen.EndpointState) int {
			picks = append(picks, at[0])
			return min(len(picks)-1, 1)
		})
		res, err := loadgen.Run(t.Context(), loadgen.LoadPlan{Tenants: []loadgen.Tenant{{
			Name: "t", Endpoints: endpoints, Router: router, Requests: 1, Prompts: loadgen.Texts("a"), Load: loadgen.OfferedLoad{Concurrency: 1}, Retry: loadgen.Retry{Max: 1},
		}}}, loadgen.Options{})
		if err != nil || res.Summary.Counts.OK != 1 || res.Summary.Counts.Retries != 1 {
			t.Errorf("%v, %+v", err, res.Summary.Counts)
		}
		if diff := cmp.Diff([]loadgen.EndpointState{{}, {}}, picks); diff != "" {
			t.Error(diff)
		}
		for _, s := range srv {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestRouterOutOfRange: a choice that there is not ends the run and says so.
func TestRouterOutOfRange(t *testing.T) {
	srv, err := loadgentest.NewServer(loadgentest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	for _, load := range []loadgen.OfferedLoad{{Concurrency: 2}, {Schedule: loadgen.Constant{PerS: 100}}} {
		_, err = loadgen.Run(context.Background(), loadgen.LoadPlan{Tenants: []loadgen.Tenant{{
			Name: "chat", Endpoints: []loadgen.Endpoint{{URL: srv.URL}}, Prompts: loadgen.Texts("a"), Requests: 20, Load: load,
			Router: loadgen.RouterFunc(func(_ *loadgen.Prompt, at []loadgen.EndpointState) int { return len(at) }),
		}}}, loadgen.Options{})
		if err == nil || !strings.Contains(err.Error(), `tenant "chat": its router picked endpoint 1 of 1`) {
			t.Errorf("%v", err)
		}
	}
}

// TestPromptCache: what the server says came from its cache is counted for each request
// and in all, and a server that says nothing leaves no figure.
func TestPromptCache(t *testing.T) {
	words := strings.TrimSpace(strings.Repeat("shared ", 64))
	for _, blocks := range []int{0, 100} {
		res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{}), func(p *loadgen.LoadPlan, so *loadgentest.Options, _ *loadgen.Options) {
			p.Tenants[0].Prompts, p.Tenants[0].Requests, so.CacheBlocks = loadgen.Texts(words+" one", words+" two three", "short"), 3, blocks
		})
		s := &res.Summary
		if blocks == 0 {
			if _, known := res.Records[0].CachedTokens.Get(); known || s.PromptCache != nil {
				t.Errorf("%+v, %+v", res.Records[0], s.PromptCache)
			}
			continue
		}
		want := &loadgen.PromptCache{Requests: 3, Hits: 1, PromptTokens: 65 + 66 + 1, CachedTokens: 64}
		got := *s.PromptCache
		if rate := got.HitRate.Or(0); rate != 64./132 {
			t.Errorf("hit rate %v", rate)
		}
		got.HitRate = want.HitRate
		if diff := cmp.Diff(want, &got); diff != "" {
			t.Error(diff)
		}
		if v, known := res.Records[2].CachedTokens.Get(); !known || v != 0 {
			t.Errorf("the short prompt has %v of its tokens cached", res.Records[2].CachedTokens)
		}
	}
}
