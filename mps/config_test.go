package mps

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
)

func configCodes(ws []sharing.Warning) []sharing.WarningCode {
	var out []sharing.WarningCode
	for _, w := range ws {
		out = append(out, w.Code)
	}
	return out
}

func TestParsePluginSettings(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     *PluginSettings
		warn     []sharing.WarningCode
	}{
		{
			name: "plain", in: "version: v1\nsharing:\n  mps:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n",
			want: &PluginSettings{Resources: []PluginResource{{Name: "nvidia.com/gpu", Replicas: 4}}},
		},
		{
			name: "json", in: `{"version":"v1","sharing":{"mps":{"failRequestsGreaterThanOne":false,"renameByDefault":true,"resources":[{"name":"nvidia.com/gpu","replicas":2}]}}}`,
			want: &PluginSettings{RenameByDefault: true, FailRequestsGreaterThanOne: Some(false), Resources: []PluginResource{{Name: "nvidia.com/gpu", Replicas: 2}}},
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
			want: &PluginSettings{Resources: []PluginResource{{Name: "nvidia.com/gpu", Replicas: 7}}},
			warn: []sharing.WarningCode{sharing.WarnResourcesIgnored, sharing.WarnFlagIgnored, sharing.WarnFlagIgnored, sharing.WarnRenameIgnored, sharing.WarnDevicesIgnored,
				sharing.WarnDevicesIgnored, sharing.WarnTimeSlicingIgnored, sharing.WarnMIGStrategyConflict, sharing.WarnUnevenPercentage},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ws, err := ParsePluginSettings([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.warn, configCodes(ws)); diff != "" {
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

func TestParsePluginSettingsRefuses(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"empty", "", []string{"empty"}},
		{"time-slicing", "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}", []string{"sharing.mps: is missing"}},
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
flags: {migStrategy: mixed, plugin: {deviceIDStrategy: name, deviceListStrategy: [envvars]}}
sharing:
  mps:
    resources:
    - {name: nvidia.com/gpu, replicas: 1}
    - {name: nvidia.com/gpu, replicas: 2}
    - {name: nvidia.com/mig-1g.10gb, replicas: 2}
    - {name: amd.com/gpu, replicas: 2}
`, []string{
			`version: "v2"`, "flags.migStrategy: the plugin refuses MPS", `deviceIDStrategy: "name"`, `deviceListStrategy[0]: "envvars"`,
			"resources[0].replicas: must be 2 or more, not 1", "resources[1].name: nvidia.com/gpu stands in resources[0] already",
			"resources[2].name: the plugin does not share MIG devices by MPS (share MIG devices by MPS through the DRA driver)", "resources[3].name",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := ParsePluginSettings([]byte(c.in))
			if got != nil || !errors.Is(err, ErrConfig) {
				t.Fatalf("got %+v, %v", got, err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error lacks %q:\n%v", w, err)
				}
			}
		})
	}
}

func TestPluginConfigGolden(t *testing.T) {
	for name, c := range map[string]*PluginSettings{
		"plugin":         {Resources: []PluginResource{{Name: "nvidia.com/gpu", Replicas: 4}}},
		"plugin-options": {RenameByDefault: true, FailRequestsGreaterThanOne: Some(true), Resources: []PluginResource{{Name: "nvidia.com/gpu", Replicas: 7}}},
	} {
		got, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/config/"+name+".yaml", got)
		back, _, err := ParsePluginSettings(got)
		if diff := cmp.Diff(c, back); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	if b, err := (&PluginSettings{}).Marshal(); b != nil || !errors.Is(err, ErrConfig) {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestPluginReplicaCap(t *testing.T) {
	for _, cc := range []struct {
		major, minor, replicas, warnings int
	}{{6, 0, 17, 1}, {6, 0, 16, 0}, {7, 0, 17, 1}, {7, 5, 48, 0}, {7, 5, 49, 1}, {9, 0, 48, 0}} {
		c := &PluginSettings{Resources: []PluginResource{{Name: "nvidia.com/gpu", Replicas: cc.replicas}}}
		ws := c.WarningsFor(cc.major, cc.minor)
		if len(ws) != cc.warnings {
			t.Errorf("%d.%d: %v", cc.major, cc.minor, ws)
		}
		for _, w := range ws {
			if w.Code != sharing.WarnReplicaCap || w.Source != "k8s-device-plugin-mps" {
				t.Errorf("%+v", w)
			}
		}
	}
}

func TestPluginShare(t *testing.T) {
	for _, c := range []struct {
		s       PluginShare
		percent int
		mem     sharing.Bytes
	}{
		{PluginShare{Replicas: 4, Total: 81559 * sharing.MiB}, 25, 20389 * sharing.MiB},
		{PluginShare{Replicas: 7, Total: 80 * sharing.GiB}, 14, 11702 * sharing.MiB},
		{PluginShare{Total: sharing.GiB}, 100, sharing.GiB},
	} {
		if p, m := c.s.ActiveThreadPercentage(), c.s.PinnedMemoryLimit(); p != c.percent || m != c.mem {
			t.Errorf("%+v: %d%%, %v", c.s, p, m)
		}
	}
}

func FuzzParsePluginSettings(f *testing.F) {
	f.Add([]byte("version: v1\nsharing:\n  mps:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"))
	f.Add([]byte("version: v1\nflags: {renameByDefault: true, plugin: {deviceListStrategy: [envvar]}}\nsharing: {mps: {resources: [{name: nvidia.com/gpu, rename: x, devices: 2, replicas: 3}]}}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, ws, err := ParsePluginSettings(in)
		if err != nil {
			if c != nil || ws != nil {
				t.Fatalf("value with error %v", err)
			}
			return
		}
		out, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		back, _, err := ParsePluginSettings(out)
		if diff := cmp.Diff(c, back); err != nil || diff != "" {
			t.Fatalf("%v %s", err, diff)
		}
	})
}
