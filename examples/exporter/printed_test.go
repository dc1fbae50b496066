package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

func decode(r io.Reader, v any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func gather(t *testing.T, c prometheus.Collector) prometheus.Gatherer {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	return reg
}

func text(t *testing.T, what string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := printed[what](&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// inFile checks that a file holds what is printed.
func inFile(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what is printed (%v): go test -run %s -update", file, err, t.Name())
	}
}

// names returns the metrics that an expression reads.
func names(t *testing.T, expr string) []string {
	t.Helper()
	expr = strings.NewReplacer("$__rate_interval", "5m", "$node", ".*").Replace(expr)
	e, err := parser.ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	var out []string
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			out = append(out, v.Name)
		}
		return nil
	})
	return out
}

func TestRules(t *testing.T) {
	data := text(t, "rules")
	groups, errs := rulefmt.Parse(data, false, model.UTF8Validation)
	for _, err := range errs {
		t.Error(err)
	}
	recorded := map[string]bool{}
	alerts := 0
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			recorded[r.Record] = true
			if r.Alert != "" {
				alerts++
			}
		}
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			for _, n := range names(t, r.Expr) {
				if !known(n) && !recorded[n] {
					t.Errorf("%s%s reads %s, which is not there", r.Record, r.Alert, n)
				}
			}
		}
	}
	if alerts < 6 {
		t.Errorf("%d alerts", alerts)
	}
	inFile(t, "deploy/rules.yaml", data)
	operator, err := yaml.Marshal(map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
		"metadata": map[string]any{"name": "cotenant-exporter", "labels": map[string]string{"app": "cotenant-exporter"}},
		"spec":     map[string]any{"groups": ruleGroups()},
	})
	if err != nil {
		t.Fatal(err)
	}
	inFile(t, "deploy/prometheusrule.yaml", operator)
}

func TestDashboard(t *testing.T) {
	data := text(t, "dashboard")
	var d struct {
		UID           string
		SchemaVersion int
		Panels        []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Name, Type string } }
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	seen := map[[2]int]bool{}
	for i, p := range d.Panels {
		at := [2]int{p.GridPos.X, p.GridPos.Y}
		if p.ID != i+1 || p.Type == "" || p.Title == "" || seen[at] || p.GridPos.X+p.GridPos.W > 24 || len(p.Targets) != 1 {
			t.Errorf("%+v", p)
		}
		seen[at] = true
		for _, n := range names(t, p.Targets[0].Expr) {
			if !known(n) {
				t.Errorf("%s reads %s, which is not there", p.Title, n)
			}
		}
	}
	if len(d.Panels) < 8 || d.UID == "" || d.SchemaVersion < 36 || len(d.Templating.List) != 2 {
		t.Errorf("%d panels, %+v", len(d.Panels), d.Templating)
	}
	inFile(t, "deploy/dashboard.json", data)
}

// TestReadme holds the README's table against the list of metrics.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- metrics -->\n", "<!-- end of metrics -->\n"
	head, rest, ok := strings.Cut(string(readme), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the marks of the table are gone")
	}
	inFile(t, "README.md", []byte(head+begin+string(text(t, "metrics"))+end+tail))
}
