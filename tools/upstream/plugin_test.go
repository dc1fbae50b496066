// SPDX-License-Identifier: Apache-2.0

package cotenant

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	cli "github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"

	spec "github.com/NVIDIA/k8s-device-plugin/api/config/v1"
	"github.com/NVIDIA/k8s-device-plugin/cmd/mps-control-daemon/mps"
	"github.com/NVIDIA/k8s-device-plugin/internal/rm"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/sharing"
)

const fleets = 20

// TestDevicePlugin: for nodes of random fleets the device plugin reads the configuration that their labels name, hands
// out the devices and replicas of the layout, and its MPS daemon sets the layout's limits, which hold every tenant.
// What is written for mig-parted, whose code is not served as a module, are the layout's instances by its format.
func TestDevicePlugin(t *testing.T) {
	commands := t.TempDir()
	said := filepath.Join(commands, "said")
	write(t, filepath.Join(commands, "nvidia-smi"), "#!/bin/sh\n")
	write(t, filepath.Join(commands, "nvidia-cuda-mps-control"),
		"#!/bin/sh\n[ \"$1\" = -d ] || { cat; echo; } >> "+said+"\n")
	t.Setenv("PATH", commands+":"+os.Getenv("PATH"))
	rng := rand.New(rand.NewPCG(5, 19))
	modes := map[sharing.Mechanism]int{}
	for i := range fleets {
		text := random(rng)
		f, err := decision.ParseFleet([]byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		r, err := decision.Decide(t.Context(), f, decision.Options{})
		if err != nil {
			t.Fatal(err)
		}
		folder, err := manifest.Build(f, r)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		dir := filepath.Join(t.TempDir(), "out")
		if err := folder.Write(dir); err != nil {
			t.Fatal(err)
		}
		nodes := 0
		for _, g := range folder.Groups {
			nodes += len(g.Nodes)
			labels := labelsOf(t, dir, g.Key)
			for _, n := range g.Nodes {
				checkNode(t, dir, labels, n, said)
				checkInstances(t, dir, labels, n)
				for d := range n.Devices {
					modes[n.Devices[d].Mode]++
				}
			}
		}
		used := 0
		for n := range r.Layout.Nodes() {
			if n.Used() {
				used++
			}
		}
		if nodes < used {
			t.Errorf("%d nodes have files of %d that hold somebody", nodes, used)
		}
		if t.Failed() {
			t.Fatalf("fleet %d:\n%s", i, text)
		}
	}
	for _, m := range []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS,
		sharing.MechanismMIG} {
		if modes[m] < 5 {
			t.Errorf("%d GPUs under %v", modes[m], m)
		}
	}
}

// random is a fleet for the device plugin.
func random(rng *rand.Rand) string {
	var b strings.Builder
	b.WriteString("version: v1\npools:\n")
	gpus := []string{"A100-SXM4-80GB", "H100 80GB HBM3", "L40S", "A10", "Tesla T4", "L4"}
	for p := range 1 + rng.IntN(3) {
		each := 1 + rng.IntN(8)
		fmt.Fprintf(&b, "  - {name: p%d, gpu: %s, gpus_per_node: %d, count: %d, price_per_gpu_hour: %d USD%s}\n", p,
			gpus[rng.IntN(len(gpus))], each, each*(1+rng.IntN(4)), 1+rng.IntN(4),
			[]string{"", ", delivery: device-plugin", ", delivery: gpu-operator"}[rng.IntN(3)])
	}
	b.WriteString("workloads:\n")
	kinds := []string{"batch", "notebook", "training", "online-inference"}
	for w := range 2 + rng.IntN(8) {
		extra := []string{"", "", ", isolation: {memory: hardware}"}[rng.IntN(3)]
		fmt.Fprintf(&b, "  - {name: ns%d/w%d, kind: %s, tenant: t, replicas: %d, memory: %dMiB, gpu_busy: %.2f%s}\n",
			rng.IntN(2), w, kinds[rng.IntN(len(kinds))], 1+rng.IntN(6), 500+rng.IntN(12000), 0.02+0.3*rng.Float64(), extra)
	}
	return b.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func labelsOf(t *testing.T, dir, key string) map[string]string {
	t.Helper()
	var patch struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	read(t, filepath.Join(dir, "nodes", key+".yaml"), &patch)
	return patch.Metadata.Labels
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = yaml.UnmarshalStrict(data, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// load reads a configuration as the plugin's program does.
func load(t *testing.T, path string) (config *spec.Config) {
	t.Helper()
	flags := []cli.Flag{
		&cli.StringFlag{Name: "mig-strategy", Value: spec.MigStrategyNone},
		&cli.BoolFlag{Name: "fail-on-init-error", Value: true},
		&cli.StringFlag{Name: "mps-root"}, &cli.StringFlag{Name: "nvidia-driver-root", Value: "/"},
		&cli.StringFlag{Name: "device-discovery-strategy", Value: "auto"}, &cli.StringFlag{Name: "config-file"}}
	app := &cli.App{Flags: flags, Action: func(c *cli.Context) (err error) {
		config, err = spec.NewConfig(c, flags)
		return err
	}}
	if err := app.Run([]string{"plugin", "-config-file", path}); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	spec.DisableResourceNamingInConfig(config)
	return config
}

// checkNode holds what the plugin and its daemon do on a node against the layout.
func checkNode(t *testing.T, dir string, labels map[string]string, n *layout.Node, said string) {
	t.Helper()
	config := load(t, filepath.Join(dir, "device-plugin", labels["nvidia.com/device-plugin.config"]+".yaml"))
	m := newMachine(n)
	if err := rm.AddDefaultResourcesToConfig(platform{}, m, m.devices(), config); err != nil {
		t.Fatal(err)
	}
	managers, err := rm.NewNVMLResourceManagers(platform{}, m, m.devices(), config)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{} // replicas by index
	for _, r := range managers {
		if r.Resource() != "nvidia.com/gpu" {
			t.Errorf("%s hands out %s", n.Name, r.Resource())
		}
		for _, d := range r.Devices() {
			got[d.Index]++
		}
	}
	want, limits, percent := map[string]int{}, map[string]string{}, int32(0)
	for i := range n.Devices {
		d := &n.Devices[i]
		if d.Mode == sharing.MechanismMIG {
			continue
		}
		want[strconv.Itoa(i)] = max(1, int(d.Slots))
		if d.Limit > 0 {
			limits[strconv.Itoa(i)] = fmt.Sprintf("%dM", d.Limit/sharing.MiB)
			percent = layout.RulesOf(n.Delivery).Cap(d.Mode, int32(d.Slots)) / 10
		}
		for a := range n.Assignments {
			if a := &n.Assignments[a]; int(a.Device) == i && d.Limit > 0 && a.Memory > d.Limit {
				t.Errorf("%s: %s needs %v and may have %v", n.Name, a.Key, a.Memory, d.Limit)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: replicas of %s, %s", n.Name, labels["nvidia.com/device-plugin.config"], diff)
	}
	daemons, err := mps.NewDaemons(platform{}, m, m.devices(), mps.WithConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	if len(daemons) != min(1, len(limits)) {
		t.Fatalf("%s: %d MPS daemons for %d limits", n.Name, len(daemons), len(limits))
	}
	for _, r := range managers {
		if len(daemons) == 0 {
			break
		}
		os.Remove(said)
		daemon := mps.NewDaemon(r, mps.Root(t.TempDir()))
		if err := daemon.Start(); err != nil {
			t.Fatal(err)
		}
		checkLimits(t, n, said, limits, percent)
		checkPods(t, dir, n)
		if err := daemon.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// checkLimits holds what the daemon was told against the layout's limits.
func checkLimits(t *testing.T, n *layout.Node, said string, want map[string]string, percent int32) {
	t.Helper()
	text, err := os.ReadFile(said)
	if err != nil {
		t.Fatal(err)
	}
	got, threads := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		switch f := strings.Fields(line); {
		case len(f) == 3 && f[0] == "set_default_device_pinned_mem_limit":
			got[f[1]] = f[2]
		case len(f) == 2 && f[0] == "set_default_active_thread_percentage":
			threads = f[1]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || threads != fmt.Sprint(percent) {
		t.Errorf("%s: limits %s threads %s of %d", n.Name, diff, threads, percent)
	}
}

// checkPods holds the limits that pods set themselves against those of the node that they may be on.
func checkPods(t *testing.T, dir string, n *layout.Node) {
	t.Helper()
	for a := range n.Assignments {
		a := &n.Assignments[a]
		limit := n.Devices[a.Device].Limit
		data, err := os.ReadFile(filepath.Join(dir, "pods", strings.ReplaceAll(a.Workload.Name, "/", ".")+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		_, after, found := strings.Cut(string(data), "value: 0=")
		own, _, _ := strings.Cut(after, "M\n")
		mib, err := strconv.Atoi(own)
		if !found || err != nil || sharing.Bytes(mib)*sharing.MiB > limit || sharing.Bytes(mib)*sharing.MiB < a.Memory {
			t.Errorf("%s: %s limits itself to %q, needs %v and may have %v", n.Name, a.Key, own, a.Memory, limit)
		}
	}
}

// checkInstances reads mig-parted's configuration.
func checkInstances(t *testing.T, dir string, labels map[string]string, n *layout.Node) {
	t.Helper()
	label := labels["nvidia.com/mig.config"]
	if label == "" {
		for i := range n.Devices {
			if len(n.Devices[i].Instances) > 0 {
				t.Errorf("%s has instances and no label for them", n.Name)
			}
		}
		return
	}
	var file struct {
		Version string `json:"version"`
		Configs map[string][]struct {
			Devices any            `json:"devices"` // "all" or a list
			Enabled bool           `json:"mig-enabled"`
			Has     map[string]int `json:"mig-devices"`
		} `json:"mig-configs"`
	}
	read(t, filepath.Join(dir, "mig-parted", "config.yaml"), &file)
	for i := range n.Devices {
		want, got, matched := map[string]int{}, map[string]int{}, 0
		for _, in := range n.Devices[i].Instances {
			want[in.Profile.Name]++
		}
		for _, s := range file.Configs[label] {
			if list, some := s.Devices.([]any); some && !slices.Contains(list, any(float64(i))) {
				continue
			}
			matched++
			maps.Copy(got, s.Has)
			if s.Enabled != (len(want) > 0) {
				t.Errorf("%s: GPU %d in MIG mode: %v", n.Name, i, s.Enabled)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || matched != 1 {
			t.Errorf("%s: GPU %d, of %d entries: %s", n.Name, i, matched, diff)
		}
	}
}
