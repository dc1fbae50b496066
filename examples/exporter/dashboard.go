package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// panel is a metric's place on the dashboard.
type panel struct{ title, query, unit, legend string }

// Selectors of the dashboard's queries, with its variable.
const (
	sel       = `{node=~"$node"}`
	tenantSel = `{node=~"$node",account="tenant"}`
)

// printed holds the writers of rules, dashboard and table by their flags.
var printed = map[string]func(io.Writer) error{"rules": writeRules, "dashboard": writeDashboard,
	"metrics": writeMetrics}

type object = map[string]any

// writeDashboard writes a dashboard for Grafana with a panel for each metric that has one.
func writeDashboard(w io.Writer) error {
	source := object{"type": "prometheus", "uid": "${datasource}"}
	var panels []object
	for _, m := range metrics {
		if m.panel == (panel{}) {
			continue
		}
		n := len(panels)
		panels = append(panels, object{
			"id": n + 1, "type": "timeseries", "title": m.panel.title, "description": m.help, "datasource": source,
			"gridPos": object{"x": n % 2 * 12, "y": n / 2 * 8, "w": 12, "h": 8},
			"fieldConfig": object{"defaults": object{"unit": m.panel.unit, "min": 0,
				"custom": object{"fillOpacity": 20, "stacking": object{"mode": stacking(m)}}}, "overrides": []any{}},
			"options": object{"legend": object{"showLegend": true, "displayMode": "list", "placement": "bottom",
				"calcs": []string{}}, "tooltip": object{"mode": "multi", "sort": "desc"}},
			"targets": []object{{"refId": "A", "expr": m.panel.query, "legendFormat": m.panel.legend, "datasource": source}},
		})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(object{
		"uid": "cotenant-exporter", "title": "Who used the GPUs", "tags": []string{"gpu",
			"cotenant"}, "schemaVersion": 39, "version": 1,
		"editable": true, "refresh": "30s", "time": object{"from": "now-6h",
			"to": "now"}, "annotations": object{"list": []any{}},
		"templating": object{"list": []object{
			{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
			{"name": "node", "type": "query", "label": "Node", "datasource": source,
				"query":      object{"query": "label_values(" + mObserved + ", node)", "refId": "node"},
				"definition": "label_values(" + mObserved + ", node)", "refresh": 2, "includeAll": true, "multi": true,
				"allValue": ".*", "current": object{"text": "All", "value": "$__all"}},
		}},
		"panels": panels,
	})
}

// stacking is for shares of one whole.
func stacking(m metric) string {
	if strings.HasPrefix(m.panel.query, "sum by (account) (rate") {
		return "normal"
	}
	return "none"
}

// writeMetrics writes the table of metrics as Markdown.
func writeMetrics(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| metric | type | labels | what it is |\n|---|---|---|---|\n")
	for _, m := range metrics {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, strings.ToLower(m.kind.String()),
			strings.Join(m.labels, ", "), m.help)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
