// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/review"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

const samples = `# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",Hostname="mixed-1",GPU_I_PROFILE="3g.40gb",GPU_I_ID="1",namespace="llm",pod="mid-6f7d8c9b5-00000",container="main"} 8000
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",Hostname="mixed-1",GPU_I_PROFILE="3g.40gb",GPU_I_ID="2",namespace="llm",pod="mid-6f7d8c9b5-00001",container="main"} 8192
DCGM_FI_DEV_FB_USED{gpu="6",UUID="GPU-g",Hostname="mixed-1",namespace="train",pod="fit-0",container="main"} 61440
DCGM_FI_DEV_FB_USED{gpu="7",UUID="GPU-h",Hostname="mixed-1",namespace="train",pod="fit-0",container="main"} 62464
DCGM_FI_DEV_FB_USED{gpu="3",UUID="GPU-z",Hostname="elsewhere",namespace="x",pod="y-0",container="main"} 10
# TYPE DCGM_FI_PROF_SM_ACTIVE gauge
DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-a",Hostname="mixed-1",GPU_I_PROFILE="3g.40gb",GPU_I_ID="3",namespace="llm",pod="mid-6f7d8c9b5-gone1",container="main"} 0.14
DCGM_FI_PROF_SM_ACTIVE{gpu="6",UUID="GPU-g",Hostname="mixed-1",namespace="train",pod="fit-0",container="main"} 0.9
DCGM_FI_PROF_SM_ACTIVE{gpu="7",UUID="GPU-h",Hostname="mixed-1",namespace="train",pod="fit-0",container="main"} 0.7
`

// measured reads a cluster of testdata and samples.
func measured(t *testing.T, cluster, samples string) *discover.Discovery {
	t.Helper()
	return joined(t, discover.Options{}, "objects.json", file(t, "clusters/"+cluster+".json"), "samples", samples)
}

// TestMeasured: samples replace declared figures, by pod, by the owner of pods that have gone, and as parts of a GPU
// where they are of MIG instances.
func TestMeasured(t *testing.T) {
	d := measured(t, "mig-mixed", samples)
	mid, fit := &d.Fleet.Workloads[0], &d.Fleet.Workloads[2]
	if mid.Memory.Or(0) != 8*sharing.GiB || mid.GPUBusy.Or(0) != 0.06 || mid.Evidence != "measured" {
		t.Errorf("%s: %v %v", mid.Name, mid.Memory, mid.GPUBusy) // 14% of three sevenths
	}
	if fit.Memory.Or(0) != 61*sharing.GiB || fit.GPUBusy.Or(0) != 0.8 || fit.PeakBusy.Or(0) != 0.9 || fit.Pool != "" {
		t.Errorf("%s: %v %v %v %q", fit.Name, fit.Memory, fit.GPUBusy, fit.PeakBusy, fit.Pool)
	}
	if p := d.Provenance["workloads[2].gpu_busy"]; p.Basis != "measured" || !strings.Contains(p.Source, "dcgm-exporter, 2 samples, SM activity") {
		t.Error(p)
	}
	if small := d.Fleet.Workloads[1]; !small.GPUBusy.IsZero() || d.Provenance["workloads[1].memory"].Basis != "derived" {
		t.Errorf("%s was not measured: %v", small.Name, small.GPUBusy)
	}
	for _, code := range []string{"requested-against-used", "gpu-in-no-node", "pods-gone"} {
		if found(d, code) == nil {
			t.Errorf("no finding %s", code)
		}
	}
	checkProvenance(t, "samples", d)
}

// TestSharedSeries: figures that dcgm-exporter repeats for every pod on a shared GPU are the GPU's, and no pod's.
func TestSharedSeries(t *testing.T) {
	const line = `DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",Hostname="t4-1",namespace="data",pod="jupyter-NAME",container="main"} 9000` + "\n" +
		`DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-a",Hostname="t4-1",namespace="data",pod="jupyter-NAME",container="main"} 0.5` + "\n"
	d := measured(t, "time-slicing", "# TYPE DCGM_FI_DEV_FB_USED gauge\n"+strings.ReplaceAll(line, "NAME", "ada")+strings.ReplaceAll(line, "NAME", "bob"))
	for _, w := range d.Fleet.Workloads[:2] {
		if !w.Memory.IsZero() || !w.GPUBusy.IsZero() {
			t.Errorf("%s: %v %v", w.Name, w.Memory, w.GPUBusy)
		}
	}
	for _, u := range d.Unknown {
		if u.Path == "workloads[0].memory" && !strings.Contains(u.Why, "others use too") {
			t.Error(u.Why)
		}
	}
}

// TestOwnProcesses: figures that dcgm-exporter reads of each pod's processes are the pod's, in pages as it serves them;
// those of an exporter that sees no processes are not used.
func TestOwnProcesses(t *testing.T) {
	page := func(name string) string {
		return file(t, "../internal/usage/testdata/dcgm-exporter-4.5.3-4.8.2/"+name)
	}
	d := measured(t, "time-slicing", page("virtual-gpus.prom"))
	ada, bob := &d.Fleet.Workloads[0], &d.Fleet.Workloads[1]
	if ada.Name != "data/jupyter-ada" || ada.Memory.Or(0) != 9000*sharing.MiB || ada.GPUBusy.Or(0) != 0.55 || bob.GPUBusy.Or(0) != 0.07 || ada.Evidence != "nvml-utilization" {
		t.Errorf("%+v\n%+v", ada, bob)
	}
	if p := d.Provenance["workloads[0].gpu_busy"]; !strings.Contains(p.Source, "of its own processes") {
		t.Error(p)
	}
	d = joined(t, discover.Options{}, "objects.json", file(t, "clusters/time-slicing.json"), "page.prom", page("virtual-gpus-no-hostpid.prom"))
	if w := d.Fleet.Workloads[0]; !w.Memory.IsZero() || !w.GPUBusy.IsZero() || found(d, "exporter-sees-no-processes") == nil {
		t.Errorf("%v %v %+v", w.Memory, w.GPUBusy, d.Findings)
	}
}

// TestBadSamples: impossible samples are refused and counted, and the rest is used.
func TestBadSamples(t *testing.T) {
	d := measured(t, "mig-mixed", strings.Replace(samples, `container="main"} 8192`, `container="main"} -5`, 1))
	if f := found(d, "samples-refused"); f == nil || f.Source != "samples" || !strings.Contains(f.Message, "1 of 8 samples") {
		t.Errorf("%+v", f)
	}
	if got := d.Fleet.Workloads[0].Memory.Or(0); got != 8000*sharing.MiB {
		t.Error(got)
	}
}

// TestMachines: nvidia-smi's outputs make a fleet by themselves, and are joined to the node that their file is named after.
func TestMachines(t *testing.T) {
	d := joined(t, discover.Options{}, "dumps/box.xml", smiXML("81920 MiB", "GPU-1", "GPU-2"))
	if len(d.Fleet.Pools) != 1 || d.Fleet.Pools[0].Count != 2 || d.Fleet.Pools[0].Driver.String() != "550.54.15" || d.Provenance["pools[0].count"].Basis != "measured" {
		t.Errorf("%+v", d.Fleet.Pools)
	}
	d = joined(t, discover.Options{}, "dumps/box.xml", smiXML("81920 MiB", "GPU-1", "GPU-2"), "bare.json", file(t, "clusters/bare.json"),
		"bare-2.xml", smiXML("81920 MiB", "GPU-b1", "GPU-b2"))
	if gpus(d) != 12 || found(d, "machine-in-no-node") == nil {
		t.Errorf("%d GPUs: %+v", gpus(d), d.Findings)
	}
	for _, u := range d.Unknown {
		if strings.HasPrefix(u.Path, "nodes.") {
			t.Error(u)
		}
	}
}

// TestMachineSharedInTwoWays: a machine of which one GPU is under MPS says so of the other.
func TestMachineSharedInTwoWays(t *testing.T) {
	two := func(pid uint32) []telemetry.Process {
		return []telemetry.Process{{PID: pid, Name: "python3"}, {PID: pid + 1, Name: "python3"}}
	}
	gpu := func(i int, mps sharing.Answer) telemetry.GPU {
		return telemetry.GPU{UUID: fmt.Sprintf("GPU-%d", i), Name: "NVIDIA H100 80GB HBM3", MPS: mps, ProcessesListed: sharing.AnswerYes, Processes: two(uint32(10 * i))}
	}
	for _, c := range []struct {
		mps   []sharing.Answer
		shown string
		found string
	}{
		{[]sharing.Answer{sharing.AnswerYes, sharing.AnswerNo}, "mps", "GPU 0 by MPS, GPU 1 by time-slicing: all are shown as shared by mps"},
		{[]sharing.Answer{sharing.AnswerNo, sharing.AnswerYes, sharing.AnswerNo}, "time-slicing", "GPU 1 by MPS, GPU 0, 2 by time-slicing: all are shown as shared by time-slicing"},
		{[]sharing.Answer{sharing.AnswerYes, sharing.AnswerYes}, "mps", ""},
	} {
		var inv telemetry.Inventory
		for i, a := range c.mps {
			inv.GPUs = append(inv.GPUs, gpu(i, a))
		}
		col := discover.New(discover.Options{})
		col.AddInventory("box", inv)
		d := col.Discover()
		f := found(d, "sharing-differs")
		if (f != nil) != (c.found != "") || f != nil && f.Message != c.found || d.Today[0].Mechanism.String() != c.shown {
			t.Errorf("%v: %+v, %v", c.mps, f, d.Today[0].Mechanism)
		}
	}
}

// ttftPage is the page of a model server of which half of the requests waited at most 0.1 s and all at most 0.25 s.
const ttftPage = `# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{model_name="m",le="0.1"} 50
vllm:time_to_first_token_seconds_bucket{model_name="m",le="0.25"} 100
vllm:time_to_first_token_seconds_bucket{model_name="m",le="+Inf"} 100
vllm:time_to_first_token_seconds_sum{model_name="m"} 9
vllm:time_to_first_token_seconds_count{model_name="m"} 100
`

// TestServing: a model server's page gives isolated latencies where its pod has a
// whole GPU to itself, and none where it shares.
func TestServing(t *testing.T) {
	const objects = `{"kind":"List","items":[
	 {"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"nvidia.com/gpu.product":"NVIDIA-L4","nvidia.com/gpu.count":"2"}},"status":{"capacity":{"nvidia.com/gpu":"2"}}},
	 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"chat-0","namespace":"t"},"spec":{"nodeName":"n","containers":[{"image":"vllm/vllm-openai","resources":{"limits":{"nvidia.com/gpu":"1"}}}]},"status":{"phase":"Running"}}]}`
	d := joined(t, discover.Options{}, "objects.json", objects, "dumps/chat-0.txt", ttftPage)
	if got := d.Fleet.Workloads[0].Solo.TTFTP99.String(); got != "250ms" {
		t.Error(got)
	}
	if p := d.Provenance["workloads[0].solo"]; p.Basis != "measured" || !strings.Contains(p.Source, "0.1 to 0.25 s") {
		t.Error(p)
	}
	readBack(t, d)
	shared := measured(t, "mps", ttftPage)
	if !shared.Fleet.Workloads[1].Solo.TTFTP99.IsZero() || found(shared, "latencies-not-isolated") == nil {
		t.Errorf("%+v", shared.Findings)
	}
}

// TestServiceTimes: a page of Triton's fills in the service times of a server on a GPU of its own.
func TestServiceTimes(t *testing.T) {
	const objects = `{"kind":"List","items":[
	 {"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"nvidia.com/gpu.product":"NVIDIA-L4","nvidia.com/gpu.count":"2"}},"status":{"capacity":{"nvidia.com/gpu":"2"}}},
	 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"yolo-0","namespace":"t"},"spec":{"nodeName":"n","containers":[{"image":"nvcr.io/nvidia/tritonserver","resources":{"limits":{"nvidia.com/gpu":"1"}}}]},"status":{"phase":"Running"}}]}`
	d := joined(t, discover.Options{}, "objects.json", objects, "yolo-0.txt", `# TYPE nv_inference_request_success counter
nv_inference_request_success{model="yolo",version="1"} 1000
# TYPE nv_inference_exec_count counter
nv_inference_exec_count{model="yolo",version="1"} 250
# TYPE nv_inference_request_duration_us counter
nv_inference_request_duration_us{model="yolo",version="1"} 3e+07
# TYPE nv_inference_compute_infer_duration_us counter
nv_inference_compute_infer_duration_us{model="yolo",version="1"} 2e+07
`)
	s := d.Fleet.Workloads[0].Service
	if s == nil || s.GPUTime.String() != "5ms" || s.HostTime.String() != "10ms" || d.Provenance["workloads[0].service"].Basis != "measured" {
		t.Fatalf("%+v %+v", s, d.Findings)
	}
	readBack(t, d)
}

// TestServingProfiles: several pages of a server isolated on its GPU, with their times, make a profile that its
// decision rests on; those of two models do not.
func TestServingProfiles(t *testing.T) {
	var pages strings.Builder
	for i := range 9 {
		n, at := 0, 1700000000000+int64(i)*60000
		for k := range i { // requests in each minute
			n += 30 + 40*k
		}
		one := func(name, kind string, v float64) {
			fmt.Fprintf(&pages, "# TYPE vllm:%s %s\nvllm:%s{model_name=\"m\"} %v %d\n", name, kind, name, v, at)
		}
		one("num_requests_running", "gauge", float64(i))
		one("prompt_tokens_total", "counter", float64(300*n))
		one("generation_tokens_total", "counter", float64(100*n))
		one("request_success_total", "counter", float64(n))
		for _, h := range []struct {
			name       string
			each, mean float64
		}{{"time_to_first_token_seconds", 1, 0.06}, {"inter_token_latency_seconds", 99, 0.012}, {"e2e_request_latency_seconds", 1, 1.25}} {
			c := float64(n) * h.each
			fmt.Fprintf(&pages, "# TYPE vllm:%[1]s histogram\nvllm:%[1]s_bucket{model_name=\"m\",le=\"%[2]v\"} %[3]v %[5]d\nvllm:%[1]s_bucket{model_name=\"m\",le=\"+Inf\"} %[3]v %[5]d\nvllm:%[1]s_sum{model_name=\"m\"} %[4]v %[5]d\nvllm:%[1]s_count{model_name=\"m\"} %[3]v %[5]d\n",
				h.name, 2*h.mean, c, c*h.mean, at)
		}
	}
	const objects = `{"kind":"List","items":[
	 {"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"nvidia.com/gpu.product":"NVIDIA-H100-80GB-HBM3","nvidia.com/gpu.count":"2"}},"status":{"capacity":{"nvidia.com/gpu":"2"}}},
	 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"chat-0","namespace":"t"},"spec":{"nodeName":"n","containers":[{"image":"vllm/vllm-openai","resources":{"limits":{"nvidia.com/gpu":"1"}}}]},"status":{"phase":"Running"}}]}`
	read := func(text string) *discover.Discovery {
		return joined(t, discover.Options{}, "objects.json", objects, "dumps/chat-0.txt", text)
	}
	d := read(pages.String())
	p, ok := d.Profiles[d.Fleet.Workloads[0].Name]
	if !ok || p.Engine != "vllm" || p.GPU == "" || p.Load.Prompt != 300 || p.Load.Output != 100 || p.Fit == nil || p.Fit.StepAt.Value < 8 || p.Fit.StepAt.Value > 12.5 {
		t.Errorf("%+v\n%+v", p, p.Fit)
	}
	d.Fleet.Workloads[0].Memory = sharing.Some(20 * sharing.GiB)
	got, err := review.Make(t.Context(), d, decision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Plan.Fleet.Workloads[0].Profile == nil || d.Fleet.Workloads[0].Profile != nil {
		t.Errorf("the plan rests on no profile: %+v", got.Plan.Fleet.Workloads[0])
	}
	two := strings.Replace(pages.String(), `vllm:prompt_tokens_total{model_name="m"} 0`, "vllm:prompt_tokens_total{model_name=\"other\"} 5\nvllm:prompt_tokens_total{model_name=\"m\"} 0", 1)
	if d := read(two); len(d.Profiles) != 0 || found(d, "metrics-without-profile") == nil {
		t.Errorf("two models behind one page: %+v", d.Findings)
	}
}

// TestIdleGPUs: a GPU that nothing used for hours is named, and one with work is not.
func TestIdleGPUs(t *testing.T) {
	var b strings.Builder
	for metric, of := range map[string]string{"DCGM_FI_DEV_FB_USED": `"UUID":"GPU-1","gpu":"0","namespace":"t","pod":"x"`, "DCGM_FI_PROF_SM_ACTIVE": `"UUID":"GPU-2","gpu":"1"`} {
		fmt.Fprintf(&b, `,{"metric":{"__name__":%q,"Hostname":"n",%s},"values":[`, metric, of)
		for i := range 8 * 60 {
			fmt.Fprintf(&b, `,[%d,"0"]`, 1763769600+60*i)
		}
		b.WriteString("]}")
	}
	answer := strings.ReplaceAll(strings.TrimPrefix(b.String(), ","), "[,", "[")
	d := joined(t, discover.Options{}, "answer", `{"status":"success","data":{"resultType":"matrix","result":[`+answer+`]}}`,
		"objects", list(aNode("n", l4+"nvidia.com/gpu.count=2", "", "nvidia.com/gpu=2"), aPod("x", "n", "x=1")))
	if f := found(d, "idle-gpus"); f == nil || f.Message != "1 idle GPU of 2: nothing ran and nothing was held in 8 h" {
		t.Errorf("%+v", d.Findings)
	}
}

// TestBetaSlices: the older forms of resource.k8s.io say the same.
func TestBetaSlices(t *testing.T) {
	data := file(t, "clusters/dra-mig.json")
	var list struct {
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal([]byte(data), &list); err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		switch o["kind"] {
		case "ResourceSlice":
			o["apiVersion"] = "resource.k8s.io/v1beta1"
			for _, v := range o["spec"].(map[string]any)["devices"].([]any) {
				d := v.(map[string]any)
				d["basic"] = map[string]any{"attributes": d["attributes"], "capacity": d["capacity"]}
				delete(d, "attributes")
				delete(d, "capacity")
			}
		case "ResourceClaim", "DeviceClass":
			o["apiVersion"] = "resource.k8s.io/v1beta2"
		}
	}
	beta, err := json.Marshal(map[string]any{"kind": "List", "items": list.Items})
	if err != nil {
		t.Fatal(err)
	}
	old, now := joined(t, discover.Options{}, "objects", string(beta)), joined(t, discover.Options{}, "objects", data)
	if diff := cmp.Diff(now.Fleet, old.Fleet, nodesAlike) + cmp.Diff(now.Today, old.Today); diff != "" {
		t.Error(diff)
	}
}

// TestPodUIDs: a pod of another UID is another pod, whatever its name: a lone
// pod's forerunner is not measured for it, and of an owner's pods all are.
func TestPodUIDs(t *testing.T) {
	page := func(gpu, pod, uid string, mib int) string {
		return fmt.Sprintf("DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-%s\",Hostname=\"n\",namespace=\"t\",pod=%q,pod_uid=%q,container=\"main\"} %d\n", gpu, pod, uid, mib)
	}
	owned := strings.Replace(aPod("web-0", "n", "x=1"), `"uid":"uid-web-0"`, `"uid":"uid-web-0","ownerReferences":[{"kind":"StatefulSet","name":"web","controller":true}]`, 1)
	d := joined(t, discover.Options{},
		"objects", list(aNode("n", l4, "", "nvidia.com/gpu=2"), aPod("lab", "n", "x=1"), owned),
		"former", "# TYPE DCGM_FI_DEV_FB_USED gauge\n"+page("a", "lab", "uid-former", 20000)+page("b", "web-0", "uid-former", 15000),
		"now", "# TYPE DCGM_FI_DEV_FB_USED gauge\n"+page("a", "lab", "uid-lab", 3000)+page("b", "web-0", "uid-web-0", 4000))
	for i, want := range []sharing.Bytes{3000, 15000} {
		if w := d.Fleet.Workloads[i]; w.Memory.Or(0) != want*sharing.MiB {
			t.Errorf("%s: %v, want %v", w.Name, w.Memory, want*sharing.MiB)
		}
	}
	if f := found(d, "pods-gone"); f == nil || !strings.Contains(f.Object, "t/lab (UID uid-former)") {
		t.Errorf("%+v", f)
	}
	if len(d.Used) != 2 {
		t.Errorf("%+v", d.Used)
	}
}

// TestSameNameElsewhere: pods of one name in two namespaces that share a GPU are
// two tenants, and the GPU's series neither's.
func TestSameNameElsewhere(t *testing.T) {
	const line = `DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",Hostname="n",namespace="NAME",pod="web-0",container="main"} 9000` + "\n"
	c := discover.New(discover.Options{})
	pod := aPod("web-0", "n", "x=1")
	for _, in := range []string{
		`{"kind":"List","items":[` + aNode("n", l4+"nvidia.com/gpu.replicas=2 nvidia.com/gpu.sharing-strategy=time-slicing", "", "nvidia.com/gpu=2") + "," + pod + "," + strings.NewReplacer(`"namespace":"t"`, `"namespace":"u"`, "uid-web", "uid-u-web").Replace(pod) + `]}`,
		"# TYPE DCGM_FI_DEV_FB_USED gauge\n" + strings.ReplaceAll(line, "NAME", "t") + strings.ReplaceAll(line, "NAME", "u"),
	} {
		if err := c.Read("input", strings.NewReader(in)); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range c.Discover().Fleet.Workloads {
		if !w.Memory.IsZero() {
			t.Errorf("%s: %v", w.Name, w.Memory)
		}
	}
}

// TestServingIsolated: a server on a GPU that may be shared is isolated where nobody else runs on its node. Its replicas on
// other nodes are no neighbours.
func TestServingIsolated(t *testing.T) {
	replica := func(name, node string) string {
		return `,{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","namespace":"t","uid":"uid-` + name + `","ownerReferences":[{"kind":"StatefulSet","name":"chat","controller":true}]},"spec":{"nodeName":"` + node + `","containers":[{"image":"vllm/vllm-openai","resources":{"limits":{"nvidia.com/gpu":"1"}}}]},"status":{"phase":"Running"}}`
	}
	const shared = l4 + "nvidia.com/gpu.count=1 nvidia.com/gpu.replicas=4 nvidia.com/gpu.sharing-strategy=time-slicing"
	replicas := aNode("n", shared, "", "nvidia.com/gpu=4") + "," + aNode("m", shared, "", "nvidia.com/gpu=4") +
		replica("chat-0", "n") + replica("chat-1", "m")
	for _, c := range []struct {
		more, file string
		isolated   bool
	}{
		{"", "chat-0.txt", true},
		{"", "t.chat.txt", true},
		{"," + aPod("other", "m", "nvidia.com/gpu=1"), "chat-0.txt", true},
		{"," + aPod("other", "m", "nvidia.com/gpu=1"), "chat-1.txt", false},
		{"," + aPod("other", "m", "nvidia.com/gpu=1"), "t.chat.txt", false},
		{replica("chat-2", "n"), "chat-0.txt", false},
	} {
		d := joined(t, discover.Options{}, "o.json", list(replicas+c.more), c.file, ttftPage)
		w := d.Fleet.Workloads[slices.IndexFunc(d.Fleet.Workloads, func(w decision.Workload) bool { return w.Name == "t/chat" })]
		if w.Solo.TTFTP99.IsZero() == c.isolated || (found(d, "latencies-not-isolated") == nil) != c.isolated {
			t.Errorf("%s %s: %v %+v", c.more, c.file, w.Solo, d.Findings)
		}
	}
}
