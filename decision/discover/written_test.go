// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/parted"
	"github.com/cotenant/cotenant/sharing"
)

// TestWrittenIsReadBack: on random fleets the nodes that the written files configure, with the labels and resources
// that the device plugin and GPU Feature Discovery, or HAMi, would then give them, are discovered with the modes, slots
// and instances of the layout that the files were written from, and there are no more of them than the fleet has.
func TestWrittenIsReadBack(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(71, 72))
	modes, groups := map[sharing.Mechanism]int{}, map[string]int{}
	for i := range race.Fewer(nightly.Cases(20, 500)) {
		text := randomFleet(rng)
		if i%4 == 3 {
			text = strangersFleet(rng)
		}
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
		files := map[string][]byte{}
		for _, file := range folder.Files {
			files[file.Path] = file.Data
		}
		for g, all := range sharers(f, folder) {
			groups[g.Pool+fmt.Sprint(i)]++
			for _, a := range all {
				if k := slices.IndexFunc(all, func(b *layout.Workload) bool { return !a.Trust(b) }); k >= 0 {
					t.Errorf("%s and %s may get one GPU of %s", a.Name, all[k].Name, g.Key)
				}
			}
		}
		of := map[string]*layout.Node{}
		var objects []any
		configured := map[string]int{}
		for _, g := range folder.Groups {
			configured[g.Pool] += len(g.Nodes)
			for _, n := range g.Nodes {
				for d := range n.Devices {
					modes[n.Devices[d].Mode]++
				}
				var object any
				switch g.Delivery {
				case sharing.DeliveryGPUOperator, sharing.DeliveryDevicePlugin:
					object = pluginNode(t, files, g.Key, n)
				case sharing.DeliveryHAMi:
					if n = registered(n); n == nil {
						continue
					}
					object = hamiNode(t, files, g.Key, n)
				default:
					continue
				}
				objects, of[n.Name] = append(objects, object), n
			}
		}
		for _, p := range f.Pools {
			if most := (p.Count + p.GPUsPerNode.Or(1) - 1) / p.GPUsPerNode.Or(1); configured[p.Name] > most {
				t.Errorf("files for %d nodes of %s, which has %d", configured[p.Name], p.Name, most)
			}
		}
		list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
		if err != nil {
			t.Fatal(err)
		}
		c := discover.New(discover.Options{})
		if err := c.Read("nodes.json", bytes.NewReader(list)); err != nil && len(objects) > 0 {
			t.Fatal(err)
		}
		found := c.Discover()
		if len(objects) == 0 {
			continue
		}
		for i := range found.Fleet.Today.Nodes {
			got := &found.Fleet.Today.Nodes[i]
			if diff := cmp.Diff(handsOut(of[got.Name]), handsOut(got)); diff != "" {
				t.Errorf("%s: %s", got.Name, diff)
			}
			delete(of, got.Name)
		}
		if len(of) > 0 {
			t.Errorf("%d nodes are not found", len(of))
		}
		if t.Failed() {
			t.Fatalf("fleet %d:\n%s\n%s", i, text, list)
		}
	}
	if maps.DeleteFunc(groups, func(_ string, n int) bool { return n < 2 }); len(groups) < 3 && !race.Enabled {
		t.Errorf("%d pools have several groups that share", len(groups))
	}
	for _, m := range []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS,
		sharing.MechanismMIG, sharing.MechanismHAMi} {
		if modes[m] < 5 && !race.Enabled {
			t.Errorf("%d GPUs under %v", modes[m], m)
		}
	}
}

// sharers lists the workloads whose pods may, by the written selectors, run on the nodes of each group on which the
// device plugin chooses among shared GPUs.
func sharers(f *decision.Fleet, folder *manifest.Folder) map[*manifest.Group][]*layout.Workload {
	out, tenants := map[*manifest.Group][]*layout.Workload{}, f.Tenants()
	for i := range folder.Groups {
		g := &folder.Groups[i]
		if !layout.RulesOf(g.Delivery).AnyDevice || !slices.ContainsFunc(g.Nodes[0].Devices, func(d layout.Device) bool {
			return d.Mode > sharing.MechanismExclusive && !layout.Sliced(d.Mode)
		}) {
			continue
		}
		for _, file := range folder.Files {
			name, pods := strings.CutPrefix(file.Path, "pods/")
			text := regexp.MustCompile("(?m)^#.*$").ReplaceAllString(string(file.Data), "")
			if pods && slices.Contains(strings.Fields(text), g.Key) && !strings.Contains(text, "nvidia.com/mig-") {
				name, _, _ = strings.Cut(strings.TrimSuffix(name, ".yaml"), "-") // of its part
				out[g] = append(out[g], tenants[strings.Replace(name, ".", "/", 1)])
			}
		}
	}
	return out
}

// randomFleet has 1 to 6 pools of 1 to 8 GPUs a node and every delivery.
func randomFleet(rng *rand.Rand) string {
	var b strings.Builder
	b.WriteString("version: v1\npools:\n")
	gpus := []string{"A100-SXM4-80GB", "H100 80GB HBM3", "L40S", "A10", "Tesla T4", "L4"}
	for p := range 1 + rng.IntN(6) {
		each := 1 + rng.IntN(8)
		fmt.Fprintf(&b, "  - {name: p%d, gpu: %s, gpus_per_node: %d, count: %d, price_per_gpu_hour: %d USD%s}\n", p, gpus[rng.IntN(len(gpus))],
			each, each*(1+rng.IntN(3)), 1+rng.IntN(4), []string{"", "", ", delivery: device-plugin", ", delivery: gpu-operator", ", delivery: dra", ", delivery: hami", ", delivery: hami",
				", delivery: kai", ", delivery: volcano"}[rng.IntN(9)])
	}
	b.WriteString("workloads:\n")
	kinds := []string{"batch", "notebook", "training", "online-inference"}
	for w := range 1 + rng.IntN(9) {
		fmt.Fprintf(&b, "  - {name: ns%d/w%d, kind: %s, tenant: t%d, replicas: %d, memory: %dMiB, gpu_busy: %.2f%s}\n", rng.IntN(2), w, kinds[rng.IntN(len(kinds))], rng.IntN(2),
			1+rng.IntN(6), 500+rng.IntN(12000), 0.02+0.3*rng.Float64(), []string{"", "", ", isolation: {memory: hardware}", ", isolation: {memory: limited}"}[rng.IntN(3)])
	}
	return b.String()
}

// strangersFleet has several trust domains that share nodes of the device plugin.
func strangersFleet(rng *rand.Rand) string {
	var b strings.Builder
	each := 2 + rng.IntN(3)
	fmt.Fprintf(&b, "version: v1\npools: [{name: p, gpu: L4, gpus_per_node: %d, count: %d, mechanisms: [time-slicing, mps]}]\nworkloads:\n", each, 4*each)
	for w := range 4 + rng.IntN(6) {
		fmt.Fprintf(&b, "  - {name: ns/w%d, kind: batch, tenant: t%d, trust: [t%d], replicas: %d, memory: 2GiB, gpu_busy: 0.2}\n", w, w%3, 3+rng.IntN(2), 1+rng.IntN(4))
	}
	return b.String()
}

// labels are those of a group's file for its nodes and those that GPU Feature Discovery adds.
func labels(t *testing.T, files map[string][]byte, key string, n *layout.Node) map[string]string {
	t.Helper()
	var patch struct {
		Metadata struct{ Labels map[string]string }
	}
	if err := yaml.Unmarshal(files["nodes/"+key+".yaml"], &patch); err != nil {
		t.Fatal(err)
	}
	out := patch.Metadata.Labels
	gpu := n.Devices[0].GPU
	out["nvidia.com/gpu.product"] = "NVIDIA-" + strings.ReplaceAll(gpu.Name, " ", "-")
	out["nvidia.com/gpu.count"] = fmt.Sprint(len(n.Devices))
	out["nvidia.com/gpu.memory"] = fmt.Sprint(int64(gpu.Memory / sharing.MiB))
	out["nvidia.com/gpu.present"] = "true"
	return out
}

func nodeObject(n *layout.Node, labels, annotations, capacity map[string]string) any {
	return map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": n.Name, "labels": labels, "annotations": annotations},
		"status": map[string]any{"capacity": capacity, "allocatable": capacity}}
}

// pluginNode is a node after the device plugin and the MIG manager read their files: the layout gives its name, its
// GPUs' kind and their number, and nothing else.
func pluginNode(t *testing.T, files map[string][]byte, key string, n *layout.Node) any {
	t.Helper()
	l := labels(t, files, key, n)
	var config struct {
		Flags struct {
			MIGStrategy string `yaml:"migStrategy"`
		}
		Sharing map[string]struct{ Resources []struct{ Replicas int } }
	}
	data := files["device-plugin/"+l["nvidia.com/device-plugin.config"]+".yaml"]
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	capacity, full := map[string]string{}, len(n.Devices)
	if label := l["nvidia.com/mig.config"]; label != "" {
		all, err := parted.Parse(files["mig-parted/config.yaml"])
		if err != nil {
			t.Fatal(err)
		}
		instances := map[string]int{}
		for _, e := range all.Configs[label] {
			gpus := len(e.Devices.Indices)
			if e.Devices.All {
				gpus = len(n.Devices)
			}
			if !e.MIGEnabled {
				continue
			}
			full -= gpus
			for profile, each := range e.MIGDevices {
				name, err := mig.ResourceName(profile)
				if err != nil {
					t.Fatal(err)
				}
				instances[name] += gpus * each
			}
		}
		for name, amount := range instances {
			capacity[name] = fmt.Sprint(amount)
		}
	}
	replicas := 1
	l["nvidia.com/gpu.sharing-strategy"], l["nvidia.com/mig.strategy"] = "none", config.Flags.MIGStrategy
	for block, strategy := range map[string]string{"mps": "mps", "timeSlicing": "time-slicing"} {
		if shared := config.Sharing[block].Resources; len(shared) > 0 {
			replicas = shared[0].Replicas
			l["nvidia.com/gpu.sharing-strategy"] = strategy
			l["nvidia.com/gpu.product"] += "-SHARED"
		}
	}
	l["nvidia.com/gpu.replicas"] = fmt.Sprint(replicas)
	if full > 0 {
		capacity["nvidia.com/gpu"] = fmt.Sprint(full * replicas)
	}
	return nodeObject(n, l, nil, capacity)
}

// registered is a node as HAMi registers its cards: all of them are shared alike, also those that one pod has whole. It
// is nil where none is shared, or where instances come with the pods.
func registered(n *layout.Node) *layout.Node {
	out := *n
	out.Devices = slices.Clone(n.Devices)
	at := slices.IndexFunc(n.Devices, func(d layout.Device) bool {
		return d.Mode != sharing.MechanismExclusive && d.Mode != sharing.MechanismNone
	})
	if at < 0 || n.Devices[at].Mode == sharing.MechanismMIG {
		return nil
	}
	for i := range out.Devices {
		out.Devices[i].Mode, out.Devices[i].Slots = n.Devices[at].Mode, n.Devices[at].Slots
	}
	return &out
}

// hamiNode is a node after HAMi's device plugin registered its GPUs by the chart's values.
func hamiNode(t *testing.T, files map[string][]byte, key string, n *layout.Node) any {
	t.Helper()
	var values struct {
		Plugin struct {
			Split int `yaml:"deviceSplitCount"`
		} `yaml:"devicePlugin"`
	}
	if err := yaml.Unmarshal(files["hami/values.yaml"], &values); err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(files["plan.md"]), "Group "+key+":")
	step, _, _ := strings.Cut(after, "\n## ")
	mode := "hami-core"
	if strings.Contains(step, `"operatingmode": "mps"`) {
		mode = "mps"
	}
	var gpus []map[string]any
	for i := range n.Devices {
		gpus = append(gpus, map[string]any{"id": fmt.Sprintf("GPU-%s-%d", n.Name, i), "count": values.Plugin.Split, "devmem": int64(n.Devices[i].GPU.Memory / sharing.MiB), "devcore": 100,
			"type": "NVIDIA-" + n.Devices[i].GPU.Name, "mode": mode, "health": true})
	}
	register, err := json.Marshal(gpus)
	if err != nil {
		t.Fatal(err)
	}
	return nodeObject(n, labels(t, files, key, n), map[string]string{"hami.io/node-nvidia-register": string(register)},
		map[string]string{"nvidia.com/gpu": fmt.Sprint(len(gpus) * values.Plugin.Split)})
}

// handsOut counts the GPUs of a node by mode, slots and memory limit, and its instances.
func handsOut(n *layout.Node) map[string]int {
	out := map[string]int{}
	devices := slices.Clone(n.Devices)
	for i := range devices {
		d := &devices[i]
		shared := slices.IndexFunc(devices, func(d layout.Device) bool { return d.Mode > sharing.MechanismExclusive })
		if (n.Delivery == sharing.DeliveryHAMi || n.Delivery == sharing.DeliveryVolcano) && d.Mode <= sharing.MechanismExclusive && shared >= 0 { // it has one mode for all cards
			d.Mode, d.Slots = devices[shared].Mode, devices[shared].Slots
		}
		for _, in := range d.Instances {
			out[in.Profile.Name]++
		}
		if d.Mode == sharing.MechanismNone { // not configured: as the device plugin hands it out by itself
			d.Mode, d.Slots = sharing.MechanismExclusive, 1
		}
		out[fmt.Sprint(d.Mode, max(1, d.Slots), d.Limit)]++
	}
	return out
}
