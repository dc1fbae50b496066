// SPDX-License-Identifier: Apache-2.0

package timeslice_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/timeslice"
)

func TestParseTenants(t *testing.T) {
	got, err := timeslice.ParseTenants([]byte(`tenants:
- {name: chat, step: 1.8ms, step_cv: 0, think: 150us, think_cv: 1, steps: 64, pause: 8ms, pause_cv: 2}
- {name: api, step: 900us, rate_per_second: 20}
`))
	want := []timeslice.Tenant{
		{Name: "chat", Step: timeslice.Dist{Mean: 1800 * us}, Think: timeslice.Dist{Mean: 150 * us, CV: 1}, Steps: 64, Pause: timeslice.Dist{Mean: 8 * ms, CV: 2}},
		{Name: "api", Step: timeslice.Dist{Mean: 900 * us, CV: 0.1}, RatePerSecond: 20},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for doc, wants := range map[string][]string{
		"tenants: []": {"must be 1 to 256"},
		"{}":          {"tenants"},
		"tenants:\n- {name: a, step: 1.8, think: x}\n- {nam: b, step: 1ms}":     {"tenants[0].step", "tenants[0].think", "tenants[1]", "name"},
		"tenants:\n- {name: a, step: 1ms}\n- {name: a, step: 1ms}":              {`"a" is there twice`},
		"tenants:\n- {name: " + strings.Repeat("x", 41) + ", step: 1ms}":        {"has 41"},
		"tenants:\n- {name: \"a\\nb\\e[2J\", step: 1ms}":                        {"tenants[0].name", "control characters"},
		"tenants:\n- {name: a, step: 0s}\n- {name: a, step: -1ms, step_cv: -1}": {"tenants[0].step", `"a" is there twice`, "tenants[1].step", "tenants[1].step.cv"},
		"tenants:\n- {name: a, step: 1ms}\n#" + strings.Repeat("x", 1<<20):      {"larger than 1 MiB"},
	} {
		got, err := timeslice.ParseTenants([]byte(doc))
		for _, want := range wants {
			if err == nil || got != nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.60q: %v, %v does not say %q", doc, got, err, want)
			}
		}
	}
}
