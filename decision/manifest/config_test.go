// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
)

func codes(ws []sharing.Warning) []sharing.WarningCode {
	var out []sharing.WarningCode
	for _, w := range ws {
		out = append(out, w.Code)
	}
	return out
}

func TestMIGResourceNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"nvidia.com/gpu": true, "nvidia.com/mig-1g.5gb": true, "nvidia.com/mig-1g.10gb.me": true, "nvidia.com/mig-1c.3g.20gb": true, "nvidia.com/mig-1g.24gb.me.all": true,
		"nvidia.com/mig-1g.24gb-me": true, "gpu": false, "nvidia.com/mig-*": false, "nvidia.com/mig-1g": false, "nvidia.com/mig-1g.5gb.": false, "nvidia.com/gpu.shared": false,
	} {
		in := fmt.Sprintf("version: v1\nsharing: {timeSlicing: {resources: [{name: %q, replicas: 2}]}}", name)
		if _, err := CheckPluginConfig([]byte(in)); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckPluginConfig(t *testing.T) {
	for _, c := range []struct {
		name, in string
		warn     []sharing.WarningCode
	}{
		{
			name: "plain", in: "version: v1\nsharing:\n  mps:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n",
		},
		{
			name: "json", in: `{"version":"v1","sharing":{"mps":{"failRequestsGreaterThanOne":false,"renameByDefault":true,"resources":[{"name":"nvidia.com/gpu","replicas":2}]}}}`,
		},
		{
			name: "ignored fields", in: `
version: v1
flags: {renameByDefault: true, failRequestsGreaterThanOne: true, migStrategy: single, mpsRoot: /run/nvidia/mps, plugin: {deviceListStrategy: envvar}}
resources: {gpus: [{pattern: "*", name: nvidia.com/gpu}]}
sharing:
  mps:
    resources:
    - {name: nvidia.com/gpu, rename: gpu.shared, devices: [0, "1:0"], replicas: 7}
  timeSlicing:
    resources:
    - {name: nvidia.com/gpu, devices: all, replicas: 4}
`,
			warn: []sharing.WarningCode{sharing.WarnFlagIgnored, sharing.WarnFlagIgnored, sharing.WarnResourcesIgnored, sharing.WarnDevicesIgnored, sharing.WarnRenameIgnored,
				sharing.WarnDevicesIgnored, sharing.WarnTimeSlicingIgnored, sharing.WarnMIGStrategyConflict, sharing.WarnUnevenPercentage},
		},
		{
			name: "turns", in: "version: v1\nsharing:\n  timeSlicing:\n    failRequestsGreaterThanOne: true\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n",
			warn: []sharing.WarningCode{sharing.WarnReplicasNotCapacity},
		},
		{
			name: "mig", in: "version: v1\nflags: {migStrategy: single}\nsharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 2}, {name: nvidia.com/mig-1g.10gb, replicas: 3}]}}",
			warn: []sharing.WarningCode{sharing.WarnLargeRequestsAllowed, sharing.WarnMIGStrategyConflict, sharing.WarnReplicasNotCapacity},
		},
		{
			name: "ignored turns", in: `
version: v1
flags: {renameByDefault: true, plugin: {sharedDevicesAllocationPolicy: packed}}
sharing:
  timeSlicing:
    resources:
    - {name: nvidia.com/gpu, rename: x, devices: 2, replicas: 2}
  mps:
    resources:
    - {name: nvidia.com/gpu, replicas: 2}
`,
			warn: []sharing.WarningCode{sharing.WarnFlagIgnored, sharing.WarnDevicesIgnored, sharing.WarnRenameIgnored, sharing.WarnTimeSlicingIgnored},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ws, err := CheckPluginConfig([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.warn, codes(ws)); diff != "" {
				t.Error(diff)
			}
			for _, w := range ws {
				if w.Message == "" || w.Source == "" {
					t.Errorf("warning without message or source: %+v", w)
				}
			}
		})
	}
}

func TestCheckPluginConfigRefuses(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"empty", "", []string{"empty"}},
		{"no resources", "version: v1\nsharing: {mps: {resources: []}}", []string{"sharing.mps.resources: has no entry"}},
		{"every problem at once", `
version: v2
flags: {migStrategy: mixd, mpsroot: /x, plugin: {deviceIDStrategy: name}}
sharing:
  mps:
    failRequestsGreaterThanOne: "yes"
    resources:
    - {name: nvidia.com/gpu, replicas: 1}
`, []string{`flags.mpsroot: unknown key (did you mean "mpsRoot"?)`, "failRequestsGreaterThanOne: must be true or false"}},
		{"rules", `
version: v2
flags: {migStrategy: mixed}
sharing:
  mps:
    resources:
    - {name: nvidia.com/gpu, replicas: 1}
    - {name: nvidia.com/gpu, replicas: 2}
    - {name: nvidia.com/mig-1g.10gb, replicas: 2}
    - {name: amd.com/gpu, replicas: 2}
`, []string{
			`version: "v2"`, "flags.migStrategy: the plugin refuses MPS",
			"resources[0].replicas: must be 2 or more, not 1", "resources[1].name: nvidia.com/gpu stands in resources[0] already",
			"resources[2].name: the plugin does not share MIG devices by MPS (share MIG devices by MPS through the DRA driver)", "resources[3].name",
		}},
		{"blank", " \n", []string{"empty"}},
		{"rules of turns", `
version: v1
sharing:
  timeSlicing:
    resources:
    - {name: nvidia.com/gpu, replicas: 1}
    - {name: nvidia.com/mig-all, replicas: 2}
    - {name: gpu, replicas: 2}
    - {name: gpu, replicas: -3}
`, []string{"resources[0].replicas: must be 2 or more, not 1 (leave the block out to share nothing)", `resources[1].name: the plugin offers no resource "nvidia.com/mig-all"`,
			`resources[2].name`, "resources[3].name: gpu stands in resources[2] already", "resources[3].replicas: must be 2 or more, not -3"}},
		{"forms", "version: v1\nsharing: {timeSlicing: {resource: [], resources: [{replicas: two}]}}", []string{`did you mean "resources"`, "name: is missing", "replicas: must be a whole number"}},
		{"two documents", "version: v1\n---\nversion: v1", []string{"2 documents"}},
		{"a list", "version: v1\nsharing: []", []string{"sharing"}},
		{"too large", strings.Repeat("x", 9<<20), []string{"8"}},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.in, c.want...) })
	}
}

func refused(t *testing.T, in string, want ...string) {
	t.Helper()
	ws, err := CheckPluginConfig([]byte(in))
	if ws != nil || !errors.Is(err, ErrInvalid) {
		t.Fatal(ws, err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error lacks %q:\n%v", w, err)
		}
	}
}

// TestFullPluginConfig sets every flag, with the plugin's own types of values.
func TestFullPluginConfig(t *testing.T) {
	data, err := os.ReadFile("testdata/config-plugin-full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if ws, err := CheckPluginConfig(data); err != nil || len(ws) != 1 {
		t.Errorf("%v, %v", ws, err)
	}
}

func FuzzCheckPluginConfig(f *testing.F) {
	f.Add([]byte("version: v1\nflags: {renameByDefault: true, plugin: {deviceListStrategy: [envvar]}}\nsharing: {mps: {resources: [{name: nvidia.com/gpu, rename: x, devices: 2, replicas: 3}]}}"))
	f.Add([]byte("version: v1\nflags: {gfd: {oneshot: true}}\nsharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.5gb, rename: x, devices: 2, replicas: 0x3}]}}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if ws, err := CheckPluginConfig(in); err != nil && ws != nil {
			t.Fatalf("warnings with error %v", err)
		}
	})
}
