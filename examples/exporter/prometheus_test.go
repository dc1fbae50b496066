// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var withPrometheus = flag.Duration("prometheus", 0, "how long to run with Prometheus, which must be on the PATH (10m, say)")

// TestWithPrometheus runs the program on the simulated node together with a real Prometheus, which scrapes it and evaluates
// the rules, and kills it twice with SIGKILL: no counter goes back, the accounts add up in every sample, every rule is
// evaluated, and every query of the dashboard returns data. It needs -prometheus.
func TestWithPrometheus(t *testing.T) {
	if *withPrometheus == 0 {
		t.Skip("takes its time: go test -run TestWithPrometheus -prometheus 10m -timeout 20m .")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "exporter")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	begun := time.Now()
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total ", int(40*time.Since(begun).Seconds()), "\n")
	}))
	defer pages.Close()
	at := freePort(t)
	args := []string{"-simulate", "-speed", "60", "-scrape-interval", "4s", "-listen", at, "-state", filepath.Join(dir, "state"), "-prices", "deploy/prices.yaml"}
	start := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(name, args...)
		log, err := os.OpenFile(filepath.Join(dir, filepath.Base(name)+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		c.Stdout, c.Stderr = log, log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		end := sync.OnceFunc(func() { _ = c.Process.Kill(); _ = c.Wait() })
		t.Cleanup(end)
		return c
	}
	rules, err := filepath.Abs("deploy/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	servers := "" // the pods of one server, a new one every two simulated hours
	for round := range 2 + int(withPrometheus.Hours()*60/2) {
		servers += fmt.Sprintf("  - {targets: [%q], labels: {namespace: shop, pod: chat-%d, container: main}}\n", pages.Listener.Addr(), round)
	}
	config := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "global: {scrape_interval: 2s, evaluation_interval: 5s}\nrule_files: [%q]\nscrape_configs:\n- {job_name: e, static_configs: [{targets: [%q]}]}\n- job_name: servers\n  static_configs:\n%s", rules, at, servers), 0o644); err != nil {
		t.Fatal(err)
	}
	listen := freePort(t)
	e := start(program, args...)
	start("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+listen, "--log.level=warn")
	for range 2 {
		time.Sleep(*withPrometheus / 3)
		if err := e.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = e.Wait()
		e = start(program, args...)
	}
	time.Sleep(*withPrometheus / 3)

	p := prom{t, "http://" + listen}
	span := fmt.Sprintf("[%ds]", int((*withPrometheus + time.Minute).Seconds()))
	samples, names := 0.0, 0
	for _, m := range metrics {
		if m.kind != counter || strings.HasPrefix(m.name, "cotenant_exporter_") { // those begin anew with each start
			continue
		}
		if back := p.first("sum(resets(" + m.name + span + "))"); back != 0 {
			t.Errorf("%s went back %v times", m.name, back)
		}
		samples += p.first("sum(count_over_time(" + m.name + span + "))")
		names += int(p.first("count(count_over_time(" + m.name + span + "))"))
	}
	scrapes := p.first("max(count_over_time(" + mObserved + span + "))")
	off := p.first("max_over_time(max(abs(sum by (node, gpu) (" + mTotalSeconds + ") - on (node, gpu) " + mObserved + "))" + strings.Replace(span, "]", ":2s]", 1) + ")")
	t.Logf("%v: %d counters, %.0f values in %.0f scrapes; accounts off by at most %.2g s; slowest scrape %.3f s", *withPrometheus, names, samples, scrapes, off,
		p.first("max_over_time(scrape_duration_seconds"+span+")"))
	if off > 1e-6 || scrapes < withPrometheus.Seconds()/4 {
		t.Errorf("accounts off by %v s in %v scrapes", off, scrapes)
	}
	// Bills by increase() miss nothing: series are seen at 0 before they count.
	grown := "sum(increase(" + mTotalSeconds + span + "))"
	seen := p.first("sum(max_over_time(" + mObserved + span + ") - min_over_time(" + mObserved + span + "))")
	billed := p.first("sum(max_over_time(" + mTotalSeconds + span + ") - min_over_time(" + mTotalSeconds + span + "))")
	byPod := p.first("sum(max_over_time(" + mSeconds + span + ") - min_over_time(" + mSeconds + span + "))")
	t.Logf("%.0f s were observed; namespaces were billed %.2f%% of it, pods %.2f%%, namespaces by increase() %.2f%%", seen, 100*billed/seen,
		100*byPod/seen, 100*p.first(grown)/seen)
	if math.Abs(billed/seen-1) > 0.005 || math.Abs(byPod/seen-1) > 0.005 {
		t.Errorf("bills of %.0f s and %.0f s, of %.0f s that were observed", billed, byPod, seen)
	}
	filled := 0
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(dashboardJSON), &board); err != nil {
		t.Fatal(err)
	}
	for _, panel := range board.Panels {
		query := panel.Targets[0].Expr
		if n := len(p.query(strings.NewReplacer("$node", ".*", "$__rate_interval", "30s").Replace(query))); n > 0 {
			filled++
		} else {
			t.Errorf("the panel %q is empty: %s", panel.Title, query)
		}
	}
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	p.get("/api/v1/rules", &answer)
	evaluated := 0
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			if evaluated++; r.Health != "ok" {
				t.Errorf("%s: %s %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	t.Logf("%d panels with data, %d rules evaluated; micros per million tokens: %v", filled, evaluated, p.query("cotenant:tenant_tokens:micros_per_million"))
	if evaluated < 10 {
		t.Errorf("%d rules", evaluated)
	}
}

// prom asks a Prometheus.
type prom struct {
	t   *testing.T
	url string
}

func (p prom) get(path string, v any) {
	p.t.Helper()
	resp, err := http.Get(p.url + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %s %v: %.300s", path, resp.Status, err, body)
	}
}

// query returns the values of an instant vector.
func (p prom) query(q string) []float64 {
	p.t.Helper()
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	p.get("/api/v1/query?query="+url.QueryEscape(q), &answer)
	var out []float64
	for _, r := range answer.Data.Result {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			p.t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

func (p prom) first(q string) float64 {
	p.t.Helper()
	list := p.query(q)
	if len(list) == 0 {
		p.t.Errorf("%s: nothing", q)
		return 0
	}
	return list[0]
}
