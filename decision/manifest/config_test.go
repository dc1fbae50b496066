package manifest

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/golden"
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
		d := PluginConfig{TimeSlicing: &Replication{Resources: []ReplicatedResource{{Name: name, Replicas: 2}}}}
		if _, err := d.Marshal(); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParsePluginConfig(t *testing.T) {
	ignoredFlags, packed := PluginFlags{MIGStrategy: "single", MPSRoot: "/run/nvidia/mps"}, PluginFlags{}
	ignoredFlags.Plugin.DeviceListStrategy = []string{"envvar"}
	packed.Plugin.SharedDevicesAllocationPolicy = "packed"
	for _, c := range []struct {
		name, in string
		want     *PluginConfig
		warn     []sharing.WarningCode
	}{
		{
			name: "plain", in: "version: v1\nsharing:\n  mps:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n",
			want: &PluginConfig{MPS: &Replication{Resources: []ReplicatedResource{{Name: "nvidia.com/gpu", Replicas: 4}}}},
		},
		{
			name: "json", in: `{"version":"v1","sharing":{"mps":{"failRequestsGreaterThanOne":false,"renameByDefault":true,"resources":[{"name":"nvidia.com/gpu","replicas":2}]}}}`,
			want: &PluginConfig{MPS: &Replication{RenameByDefault: true, FailRequestsGreaterThanOne: decision.Some(false), Resources: []ReplicatedResource{{Name: "nvidia.com/gpu", Replicas: 2}}}},
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
			want: &PluginConfig{Flags: ignoredFlags,
				MPS: &Replication{Resources: []ReplicatedResource{{Name: "nvidia.com/gpu", Replicas: 7}}}, TimeSlicing: &Replication{Resources: []ReplicatedResource{{Name: "nvidia.com/gpu", Replicas: 4}}}},
			warn: []sharing.WarningCode{sharing.WarnResourcesIgnored, sharing.WarnFlagIgnored, sharing.WarnFlagIgnored, sharing.WarnRenameIgnored, sharing.WarnDevicesIgnored,
				sharing.WarnDevicesIgnored, sharing.WarnTimeSlicingIgnored, sharing.WarnMIGStrategyConflict, sharing.WarnUnevenPercentage},
		},
		{
			name: "turns", in: "version: v1\nsharing:\n  timeSlicing:\n    failRequestsGreaterThanOne: true\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n",
			want: &PluginConfig{TimeSlicing: &Replication{FailRequestsGreaterThanOne: decision.Some(true), Resources: []ReplicatedResource{{Name: "nvidia.com/gpu", Replicas: 4}}}},
			warn: []sharing.WarningCode{sharing.WarnReplicasNotCapacity},
		},
		{
			name: "imex and gdrcopy", in: "version: v1\nflags: {gdrcopyEnabled: true}\nimex: {channelIDs: [0], required: true}\n",
			want: &PluginConfig{Flags: PluginFlags{GDRCopyEnabled: decision.Some(true)}, IMEX: &IMEX{ChannelIDs: []int{0}, Required: decision.Some(true)}},
		},
		{
			name: "mig", in: "version: v1\nflags: {migStrategy: single}\nsharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 2}, {name: nvidia.com/mig-1g.10gb, replicas: 3}]}}",
			want: &PluginConfig{Flags: PluginFlags{MIGStrategy: "single"}, TimeSlicing: &Replication{RenameByDefault: true, Resources: []ReplicatedResource{{Name: "nvidia.com/gpu", Replicas: 2}, {Name: "nvidia.com/mig-1g.10gb", Replicas: 3}}}},
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
			want: &PluginConfig{Flags: packed, TimeSlicing: &Replication{Resources: []ReplicatedResource{{Name: "nvidia.com/gpu", Replicas: 2}}},
				MPS: &Replication{Resources: []ReplicatedResource{{Name: "nvidia.com/gpu", Replicas: 2}}}},
			warn: []sharing.WarningCode{sharing.WarnFlagIgnored, sharing.WarnRenameIgnored, sharing.WarnDevicesIgnored, sharing.WarnTimeSlicingIgnored},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ws, err := ParseConfig([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
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

func TestParseConfigRefuses(t *testing.T) {
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
		{"channels", "version: v1\nimex: {channelIDs: [0, 1]}", []string{"imex.channelIDs: the plugin knows no other channel than 0"}},
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
	got, ws, err := ParseConfig([]byte(in))
	if got != nil || ws != nil || !errors.Is(err, ErrInvalid) {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error lacks %q:\n%v", w, err)
		}
	}
}

// fullPlugin sets every flag.
func fullPlugin() *PluginConfig {
	c := &PluginConfig{
		Flags: PluginFlags{
			MIGStrategy: "mixed", FailOnInitError: decision.Some(true), MPSRoot: "/run/nvidia/mps", NvidiaDriverRoot: "/run/nvidia/driver", NvidiaDevRoot: "/", GDSEnabled: decision.Some(false),
			MOFEDEnabled: decision.Some(false), UseNodeFeatureAPI: decision.Some(true), DeviceDiscoveryStrategy: "auto",
		},
		TimeSlicing: &Replication{RenameByDefault: true, FailRequestsGreaterThanOne: decision.Some(true),
			Resources: []ReplicatedResource{{Name: gpuResource, Replicas: 4}, {Name: "nvidia.com/mig-1g.5gb", Replicas: 2}}},
	}
	p, g := &c.Flags.Plugin, &c.Flags.GFD
	p.PassDeviceSpecs, p.DeviceListStrategy, p.DeviceIDStrategy = decision.Some(true), []string{"envvar", "cdi-cri"}, "uuid"
	p.CDIAnnotationPrefix, p.NvidiaCTKPath, p.ContainerDriverRoot = "cdi.k8s.io/", "/usr/bin/nvidia-ctk", "/driver-root"
	p.SharedDevicesAllocationPolicy = "packed"
	g.Oneshot, g.NoTimestamp = decision.Some(false), decision.Some(true)
	g.SleepInterval, g.OutputFile, g.MachineTypeFile = "60s", "/features.d/gfd", "/machine-type"
	return c
}

func TestConfigMarshal(t *testing.T) {
	for name, c := range map[string]*PluginConfig{
		"plugin":         {MPS: &Replication{Resources: []ReplicatedResource{{Name: gpuResource, Replicas: 4}}}},
		"plugin-options": {MPS: &Replication{RenameByDefault: true, FailRequestsGreaterThanOne: decision.Some(true), Resources: []ReplicatedResource{{Name: gpuResource, Replicas: 7}}}},
		"plugin-full":    fullPlugin(),
		"plugin-imex":    {Flags: PluginFlags{GDRCopyEnabled: decision.Some(true)}, IMEX: &IMEX{ChannelIDs: []int{0}, Required: decision.Some(true)}},
	} {
		got, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/config-"+name+".yaml", got)
		back, _, err := ParseConfig(got)
		if diff := cmp.Diff(c, back); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	full := fullPlugin()
	full.MPS = &Replication{Resources: []ReplicatedResource{{Name: gpuResource, Replicas: 2}}}
	for want, c := range map[string]*PluginConfig{
		"has no entry": {MPS: &Replication{}},
		"refuses MPS together with the mixed MIG strategy": full,
	} {
		if b, err := c.Marshal(); b != nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v", want, b, err)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, s := range []string{
		"version: v1\nflags: {renameByDefault: true, plugin: {deviceListStrategy: [envvar]}}\nsharing: {mps: {resources: [{name: nvidia.com/gpu, rename: x, devices: 2, replicas: 3}]}}",
		"version: v1\nflags: {gfd: {oneshot: true}}\nsharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.5gb, rename: x, devices: 2, replicas: 0x3}]}}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		c, ws, err := ParseConfig(in)
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
		back, _, err := ParseConfig(out)
		if err != nil {
			t.Fatal(err)
		}
		again, err := back.Marshal()
		if err != nil || string(again) != string(out) {
			t.Fatalf("%v %s", err, cmp.Diff(string(out), string(again)))
		}
	})
}
