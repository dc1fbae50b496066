// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// TestSources reads pages and counters, some of which are wrong, three times.
func TestSources(t *testing.T) {
	asked := map[string]int{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Path]++
		n := asked[r.URL.Path]
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
		case "/steps":
			fmt.Fprintf(w, "# TYPE steps_total counter\nsteps_total{rank=\"0\"} %d\nsteps_total{rank=\"1\"} %d\n", n, n)
		case "/moved":
			http.Redirect(w, r, "/steps", http.StatusFound)
		case "/back":
			fmt.Fprintf(w, "# TYPE steps_total counter\nsteps_total %d\n", 100-n)
		}
	}))
	defer srv.Close()
	read := func(tenant Tenant) (s Seen) {
		source := tenantSource{client: serving.NewClient()}
		for range 3 {
			s = source.read(t.Context(), &tenant)
		}
		return s
	}
	counted := func(path, name string) Tenant {
		return Tenant{Counter: &Counter{URL: srv.URL + path, Name: name}, Objectives: []Objective{{Metric: "steps"}}}
	}
	page := func(path, metric string) Tenant {
		return Tenant{Page: srv.URL + path, Objectives: []Objective{{Metric: metric}}}
	}
	chat := read(page("/metrics", "ttft"))
	if h := chat.Metrics[0].Histogram; chat.Missing != "" || h == nil || h.Count != 4 || h.Buckets[0].Count != 3 {
		t.Errorf("chat: %+v", chat)
	}
	if load, ok := chat.Load.Get(); !ok || load <= 0 {
		t.Errorf("load %v", chat.Load)
	}
	if s := read(counted("/steps", "steps_total")); len(s.Metrics[0].Values) != 2 || s.Metrics[0].Values[0] <= 0 {
		t.Errorf("steps %+v", s)
	}
	for want, tenant := range map[string]Tenant{
		"went back": counted("/back", "steps_total"), "no metric other": counted("/steps", "other"),
		"redirects is not read": counted("/moved", "steps_total"), "no queue": page("/metrics", "queue"),
		"refused": {Page: "http://127.0.0.1:1/metrics", Objectives: []Objective{{Metric: "ttft"}}},
	} {
		if got := read(tenant).Missing; !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// controller asks an endpoint as Argo Rollouts and Flagger do, and observes.
type controller struct {
	*Endpoint
	t *testing.T
}

func (c *controller) ask(method, path string) (answer string, status int) {
	c.t.Helper()
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	var out struct {
		Answer string
		Reason string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Reason == "" {
		c.t.Errorf("%s: %v: %s", path, err, w.Body)
	}
	return out.Answer, w.Code
}

// seconds lets seconds pass from an offset on, in each of which four requests of each tenant took so long.
func (c *controller) seconds(from, n int, newcomer, chat float64) {
	requests := func(v float64, objectives int) Seen {
		return Seen{Metrics: slices.Repeat([]Sample{{Values: []float64{0.9 * v, 0.97 * v, 1.03 * v, 1.1 * v}}}, objectives)}
	}
	zero := c.begun
	if zero.IsZero() {
		zero = time.Now()
	}
	for k := range n {
		c.observe(timed{zero.Add(time.Duration(from+k) * time.Second), []Seen{requests(newcomer, 1), requests(chat, 2)}})
	}
}

// TestEndpoint takes one newcomer after another through the requests of controllers. The limit of chat is the figure that it was
// used to before each came.
func TestEndpoint(t *testing.T) {
	var verdicts []Verdict
	e := must.Get(NewEndpoint(Plan{Tenants: []Tenant{
		{Name: "newcomer", Objectives: []Objective{{Metric: "ttft", Limit: 0.4}}},
		{Name: "chat", Objectives: []Objective{{Metric: "ttft"}, {Metric: "ttft", Quantile: 0.99, AfterPromotion: true}}},
	}}, func(r Result) { verdicts = append(verdicts, r.Verdict) }))(t)
	c := &controller{e, t}
	check := func(when, want string, rollout, promote int) {
		t.Helper()
		answer, status := c.ask(http.MethodGet, "/")
		_, onward := c.ask(http.MethodPost, "/continue")
		_, done := c.ask(http.MethodPost, "/promote")
		if answer != want || status != http.StatusOK || onward != rollout || done != promote {
			t.Errorf("%s: %s, %d; go on %d, promote %d", when, answer, status, onward, done)
		}
	}
	check("nobody came", "wait", 200, 425)
	c.seconds(-900, 700, 0, 0.2)
	if len(c.recent) != before {
		t.Errorf("%d snapshots are kept", len(c.recent))
	}
	if answer, status := c.ask(http.MethodGet, "/?rollout=5c9"); answer != "wait" || status != http.StatusOK {
		t.Errorf("begun: %s, %d", answer, status)
	}
	c.begun = c.begun.Add(-time.Hour) // all that follows is past when the next one comes
	c.seconds(1, 20, 0.25, 0.2)
	check("observing", "wait", 200, 425)
	c.ask(http.MethodGet, "/?rollout=5c9") // again: nothing begins anew
	c.seconds(21, 130, 0.25, 0.2)
	check("kept", "pass", 200, 200)
	c.seconds(151, 300, 0.25, 0.9)
	check("chat suffers after all", "fail", 409, 409)
	c.seconds(500, 20, 0, 0.5) // chat's usual figures now
	if _, status := c.ask(http.MethodPost, "/begin"); status != http.StatusOK {
		t.Errorf("Flagger begins: %d", status)
	}
	check("begun anew", "wait", 200, 425)
	c.seconds(1, 150, 0.25, 0.5)
	check("kept again", "pass", 200, 200)
	if fmt.Sprint(verdicts) != "[promote take back promote]" {
		t.Errorf("verdicts %v", verdicts)
	}
	w := httptest.NewRecorder()
	if c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/gate", nil)); w.Code != http.StatusNotFound {
		t.Errorf("no such path: %d", w.Code)
	}
}

// TestEndpointRuns reads a page for some seconds.
func TestEndpointRuns(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	e := must.Get(NewEndpoint(Plan{Tenants: []Tenant{{Name: "a", Page: srv.URL, Objectives: []Objective{{Metric: "ttft", Limit: 1}}}}}, nil))(t)
	for start := time.Now(); len(e.recent) < 2 && time.Since(start) < time.Minute; {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		e.Run(ctx)
		cancel()
	}
	if n := len(e.recent); n < 2 || !strings.Contains(e.recent[0].seen[0].Missing, "404") {
		t.Errorf("%d snapshots: %+v", n, e.recent)
	}
}

func TestLoadPlan(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"good":        {"tenants:\n  - {name: a, page: 'http://x/metrics', objectives: [{metric: ttft, limit: 0.4}]}\n", ""},
		"unknown key": {"tenant: []\n", "tenant"},
		"no source":   {"tenants:\n  - {name: a, objectives: [{metric: ttft, limit: 1}, {metric: steps, limit: 1}, {metric: x, limit: 1}]}\n", "its ttft has no source"},
		"a step":      {"tenants:\n  - {name: a, counter: {url: 'http://x', name: n}, objectives: [{metric: steps, limit: 1}]}\n", "more steps are better"},
	} {
		path := filepath.Join(t.TempDir(), "plan.yaml")
		must.Do(t, os.WriteFile(path, []byte(c.text), 0o600))
		_, err := LoadPlan(path)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := LoadPlan("no such file"); err == nil {
		t.Error("a file that is not there")
	}
	if _, err := NewEndpoint(Plan{}, nil); err == nil {
		t.Error("an endpoint of nobody")
	}
}

// TestLimitFromBefore: a quantile is that of which no more than the share lies within.
func TestLimitFromBefore(t *testing.T) {
	s := &tenantState{before: []Sample{{}}}
	for i := range 100 {
		s.before[0].Values = append(s.before[0].Values, float64(i+1))
	}
	for _, c := range []struct {
		o    Objective
		want float64
	}{
		{Objective{Quantile: 0.99}, 99}, {Objective{Quantile: 0.5}, 50},
		{Objective{Quantile: 0.99, AtLeast: true}, 2}, {Objective{Quantile: 0.5, AtLeast: true}, 51},
	} {
		if got, _, why := s.limit(0, &c.o, sharing.Optional[float64]{}); got != c.o.scale(c.want, allowance) || why != "" {
			t.Errorf("%+v: %v, want %v (%s)", c.o, got, c.want, why)
		}
	}
}
