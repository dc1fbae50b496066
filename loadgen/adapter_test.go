package loadgen_test

import (
	"context"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// asked counts the requests of each model that the server saw.
func asked(served []loadgentest.Served) map[string]int64 {
	n := map[string]int64{}
	for _, s := range served {
		n[s.Request.Model]++
	}
	return n
}

// TestAdapterMixes: each name is asked for as often as its mix says, to three standard
// deviations, and has its own figures, which add up to the tenant's.
func TestAdapterMixes(t *testing.T) {
	requests := race.Fewer(2000)
	of := float64(requests)
	names := []string{"a", "b", "c"}
	for what, c := range map[string]struct {
		mix  loadgen.AdapterMix
		want [3]float64
	}{
		"uniform":  {loadgen.AdapterMix{Names: names}, [3]float64{1. / 3, 1. / 3, 1. / 3}},
		"zipf":     {loadgen.AdapterMix{Names: names, Zipf: 1}, [3]float64{6. / 11, 3. / 11, 2. / 11}},
		"70/20/10": {loadgen.AdapterMix{Names: names, Shares: []float64{70, 20, 10}}, [3]float64{.7, .2, .1}},
	} {
		// The adapter c is slower by 30 ms.
		script := func(r loadgentest.Request) loadgentest.Reply {
			reply := loadgentest.Reply{TTFT: 10 * ms, Interval: ms}
			if r.Model == "c" {
				reply.TTFT = 40 * ms
			}
			return reply
		}
		res, served := bubble(t, script, func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
			p.Tenants[0].Adapters, p.Tenants[0].Requests, p.Tenants[0].Load.Concurrency = c.mix, requests, 8
			p.Tenants[0].SLO = loadgen.RequestSLO{TTFT: 20 * ms}
		})
		counts := asked(served)
		tenant := res.Summary.Tenants[0]
		if len(tenant.Adapters) != 3 || len(counts) != 3 {
			t.Fatalf("%s: %+v, the server saw %v", what, tenant.Adapters, counts)
		}
		var ok, tokens, met int64
		for i, a := range tenant.Adapters {
			p := c.want[i]
			if got, sd := float64(a.Requests), of*p*(1-p); (got-of*p)*(got-of*p) > 9*sd {
				t.Errorf("%s: %s was asked for %v times of %d, want about %v", what, a.Name, got, requests, of*p)
			}
			wantTTFT, wantMet := loadgen.Millis(10), a.Requests
			if a.Name == "c" {
				wantTTFT, wantMet = 40, 0
			}
			if a.Name != names[i] || a.Requests != counts[a.Name] || a.OK != a.Requests || a.TTFT.P99 != wantTTFT || a.TPOT.P50 != 1 || *a.Met != wantMet {
				t.Errorf("%s: %+v, the server saw %d", what, a, counts[a.Name])
			}
			ok, tokens, met = ok+a.OK, tokens+a.OutputTokens, met+*a.Met
		}
		if ok != tenant.Counts.OK || tokens != tenant.OutputTokens || met != tenant.Goodput.Met {
			t.Errorf("%s: adapters add up to %d ok, %d tokens and %d met; the tenant has %d, %d and %d", what, ok, tokens, met, tenant.Counts.OK, tenant.OutputTokens, tenant.Goodput.Met)
		}
	}
}

// TestAdapterOfASession: all turns of a session ask for the same adapter, and a
// prompt's own model wins over the mix.
func TestAdapterOfASession(t *testing.T) {
	var prompts []loadgen.Prompt
	for i := range 40 {
		session := string(rune('A' + i/2%10))
		prompts = append(prompts, loadgen.Prompt{Text: session, Session: session, Next: func(loadgen.Reply) (loadgen.Prompt, time.Duration, bool) {
			return loadgen.Prompt{Text: session, Session: session}, 0, true
		}})
	}
	prompts = append(prompts, loadgen.Prompt{Text: "own", Model: "own"}, loadgen.Prompt{Text: "base", Model: "m"})
	res, served := bubble(t, loadgentest.Always(loadgentest.Reply{}), func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
		p.Tenants[0].Adapters = loadgen.AdapterMix{Names: []string{"a", "b", "c", "d"}}
		p.Tenants[0].Prompts, p.Tenants[0].Requests = loadgen.NewPromptCycle(prompts...), 82
	})
	of := map[string]string{}
	models := map[string]bool{}
	for _, s := range served {
		if have, ok := of[s.Request.Prompt]; ok && have != s.Request.Model {
			t.Errorf("session %s asked for %s and %s", s.Request.Prompt, have, s.Request.Model)
		}
		of[s.Request.Prompt] = s.Request.Model
		models[s.Request.Model] = true
	}
	if of["own"] != "own" || of["base"] != "m" || len(models) < 5 {
		t.Errorf("%v", of)
	}
	for _, a := range res.Summary.Tenants[0].Adapters {
		if a.Name == "m" {
			t.Error("the tenant's own model is reported as an adapter")
		}
	}
}

// TestAdaptersOfWorkers: two workers together ask for the same adapters as one, and
// their results merge, from their directories too.
func TestAdaptersOfWorkers(t *testing.T) {
	mix := loadgen.AdapterMix{Names: []string{"a", "b", "c"}, Zipf: 1.2}
	run := func(w loadgen.Worker, dir string) (*loadgen.Result, map[string]int64) {
		res, served := bubble(t, loadgentest.Always(loadgentest.Reply{TTFT: 5 * ms}), func(p *loadgen.LoadPlan, so *loadgentest.Options, o *loadgen.Options) {
			p.Tenants[0].Adapters, p.Tenants[0].Requests, p.Tenants[0].Load.Concurrency = mix, 300, 6
			so.CacheBlocks, o.Worker, o.Dir = 100, w, dir
		})
		return res, asked(served)
	}
	dir := t.TempDir()
	_, whole := run(loadgen.Worker{}, "")
	_, first := run(loadgen.Worker{Index: 0, Count: 2}, filepath.Join(dir, "0"))
	_, second := run(loadgen.Worker{Index: 1, Count: 2}, filepath.Join(dir, "1"))
	together := maps.Clone(first)
	for name, n := range second {
		together[name] += n
	}
	if diff := cmp.Diff(whole, together); diff != "" {
		t.Errorf("(-one +two workers)\n%s", diff)
	}
	parts, err := loadgen.LoadResults(dir)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := loadgen.Merge(parts...)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range merged.Summary.Tenants[0].Adapters {
		if a.Requests != whole[a.Name] || a.TTFT.Count != a.OK || a.TTFT.P50 < 4.9 || a.TTFT.P50 > 5.1 || a.PromptCache == nil {
			t.Errorf("%+v", a)
		}
	}
	if n := len(merged.Summary.Tenants[0].Adapters); n != 3 {
		t.Errorf("%d adapters", n)
	}
}

// TestManyAdapters: the models of prompts beyond those that are listed count together.
func TestManyAdapters(t *testing.T) {
	var prompts []loadgen.Prompt
	for i := range 300 {
		prompts = append(prompts, loadgen.Prompt{Text: "x", Model: strings.Repeat("m", i+2)})
	}
	res, _ := bubble(t, loadgentest.Always(loadgentest.Reply{}), func(p *loadgen.LoadPlan, _ *loadgentest.Options, _ *loadgen.Options) {
		p.Tenants[0].Prompts, p.Tenants[0].Requests = loadgen.NewPromptCycle(prompts...), 300
	})
	all := res.Summary.Tenants[0].Adapters
	if len(all) != 257 || all[0].Name != "(others)" || all[0].Requests != 44 {
		t.Errorf("%d adapters, first %+v", len(all), all[0])
	}
}

func TestBadAdapters(t *testing.T) {
	plan := loadgen.LoadPlan{Tenants: []loadgen.Tenant{
		{Adapters: loadgen.AdapterMix{Names: []string{"a", "", "a"}, Shares: []float64{1, -2}, Zipf: 1}},
		{Adapters: loadgen.AdapterMix{Names: []string{"a"}, Zipf: -1}},
		{Adapters: loadgen.AdapterMix{Names: make([]string, 300)}},
		{Routing: loadgen.RoutingStickyPrefix, Router: loadgen.RouterFunc(func(*loadgen.Prompt, []loadgen.EndpointState) int { return 0 })},
	}}
	_, err := loadgen.Run(context.Background(), plan, loadgen.Options{})
	for _, want := range []string{
		"tenants[0].adapters.names[1]: empty", `tenants[0].adapters.names[2]: "a" twice`, "tenants[0].adapters.shares: 2 for 3 names", "tenants[0].adapters.shares[1]: is -2",
		"tenants[0].adapters.zipf: has no effect beside shares", "tenants[1].adapters.zipf: is -1", "tenants[1].adapters.zipf: has no effect on 1 names",
		"tenants[2].adapters.names: 300 are more than 256", "tenants[3].routing: has no effect beside a router",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}
