// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed" // rules and dashboard
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	prometheusquery "github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
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

func gatherer(c *collector) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		return slices.Collect(c.families), nil
	})
}

// The rules and the dashboard go with the metrics: every metric that they name is there. The cost of a million
// tokens is the charge of the tenant's container, idle time too, over the tokens of the same time: cost.PerUnits in
// PromQL.
var (
	//go:embed deploy/rules.yaml
	rulesYAML string
	//go:embed deploy/dashboard.json
	dashboardJSON string
)

// inFile checks the content of a file.
func inFile(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is out of date (%v): go test -run %s -update", file, err, t.Name())
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

// rule is a recording or an alert rule, in the form of Prometheus' files.
type rule struct {
	Record      string            `yaml:"record,omitempty"`
	Alert       string            `yaml:"alert,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

func ruleGroups(t *testing.T) []ruleGroup {
	t.Helper()
	var all struct{ Groups []ruleGroup }
	if err := yaml.Unmarshal([]byte(rulesYAML), &all); err != nil {
		t.Fatal(err)
	}
	return all.Groups
}

func TestRules(t *testing.T) {
	data := []byte(rulesYAML)
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
	operator, err := yaml.Marshal(map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
		"metadata": map[string]any{"name": "cotenant-exporter", "labels": map[string]string{"app": "cotenant-exporter"}},
		"spec":     map[string]any{"groups": ruleGroups(t)},
	})
	if err != nil {
		t.Fatal(err)
	}
	inFile(t, "deploy/prometheusrule.yaml", operator)
}

// TestDashboard reads the dashboard strictly by Grafana's own schema: an unknown or missing field, or one of another type, is an
// error, also in the options of a panel and its query.
func TestDashboard(t *testing.T) {
	data := []byte(dashboardJSON)
	schema := cog.NewRuntime()
	schema.RegisterPanelcfgVariant(timeseries.VariantConfig())
	schema.RegisterDataqueryVariant(prometheusquery.VariantConfig())
	// It returns an error always, without any faults where there are none, and then leaves the panels out.
	faults := func(data []byte) (n int) {
		for err := range strings.Lines(new(dashboard.Dashboard).UnmarshalJSONStrict(data).Error()) {
			t.Log(strings.TrimSpace(err))
			n++
		}
		return n
	}
	if faults(data) != 0 {
		t.Error("the dashboard is none by Grafana's schema")
	}
	for _, name := range []string{"legendFormat", "fillOpacity", "showLegend", "gridPos"} {
		if faults(bytes.Replace(data, []byte(`"`+name+`"`), []byte(`"unheardOf"`), 1)) == 0 {
			t.Errorf("unheardOf for %s passes", name)
		}
	}
	var d dashboard.Dashboard
	if err := errors.Join(json.Unmarshal(data, &d), d.Validate()); err != nil {
		t.Fatal(err)
	}
	seen := map[[2]uint32]bool{}
	for i, row := range d.Panels {
		p := row.Panel
		at := [2]uint32{p.GridPos.X, p.GridPos.Y}
		if *p.Id != uint32(i+1) || *p.Title == "" || seen[at] || p.GridPos.X+p.GridPos.W > 24 || len(p.Targets) != 1 {
			t.Errorf("%+v", p)
		}
		seen[at] = true
		if _, ok := p.Options.(*timeseries.Options); !ok {
			t.Errorf("%s: options are %T", *p.Title, p.Options)
		}
		query, ok := p.Targets[0].(*prometheusquery.Dataquery)
		if !ok {
			t.Fatalf("%s: the query is a %T", *p.Title, p.Targets[0])
		}
		described := false
		for _, n := range names(t, query.Expr) {
			at := slices.IndexFunc(metrics, func(m metric) bool { return m.name == n })
			if !known(n) {
				t.Errorf("%s reads %s, which is not there", *p.Title, n)
			}
			described = described || at >= 0 && *p.Description == metrics[at].help
		}
		if !described {
			t.Errorf("%s: %q is the help of none of its metrics", *p.Title, *p.Description)
		}
	}
	if len(d.Panels) < 8 || *d.Uid == "" || len(d.Templating.List) != 2 {
		t.Errorf("%d panels, %+v", len(d.Panels), d.Templating)
	}
}

// TestMetricsTable writes the table again from the parsed metrics.
func TestMetricsTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Metrics of the exporter\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range metrics {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, strings.ToLower(m.kind.String()), strings.Join(m.labels, ", "), m.help)
	}
	if got := metricsTable; got != b.String() {
		t.Errorf("%s\nread as\n%s", got, b.String())
	}
}
