// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/loadgen"
)

// TestHostileText: names and texts from others' files reach no terminal and no page as control characters.
func TestHostileText(t *testing.T) {
	const evil = "\x1b[2J\x1b]0;owned\x07\u202e\u0085"
	tenant := loadgen.TenantSummary{Name: evil, Model: evil, Load: evil}
	tenant.Counts = loadgen.Counts{Total: 2, Failed: 2, ByClass: map[loadgen.Class]int64{loadgen.ClassTruncated: 2},
		Examples: map[loadgen.Class]string{loadgen.ClassTruncated: evil}}
	s := loadgen.Summary{RunID: evil, Scenario: evil, Basis: evil, Stopped: evil, Tenants: []loadgen.TenantSummary{tenant}, Measures: tenant.Measures}
	s.ClientHealth.Reasons = []string{evil}
	var b bytes.Buffer
	results := []*loadgen.Result{{Summary: s}}
	rows := ScenariosOf(results)
	for name, write := range map[string]func() error{
		"summary":   func() error { return WriteSummary(&b, &s) },
		"page":      func() error { return WriteHTML(&b, results) },
		"scenarios": func() error { return rows.WriteText(&b) },
		"compare":   func() error { return (&RunComparison{Base: evil, Other: evil, Warnings: []string{evil}}).WriteText(&b) },
	} {
		b.Reset()
		if err := write(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text := b.String(); strings.ContainsAny(text, "\x1b\x07\u202e\u0085") || !strings.Contains(text, `\u001b[2J`) {
			t.Errorf("%s: %q", name, text)
		}
	}
}
