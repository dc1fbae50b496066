package canary_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/canary"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// TestMachine reads a page, a counter, a file and a device for some seconds.
func TestMachine(t *testing.T) {
	race.Long(t)
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		switch r.URL.Path {
		case "/metrics":
			fmt.Fprintf(w, `# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{model_name="m",le="0.25"} %[1]d
vllm:time_to_first_token_seconds_bucket{model_name="m",le="+Inf"} %[2]d
vllm:time_to_first_token_seconds_sum{model_name="m"} %[3]d
vllm:time_to_first_token_seconds_count{model_name="m"} %[2]d
# TYPE vllm:request_success_total counter
vllm:request_success_total{model_name="m"} %[2]d
`, 3*n, 4*n, n)
		case "/llama":
			fmt.Fprintf(w, "# TYPE llamacpp:tokens_predicted_total counter\nllamacpp:tokens_predicted_total %d\n"+
				"# TYPE llamacpp:tokens_predicted_seconds_total counter\nllamacpp:tokens_predicted_seconds_total %v\n", 100*n, 2*n)
		case "/steps":
			fmt.Fprintf(w, "# TYPE steps_total counter\nsteps_total{rank=\"0\"} %d\nsteps_total{rank=\"1\"} %d\n", n, n)
		case "/moved":
			http.Redirect(w, r, "/steps", http.StatusFound)
		case "/back":
			fmt.Fprintf(w, "# TYPE steps_total counter\nsteps_total %d\n", 100-n)
		}
	}))
	defer srv.Close()
	lines := filepath.Join(t.TempDir(), "steps")
	if err := os.WriteFile(lines, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rate := []canary.Objective{{Metric: "steps", Limit: 1, AtLeast: true}}
	p := canary.Plan{Tenants: []canary.Tenant{
		{Name: "chat", Page: srv.URL + "/metrics", Objectives: []canary.Objective{{Metric: "ttft", Limit: 0.25}}},
		{Name: "train", Counter: &canary.Counter{URL: srv.URL + "/steps", Name: "steps_total"}, Objectives: rate},
		{Name: "back", Counter: &canary.Counter{URL: srv.URL + "/back", Name: "steps_total"}, Objectives: rate},
		{Name: "none", Counter: &canary.Counter{URL: srv.URL + "/steps", Name: "other"}, Objectives: rate},
		{Name: "gone", Page: "http://127.0.0.1:1/metrics", Objectives: []canary.Objective{{Metric: "ttft", Limit: 0.25}}},
		{Name: "lines", Lines: lines, Objectives: rate},
		{Name: "queue", Page: srv.URL + "/metrics", Objectives: []canary.Objective{{Metric: "queue", Limit: 0.25}}},
		{Name: "llama", Page: srv.URL + "/llama", Objectives: []canary.Objective{{Metric: "itl", Limit: 0.25}}},
		{Name: "moved", Counter: &canary.Counter{URL: srv.URL + "/moved", Name: "steps_total"}, Objectives: rate},
	}}
	reader, err := telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: []telemetrytest.Phase{
		{Figures: map[telemetry.Metric]float64{telemetry.MetricGPUUtilPercent: 40}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	m := canary.NewMachine(p, reader)
	var l canary.Look
	for i := range 6 {
		if l, err = m.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			if err := os.WriteFile(lines, []byte("step\nstep\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if i == 4 && len(l.Tenants[5].Metrics[0].Values) != 2 {
			t.Errorf("two lines: %+v", l.Tenants[5])
		}
	}
	chat := l.Tenants[0]
	if h := chat.Metrics[0].Histogram; chat.Missing != "" || h == nil || h.Count == 0 || 4*h.Buckets[0].Count != 3*h.Count {
		t.Errorf("chat: %+v", chat)
	}
	if load, ok := chat.Load.Get(); !ok || load < 1 {
		t.Errorf("load %v", chat.Load)
	}
	if busy, ok := chat.Busy.Get(); !ok || busy < 0.3 {
		t.Errorf("busy %v", chat.Busy)
	}
	if v := l.Tenants[1].Metrics[0].Values; len(v) == 0 || v[0] < 1 {
		t.Errorf("steps %v", v)
	}
	if v := l.Tenants[7].Metrics[0].Values; len(v) != 1 || v[0] != 0.02 {
		t.Errorf("llama: %+v", l.Tenants[7])
	}
	for i, want := range map[int]string{2: "went back", 3: "no metric other", 4: "refused", 6: "no queue", 8: "redirects is not read"} {
		if got := l.Tenants[i].Missing; !strings.Contains(got, want) {
			t.Errorf("%s: %q", p.Tenants[i].Name, got)
		}
	}
}

// TestLostDevice: a device that does not answer makes everything missing.
func TestLostDevice(t *testing.T) {
	reader, err := telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: []telemetrytest.Phase{{Lost: true}}}}})
	if err != nil {
		t.Fatal(err)
	}
	m := canary.NewMachine(canary.Plan{Tenants: []canary.Tenant{{Name: "a"}}}, reader)
	if l, err := m.Next(t.Context()); err != nil || !strings.Contains(l.Tenants[0].Missing, "the device does not answer") || l.At < time.Second {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestLoadPlan(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"good":        {"tenants:\n  - {name: a, agreed: true, page: 'http://x/metrics', objectives: [{metric: ttft, limit: 0.4}]}\nhooks: {place: [./up], take-back: [./down]}\n", ""},
		"unknown key": {"tenant: []\n", "tenant"},
		"no source":   {"tenants:\n  - {name: a, objectives: [{metric: ttft, limit: 1}, {metric: steps, limit: 1}, {metric: x, limit: 1}]}\n", "nothing tells its ttft"},
		"half hooks":  {"tenants:\n  - {name: a, page: 'http://x', objectives: [{metric: ttft, limit: 1}]}\nhooks: {place: [./up]}\n", "both place and take-back"},
		"odd hooks":   {"tenants:\n  - {name: a, page: 'http://x', objectives: [{metric: ttft, limit: 1}]}\nmanifest: x.yaml\nbefore: -1s\ngpu: -1\nhooks: {cap: []}\n", "no step of that name"},
	} {
		path := filepath.Join(t.TempDir(), "plan.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := canary.LoadPlan(path)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := canary.LoadPlan("no such file"); err == nil {
		t.Error("a file that is not there")
	}
}

// TestPlayDay: no harmful newcomer of the simulated day is promoted, and no harmless one taken back.
func TestPlayDay(t *testing.T) {
	rep, err := canary.PlayDay(t.Context(), twoTenants(), 1)
	if err != nil || len(rep.Canaries) != 20 {
		t.Fatal(err, len(rep.Canaries))
	}
	for i, s := range rep.Canaries {
		if bad := s.Harm >= 1 || i%4 == 3; bad && s.Result.Verdict == canary.Promote && s.Result.At > time.Minute || !bad && s.Result.Verdict == canary.TakeBack {
			t.Errorf("%d: %s: %s", i, s.Truth, s.Result)
		}
	}
	if text := rep.String(); !strings.Contains(text, "Nothing here is measured") || strings.Count(text, "\n") != 25 {
		t.Error(text)
	}
}
