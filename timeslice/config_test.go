package timeslice

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
			name: "plain", in: "version: v1\nsharing:\n  timeSlicing:\n    failRequestsGreaterThanOne: true\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n",
			want: &PluginSettings{FailRequestsGreaterThanOne: Some(true), Resources: []PluginResource{{Name: "nvidia.com/gpu", Replicas: 4}}},
			warn: []sharing.WarningCode{sharing.WarnReplicasNotCapacity},
		},
		{
			name: "mig", in: "version: v1\nflags: {migStrategy: single}\nsharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 2}, {name: nvidia.com/mig-1g.10gb, replicas: 3}]}}",
			want: &PluginSettings{RenameByDefault: true, Resources: []PluginResource{{Name: "nvidia.com/gpu", Replicas: 2}, {Name: "nvidia.com/mig-1g.10gb", Replicas: 3}}},
			warn: []sharing.WarningCode{sharing.WarnLargeRequestsAllowed, sharing.WarnMIGStrategyConflict, sharing.WarnReplicasNotCapacity},
		},
		{
			name: "ignored", in: `
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
			want: &PluginSettings{Resources: []PluginResource{{Name: "nvidia.com/gpu", Replicas: 2}}},
			warn: []sharing.WarningCode{sharing.WarnFlagIgnored, sharing.WarnRenameIgnored, sharing.WarnDevicesIgnored, sharing.WarnTimeSlicingIgnored},
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
		})
	}
}

func TestParsePluginSettingsRefuses(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"empty", " \n", []string{"empty"}},
		{"mps", "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}", []string{"sharing.timeSlicing: is missing"}},
		{"rules", `
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

func TestDRAConfig(t *testing.T) {
	head := "apiVersion: resource.nvidia.com/v1beta1\n"
	for in, want := range map[string]*DRASettings{
		"kind: GpuConfig\nsharing: {strategy: TimeSlicing}":                                       {},
		"kind: GpuConfig\nsharing: {strategy: TimeSlicing, timeSlicingConfig: {interval: Short}}": {Interval: LevelShort},
		"kind: MigDeviceConfig\nsharing: {strategy: TimeSlicing}":                                 {MIGDevice: true},
	} {
		got, ws, err := ParseDRASettings([]byte(head + in))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]sharing.WarningCode{sharing.WarnFeatureGate}, configCodes(ws)); diff != "" {
			t.Error(diff)
		}
	}
	for in, want := range map[string]string{
		"kind: GpuConfig\nsharing: {strategy: MPS}":                                                    `is "MPS", not TimeSlicing`,
		"kind: GpuConfig\nsharing: {strategy: TimeSlicing, timeSlicingConfig: {interval: short}}":      `did you mean "Short"`,
		"kind: GpuConfig\nsharing: {strategy: TimeSlicing, mpsConfig: {}}":                             "does not go with the TimeSlicing strategy",
		"kind: MigDeviceConfig\nsharing: {strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}": "a MigDeviceConfig has no time-slice settings",
	} {
		if got, _, err := ParseDRASettings([]byte(head + in)); got != nil || !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v; want %q", in, got, err, want)
		}
	}
	for _, c := range []*DRASettings{{Interval: 9}, {MIGDevice: true, Interval: LevelLong}} {
		if b, err := c.Marshal(); b != nil || !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %q, %v", c, b, err)
		}
	}
}

func TestConfigGolden(t *testing.T) {
	for name, c := range map[string]*PluginSettings{
		"plugin": {FailRequestsGreaterThanOne: Some(true), Resources: []PluginResource{{Name: "nvidia.com/gpu", Replicas: 4}}},
		"plugin-mig": {RenameByDefault: true, FailRequestsGreaterThanOne: Some(false),
			Resources: []PluginResource{{Name: "nvidia.com/mig-3g.40gb", Replicas: 2}, {Name: "nvidia.com/mig-1g.10gb.me", Replicas: 3}}},
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
	for name, c := range map[string]*DRASettings{"dra-gpu": {Interval: LevelMedium}, "dra-mig": {MIGDevice: true}} {
		got, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/config/"+name+".yaml", got)
	}
}

func FuzzParsePluginSettings(f *testing.F) {
	f.Add([]byte("version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n"))
	f.Add([]byte("version: v1\nflags: {gfd: {oneshot: true}}\nsharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.5gb, rename: x, devices: 2, replicas: 0x3}]}}"))
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

func FuzzParseDRASettings(f *testing.F) {
	f.Add([]byte("apiVersion: resource.nvidia.com/v1beta1\nkind: GpuConfig\nsharing: {strategy: TimeSlicing, timeSlicingConfig: {interval: Long}}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, ws, err := ParseDRASettings(in)
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
		back, _, err := ParseDRASettings(out)
		if diff := cmp.Diff(c, back); err != nil || diff != "" {
			t.Fatalf("%v %s", err, diff)
		}
	})
}
