package main

import (
	_ "embed" // what goes with the metrics
	"fmt"
	"io"
	"strings"
)

// The rules and the dashboard are files that go with the metrics; tests hold that every metric they name is there.
// A million tokens cost what the tenant's container was charged with, idle time too, over the tokens of the same
// time: cost.PerUnits in PromQL, in millionths of the currency's unit.
var (
	//go:embed deploy/rules.yaml
	rulesYAML string
	//go:embed deploy/dashboard.json
	dashboardJSON string
)

// printed holds the writers of rules, dashboard and table by their flags.
var printed = map[string]func(io.Writer) error{"rules": printing(rulesYAML), "dashboard": printing(dashboardJSON),
	"metrics": writeMetrics}

func printing(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
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
