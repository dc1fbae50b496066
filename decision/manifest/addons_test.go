package manifest_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/manifest/addons"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

const queueLabel = "kueue.x-k8s.io/queue-name"

// TestKueue holds the queues against Kueue's rules: a resource stands in one
// group, every flavour lists the group's resources in their order, a workload is
// admitted only if every resource that it asks for is covered, and its
// LocalQueue stands in its namespace. The quotas hold all that was decided.
func TestKueue(t *testing.T) {
	for _, deliveries := range [][]sharing.Delivery{nil, manifest.EveryDelivery, {sharing.DeliveryHAMi}, {sharing.DeliveryVolcano}, {sharing.DeliveryKAI}} {
		f, r, opts := manifest.Mixed(t)
		opts.Deliveries, opts.Extensions = deliveries, []manifest.Extension{addons.Kueue{Queue: "gpus"}}
		folder, err := manifest.Build(f, r, opts)
		if err != nil {
			t.Fatal(err)
		}
		if deliveries != nil && deliveries[0] == sharing.DeliveryKAI {
			for _, f := range folder.Files {
				if strings.HasPrefix(f.Path, "kueue/") || strings.Contains(string(f.Data), queueLabel) {
					t.Errorf("%s: KAI has queues of its own", f.Path)
				}
			}
			if !slices.ContainsFunc(folder.Warnings, func(w sharing.Warning) bool { return w.Code == addons.WarnNotQueued }) {
				t.Error("no warning that Kueue counts nothing")
			}
			continue
		}
		docs, err := strictyaml.Parse([]byte(manifest.Find(t, folder, "kueue/queues.yaml")), strictyaml.Options{})
		if err != nil {
			t.Fatal(err)
		}
		flavours, local := map[string]string{}, map[string]bool{}
		quota := map[string]map[string]int{}
		var covered []string
		for _, d := range docs {
			name := manifest.Text(manifest.Field(d, "metadata", "name"))
			if manifest.Text(manifest.Field(d, "apiVersion")) != "kueue.x-k8s.io/v1beta2" {
				t.Errorf("%s: %s", name, manifest.Text(manifest.Field(d, "apiVersion")))
			}
			switch kind := manifest.Text(manifest.Field(d, "kind")); kind {
			case "ResourceFlavor":
				flavours[name] = manifest.Text(manifest.Field(d, "spec", "nodeLabels", manifest.GroupLabel))
			case "LocalQueue":
				local[manifest.Text(manifest.Field(d, "metadata", "namespace"))] = manifest.Text(manifest.Field(d, "spec", "clusterQueue")) == "gpus"
			case "ClusterQueue":
				groups := manifest.Field(d, "spec", "resourceGroups").Content
				if len(groups) != 1 || name != "gpus" {
					t.Errorf("%d resource groups in %s", len(groups), name)
				}
				for _, c := range manifest.Field(groups[0], "coveredResources").Content {
					if slices.Contains(covered, c.Value) {
						t.Errorf("%s stands twice", c.Value)
					}
					covered = append(covered, c.Value)
				}
				for _, f := range manifest.Field(groups[0], "flavors").Content {
					quota[manifest.Text(manifest.Field(f, "name"))] = map[string]int{}
					for i, r := range manifest.Field(f, "resources").Content {
						n, err := strconv.Atoi(manifest.Text(manifest.Field(r, "nominalQuota")))
						if err != nil || n < 0 || i >= len(covered) || manifest.Text(manifest.Field(r, "name")) != covered[i] {
							t.Errorf("%s: resource %d is %s: %s", manifest.Text(manifest.Field(f, "name")), i, manifest.Text(manifest.Field(r, "name")), manifest.Text(manifest.Field(r, "nominalQuota")))
						}
						quota[manifest.Text(manifest.Field(f, "name"))][manifest.Text(manifest.Field(r, "name"))] = n
					}
				}
			default:
				t.Errorf("no kind %q", kind)
			}
		}
		queued := 0
		for _, f := range folder.Files {
			if !strings.HasPrefix(f.Path, "pods/") {
				if strings.Contains(string(f.Data), queueLabel) {
					t.Errorf("%s: only the primary delivery is queued", f.Path)
				}
				continue
			}
			pods, err := strictyaml.Parse(f.Data, strictyaml.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range pods {
				if q := manifest.Field(d, "metadata", "labels", queueLabel); q == nil {
					continue
				} else if q.Value != "gpus" || !local[manifest.Text(manifest.Field(d, "metadata", "namespace"))] {
					t.Errorf("%s: no queue %s in its namespace", f.Path, q.Value)
				}
				queued++
				pod := manifest.Field(d, "spec", "template", "spec")
				groups := manifest.Selects(pod)
				replicas, _ := strconv.Atoi(manifest.Text(manifest.Field(d, "spec", "replicas")) + manifest.Text(manifest.Field(d, "spec", "completions")))
				for _, group := range groups {
					if flavours[group] != group {
						t.Errorf("%s: no flavour for %s", f.Path, group)
					}
				}
				for name, amount := range manifest.Values(manifest.LimitsOf(manifest.Field(pod, "containers").Content[0])) {
					n, _ := strconv.Atoi(amount)
					if !slices.Contains(covered, name) {
						t.Errorf("%s: Kueue admits nothing that asks for %s", f.Path, name)
					}
					for left, k := n*replicas, 0; left > 0; k++ {
						if k == len(groups) {
							t.Errorf("%s: the quotas of %s in %v are short by %d", f.Path, name, groups, left)
							break
						}
						taken := min(left, quota[groups[k]][name])
						quota[groups[k]][name] -= taken
						left -= taken
					}
				}
			}
		}
		if queued < 1 {
			t.Errorf("%v: %d workloads are queued", deliveries, queued)
		}
	}
	f, r, opts := manifest.Mixed(t)
	opts.Extensions = []manifest.Extension{addons.Kueue{Queue: "Not a name"}}
	if _, err := manifest.Build(f, r, opts); !errors.Is(err, manifest.ErrInvalid) || !strings.Contains(err.Error(), "kueue.queue") {
		t.Errorf("%v", err)
	}
}

// TestVGPU: each group of virtual GPUs has its file, which the plan names, and its
// warnings.
func TestVGPU(t *testing.T) {
	f, r, opts := manifest.Mixed(t)
	slices3ms := map[string]addons.VGPUScheduler{"vdi": {Policy: addons.VGPUPolicyEqualShare, TimeSlice: 3 * time.Millisecond}}
	build := func(schedulers map[string]addons.VGPUScheduler) (*manifest.Folder, error) {
		opts.Extensions = []manifest.Extension{addons.VGPU{Schedulers: schedulers}}
		return manifest.Build(f, r, opts)
	}
	folder, err := build(slices3ms)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"vgpu/vdi-vgpu.conf": "RmPVMRL=0x00030003", "vgpu/vdi2-mig-vgpu.conf": "MIG-backed", "plan.md": "install vgpu/vdi-vgpu.conf, load the driver anew, and give"} {
		if got := manifest.Find(t, folder, path); !strings.Contains(got, want) {
			t.Errorf("%s lacks %q:\n%s", path, want, got)
		}
	}
	plain, err := build(nil)
	if err != nil || !manifest.HasCode(folder.Warnings, "vdi-vgpu", addons.WarnRmPVMRLForm) || !manifest.HasCode(plain.Warnings, "vdi-vgpu", addons.WarnBestEffort) {
		t.Errorf("%v\n%v\n%v", err, folder.Warnings, plain.Warnings)
	}
	opts.Deliveries = []sharing.Delivery{sharing.DeliveryGPUOperator}
	without, err := build(nil)
	if err != nil || slices.ContainsFunc(without.Files, func(f manifest.File) bool { return strings.HasPrefix(f.Path, "vgpu/") }) {
		t.Errorf("written for another delivery: %v", err)
	}
	f.Pools[6].VGPUType, f.Pools[7].VGPUType = "A100D-1-10C", "none"
	_, err = build(map[string]addons.VGPUScheduler{"vdi2": {Policy: addons.VGPUPolicyFixedShare}, "vid": {}})
	if !errors.Is(err, manifest.ErrInvalid) {
		t.Fatal(err)
	}
	for _, want := range []string{"the pool's vgpu_type A100D-1-10C does not go with vgpu", `"none" is not a vGPU type`,
		"vgpu.schedulers.vdi2: the vGPU schedulers are for time-sliced types only", "vgpu.schedulers.vid: no GPU of such a pool is used"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}
