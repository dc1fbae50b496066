// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
)

// slice writes a ResourceSlice of NVIDIA's DRA driver with devices as cmd/gpu-kubelet-plugin of
// kubernetes-sigs/dra-driver-nvidia-gpu at 95932046 publishes them (deviceinfo.go, mig.go, consumable_shares.go).
func slice(name, pool, devices string) string {
	return fmt.Sprintf(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":%q},"spec":{"driver":"gpu.nvidia.com","nodeName":"dra-1","pool":{"name":%q,"generation":1,"resourceSliceCount":3},%s}}`, name, pool, devices)
}

func gpuDevice(i int, more string) string {
	return fmt.Sprintf(`{"name":"gpu-%d","attributes":{"type":{"string":"gpu"},"uuid":{"string":"GPU-%d"},"productName":{"string":"NVIDIA H100 80GB HBM3"},"architecture":{"string":"Hopper"},"cudaComputeCapability":{"version":"9.0.0"},"driverVersion":{"version":"580.65.6"}}%s}`, i, i, more)
}

// migDevice is a partition that the driver can make (DynamicMIG): it has no UUID.
func migDevice(gpu int, name, profile string) string {
	return fmt.Sprintf(`{"name":%q,"attributes":{"type":{"string":"mig"},"parentUUID":{"string":"GPU-%d"},"profile":{"string":%q},"productName":{"string":"NVIDIA H100 80GB HBM3"},"driverVersion":{"version":"580.65.6"}},"capacity":{"memory":{"value":"9856Mi"},"multiprocessors":{"value":"16"}},"consumesCounters":[{"counterSet":"gpu-%d-counter-set","counters":{"memory-slice-0":{"value":"1"}}}]}`, name, gpu, profile, gpu)
}

func draClaim(name, class, capacity, device, consumed string) string {
	return fmt.Sprintf(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":%q,"namespace":"t"},"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":%q%s}}]}},"status":{"allocation":{"devices":{"results":[{"request":"gpu","driver":"gpu.nvidia.com","pool":"the-pool","device":%q%s}]}},"reservedFor":[{"resource":"pods","name":%q}]}}`, name, class, capacity, device, consumed, name)
}

func claimPod(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"t","uid":"uid-%s"},"spec":{"nodeName":"dra-1","containers":[{"image":"i"}],"resourceClaims":[{"name":"gpu","resourceClaimName":%q}]},"status":{"phase":"Running"}}`, name, name, name)
}

const draNode = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"dra-1","uid":"n"},"status":{"capacity":{"cpu":"64"},"allocatable":{"cpu":"64"}}}`

func list(items ...string) string {
	return `{"apiVersion":"v1","kind":"List","items":[` + strings.Join(items, ",") + `]}`
}

// rows are pools, today's sharing and workloads, in a line each.
func rows(d *discover.Discovery) []string {
	var out []string
	for _, p := range d.Fleet.Pools {
		out = append(out, fmt.Sprintf("%s %s %d", p.Name, p.GPU, p.Count))
	}
	for _, s := range d.Today {
		text := fmt.Sprintf("%v %d %d", s.Mechanism, s.GPUs, s.Tenants)
		for _, in := range s.Inside {
			text += fmt.Sprintf(" inside %s %v %d", in.Profile, in.Mechanism, in.Pods)
		}
		out = append(out, text)
	}
	for _, w := range d.Fleet.Workloads {
		text := fmt.Sprintf("%s %d %v", w.Name, w.GPUs, w.Memory)
		if w.Request != nil {
			text += fmt.Sprintf(" %v %s %d", w.Request.Mechanism, w.Request.Profile, w.Request.Replicas)
		}
		out = append(out, strings.TrimSpace(text))
	}
	return out
}

// TestDRADevices: consumable shares, partitions that claims hold, and classes of one's own.
func TestDRADevices(t *testing.T) {
	const shared = `,"allowMultipleAllocations":true,"capacity":{"memory":{"value":"81559Mi","requestPolicy":{"default":"81559Mi","validRange":{"min":"1Mi","max":"81559Mi","step":"1Mi"}}}%s}`
	counters := slice("counters", "the-pool", `"sharedCounters":[{"name":"gpu-0-counter-set","counters":{"memory-slice-0":{"value":"1"}}}]`)
	for name, c := range map[string]struct {
		items []string
		want  []string
	}{
		"claims that consume 20Gi and 40Gi": {[]string{counters, slice("a", "the-pool", `"devices":[`+gpuDevice(0, fmt.Sprintf(shared, ""))+","+gpuDevice(1, fmt.Sprintf(shared, ""))+`]`),
			draClaim("a", "gpu.nvidia.com", `,"capacity":{"requests":{"memory":"20Gi"}}`, "gpu-0", `,"shareID":"s1","consumedCapacity":{"memory":"20Gi"}`),
			draClaim("b", "gpu.nvidia.com", `,"capacity":{"requests":{"memory":"40Gi"}}`, "gpu-0", `,"shareID":"s2","consumedCapacity":{"memory":"42949672960"}`),
			draClaim("whole", "gpu.nvidia.com", "", "gpu-1", `,"shareID":"s3","consumedCapacity":{"memory":"81559Mi"}`),
			claimPod("a"), claimPod("b"), claimPod("whole")},
			[]string{"h100-80gb-hbm3 H100 80GB HBM3 2", "exclusive 1 1", "time-slicing 1 2", "t/a 1 20GiB time-slicing  0", "t/b 1 40GiB time-slicing  0", "t/whole 1 -"}},
		"four claims may share": {[]string{slice("a", "the-pool", `"devices":[`+gpuDevice(0, fmt.Sprintf(shared, `,"shares":{"value":"4"}`))+`]`),
			draClaim("a", "gpu.nvidia.com", "", "gpu-0", `,"shareID":"s1","consumedCapacity":{"memory":"0","shares":"1"}`), claimPod("a")},
			[]string{"h100-80gb-hbm3 H100 80GB HBM3 1", "time-slicing 1 1", "t/a 1 - time-slicing  4"}},
		"partitions that the driver makes": {[]string{counters, slice("a", "the-pool", `"devices":[`+gpuDevice(0, "")+","+migDevice(0, "gpu-0-mig-1g10gb-19-0", "1g.10gb")+","+migDevice(0, "gpu-0-mig-1g10gb-19-1", "1g.10gb")+`]`),
			slice("b", "the-pool", `"devices":[`+gpuDevice(1, "")+","+migDevice(1, "gpu-1-mig-1g10gb-19-0", "1g.10gb")+`]`),
			draClaim("m", "mig.nvidia.com", "", "gpu-0-mig-1g10gb-19-1", ""), draClaim("g", "gpu.nvidia.com", "", "gpu-1", ""), claimPod("m"), claimPod("g")},
			[]string{"h100-80gb-hbm3 H100 80GB HBM3 2", "exclusive 1 1", "mig 1 1", "t/g 1 -", "t/m 1 9.75GiB mig 1g.10gb 0"}},
		"a class of one's own, not yet allocated": {[]string{slice("a", "the-pool", `"devices":[`+gpuDevice(0, "")+`]`),
			`{"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","metadata":{"name":"big"},"spec":{"selectors":[{"cel":{"expression":"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}}]}}`,
			`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"w","namespace":"t"},"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"big","count":2}}]}}}`,
			`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"nic","namespace":"t"},"spec":{"devices":{"requests":[{"name":"x","exactly":{"deviceClassName":"nic.example.com"}}]}}}`, claimPod("w"), claimPod("nic")},
			[]string{"h100-80gb-hbm3 H100 80GB HBM3 1", "exclusive 1 1", "t/w 2 -"}},
	} {
		d, err := read(t, discover.Options{}, name, list(append([]string{draNode}, c.items...)...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, rows(d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNodesOf2026: labels, conditions and resources that clouds, kubelets and other vendors write on nodes.
func TestNodesOf2026(t *testing.T) {
	ready := func(node, status string) string {
		return strings.Replace(node, `"status":{`, `"status":{"conditions":[{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"`+status+`","lastHeartbeatTime":"2026-11-20T10:00:00Z"}],`, 1)
	}
	cordoned := strings.Replace(aNode("c", l4, "", "nvidia.com/gpu=2"), `"status":{`, `"spec":{"unschedulable":true},"status":{`, 1)
	prices, err := discover.ParsePrices([]byte("L4: 1 USD\nGeForce RTX 4080: 0.5 USD\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, items, pools, code, message string }{
		{"not ready", ready(aNode("a", l4, "", "nvidia.com/gpu=1"), "True") + "," + ready(aNode("b", l4, "", "nvidia.com/gpu=2"), "Unknown"), "l4 1", "nodes-not-ready", "is not ready: its 2 GPUs of L4 are counted apart, in no pool: 1460.00 USD a month"},
		{"cordoned", aNode("a", l4, "", "nvidia.com/gpu=1") + "," + cordoned, "l4 1", "nodes-cordoned", "1460.00 USD"},
		{"cordoned, with a pod", aNode("a", l4, "", "nvidia.com/gpu=1") + "," + cordoned + "," + aPod("p", "c", "x=1"), "l4 1, l4-cordoned 2", "nodes-cordoned", "is cordoned: its 2 GPUs of L4 are counted apart, in pool l4-cordoned: 1460.00 USD a month"},
		{"held by nobody", aNode("a", l4, "", "nvidia.com/gpu=4") + "," + aPod("p", "a", "x=1"), "l4 4", "gpus-not-held", "at least 3 of 4 GPUs are held by no pod: a (3): 2190.00 USD a month"},
		{"AMD", aNode("a", l4, "", "nvidia.com/gpu=1") + "," + aNode("n", "", "", "amd.com/gpu=8"), "l4 1", "other-vendor", "offers 8 of amd.com/gpu, of another vendor"},
		{"Intel", aNode("n", "", "", "gpu.intel.com/i915=1"), "", "other-vendor", "offers 1 of gpu.intel.com/i915"},
		{"Azure", aNode("a", "node.kubernetes.io/instance-type=Standard_ND96isr_H200_v5 kubernetes.azure.com/agentpool=big kubernetes.azure.com/accelerator=nvidia", "", "nvidia.com/gpu=8"), "big 8", "", ""},
		{"Azure's Karpenter", aNode("a", "karpenter.azure.com/sku-gpu-name=A100 node.kubernetes.io/instance-type=Standard_NC24ads_A100_v4", "", "nvidia.com/gpu=1"), "a100-80gb-pcie 1", "", ""},
		{"AWS's Karpenter", aNode("a", "karpenter.k8s.aws/instance-gpu-name=a100 karpenter.k8s.aws/instance-gpu-memory=40960 node.kubernetes.io/instance-type=p4d.24xlarge", "", "nvidia.com/gpu=8"), "a100-sxm4-40gb 8", "", ""},
		{"GKE", aNode("a", "cloud.google.com/gke-accelerator=nvidia-tesla-p4 cloud.google.com/gke-nodepool=small", "", "nvidia.com/gpu=1"), "small 1", "gpu-not-in-table", "Tesla P4"},
		{"outside the table", aNode("a", "nvidia.com/gpu.product=NVIDIA-GeForce-RTX-4080 nvidia.com/gpu.memory=16376 nvidia.com/gpu.compute.major=8 nvidia.com/gpu.compute.minor=9 nvidia.com/gpu.family=ada-lovelace", "", "nvidia.com/gpu=2") + "," + aPod("p", "a", "x=1"), "geforce-rtx-4080 2", "gpus-not-held", "1 of 2 GPUs are held by no pod: a (1): 365.00 USD a month"},
	} {
		d, err := read(t, discover.Options{Prices: prices}, c.name, list(c.items))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var pools []string
		for _, p := range d.Fleet.Pools {
			pools = append(pools, fmt.Sprint(p.Name, " ", p.Count))
		}
		if got := strings.Join(pools, ", "); got != c.pools {
			t.Errorf("%s: pools %q, want %q", c.name, got, c.pools)
		}
		if f := found(d, c.code); c.code != "" && (f == nil || !strings.Contains(f.Message, c.message)) {
			t.Errorf("%s: %+v", c.name, d.Findings)
		}
		for path := range d.Provenance {
			if strings.HasPrefix(path, ".") {
				t.Errorf("%s: provenance of %q", c.name, path)
			}
		}
	}
}

// TestDescribedHints: -hints takes a GPU outside the table, and its fleet can be decided.
func TestDescribedHints(t *testing.T) {
	hints, err := discover.ParseHints([]byte("nodes: {a: {gpu: 'Orin (61.4GiB, 8.7)'}}"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := read(t, discover.Options{Hints: hints}, "orin", list(aNode("a", "", "", "nvidia.com/gpu=1")))
	if err != nil || len(d.Fleet.Pools) != 1 || d.Fleet.Pools[0].GPU != "Orin (61.4GiB, 8.7)" || d.Fleet.Pools[0].Name != "orin" {
		t.Errorf("%+v, %v", d.Fleet.Pools, err)
	}
	if _, err := decision.Decide(t.Context(), &d.Fleet, decision.Options{}); err != nil && strings.Contains(err.Error(), "unknown GPU") {
		t.Error(err)
	}
}

// TestWrappedPages: pages of model servers behind wrappers are read, and the error about a page without a known family
// names the families that are read.
func TestWrappedPages(t *testing.T) {
	for page, want := range map[string]string{
		"# HELP ray_vllm:num_requests_running Running.\n# TYPE ray_vllm:num_requests_running gauge\nray_vllm:num_requests_running{model_name=\"m\"} 3\n": "",
		"# TYPE ray_vllm_num_requests_running gauge\nray_vllm_num_requests_running{model_name=\"m\"} 3\n":                                                "",
		"# TYPE ray_vllm_runs gauge\nray_vllm_runs 3\n":           "looked for vllm:num_requests_running",
		"# TYPE tgi_request_count counter\ntgi_request_count 3\n": "looked for DCGM_FI_DEV_FB_USED, vllm:num_requests_running",
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"ray_vllm_num_requests_running"},"values":[[1795000000,"3"]]}]}}`: "",
	} {
		_, err := read(t, discover.Options{}, "chat-0.txt", page)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", page, err)
		}
	}
}
