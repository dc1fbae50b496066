// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/sharing"
)

func read(t *testing.T, opts discover.Options, name, text string) (*discover.Discovery, error) {
	t.Helper()
	c := discover.New(opts)
	err := c.Read(name, strings.NewReader(text))
	return c.Discover(), err
}

// joined reads files, each a name and its text, which must be readable.
func joined(t *testing.T, opts discover.Options, files ...string) *discover.Discovery {
	t.Helper()
	c := discover.New(opts)
	for i := 0; i < len(files); i += 2 {
		if err := c.Read(files[i], strings.NewReader(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	return c.Discover()
}

// file is a file of testdata, such as clusters/bare.json.
func file(t *testing.T, name string) string {
	t.Helper()
	data := must.Get(os.ReadFile("testdata/" + name))(t)
	return string(data)
}

// priced are options with prices.
func priced(t *testing.T, text string) discover.Options {
	t.Helper()
	prices := must.Get(discover.ParsePrices([]byte(text)))(t)
	return discover.Options{Prices: prices}
}

// gpus counts the GPUs of a discovery's pools.
func gpus(d *discover.Discovery) (n int) {
	for i := range d.Fleet.Pools {
		n += d.Fleet.Pools[i].Count
	}
	return n
}

func found(d *discover.Discovery, code string) *discover.Finding {
	for i := range d.Findings {
		if d.Findings[i].Code == code {
			return &d.Findings[i]
		}
	}
	return nil
}

// TestSecretsStayOut: neither Secrets nor environment values, tokens in arguments or copies of them in annotations reach
// any output.
func TestSecretsStayOut(t *testing.T) {
	const secret = "hunter2-secret"
	input := strings.ReplaceAll(`{"kind":"List","items":[
	 {"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"k":"SECRET"},"stringData":{"k":"SECRET"}},
	 {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"SECRET","sharing.yaml":"version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}} # SECRET"}},
	 {"apiVersion":"v1","kind":"Node","metadata":{"name":"n","annotations":{"x":"SECRET"},"labels":{"nvidia.com/gpu.product":"NVIDIA-L4","nvidia.com/gpu.count":"1"}},"status":{"allocatable":{"nvidia.com/gpu":"1"}}},
	 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"t","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"SECRET"}},
	  "spec":{"nodeName":"n","containers":[{"image":"i","args":["--api-key","SECRET","--gpu-memory-utilization","SECRET"],"env":[{"name":"A","value":"SECRET"}],
	   "resources":{"limits":{"nvidia.com/gpu":1}}}]},"status":{"phase":"Running"}}]}`, "SECRET", secret)
	d, err := read(t, discover.Options{}, "all.json", input)
	var out bytes.Buffer
	for _, write := range []func() error{
		func() error { return d.WriteFleet(&out) }, func() error { return json.NewEncoder(&out).Encode(d) }, func() error { return d.WriteText(&out) },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil || len(d.Fleet.Workloads) != 1 || !strings.Contains(out.String(), "t/p") {
		t.Fatalf("%v\n%s", err, &out)
	}
	if strings.Contains(out.String(), secret) || strings.Contains(out.String(), "hunter2") {
		t.Errorf("a secret got out:\n%s", &out)
	}
}

// TestFleetIsRead: the fleet file is one that quickstart reads, the same bytes
// for the same input, and equal to the fleet that the program has.
func TestFleetIsRead(t *testing.T) {
	for _, file := range clusterFiles(t) {
		data := must.Get(os.ReadFile(file))(t)
		opts := priced(t, "A100-SXM4-80GB: 3.25 USD\nA100-SXM4-40GB: 2 USD\nH100 80GB HBM3: 4 USD\nTesla T4: 0.35 USD\nL4: 0.8 USD")
		d := joined(t, opts, file, string(data))
		var first, second, text bytes.Buffer
		if err := d.WriteFleet(&first); err != nil {
			t.Fatal(err)
		}
		if err := joined(t, opts, file, string(data)).WriteFleet(&second); err != nil || first.String() != second.String() {
			t.Errorf("%s: another fleet from the same input", file)
		}
		fleet, err := decision.ParseFleet(first.Bytes())
		if err != nil {
			t.Errorf("%s: %v\n%s", file, err, &first)
			continue
		}
		if diff := cmp.Diff(d.Fleet, *fleet, nodesAlike); diff != "" {
			t.Errorf("%s: read back (-discovered +read):\n%s", file, diff)
		}
		result, err := decision.Decide(t.Context(), fleet, decision.Options{})
		if err != nil || len(result.Decisions) != len(d.Fleet.Workloads) {
			t.Errorf("%s: %v", file, err)
		}
		if err := d.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text.String()) {
			if len([]rune(line)) > 101 && strings.HasPrefix(line, "# ") && strings.Count(line, " ") > 3 {
				t.Errorf("%s: %d columns: %s", file, len(line), line)
			}
		}
		checkProvenance(t, file, d)
	}
}

// checkProvenance: every field of the fleet says where it comes from.
func checkProvenance(t *testing.T, file string, d *discover.Discovery) {
	t.Helper()
	data := must.Get(json.Marshal(d))(t)
	var doc struct {
		Fleet      map[string]json.RawMessage
		Provenance map[string]discover.Provenance
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"pools", "workloads"} {
		var entries []map[string]json.RawMessage
		if err := json.Unmarshal(doc.Fleet[list], &entries); err != nil {
			t.Fatal(err)
		}
		for i, e := range entries {
			for key := range e {
				path := list + "[" + string(rune('0'+i%10)) + "]." + key
				if i < 10 && doc.Provenance[path].Source == "" {
					t.Errorf("%s: %s does not say where it comes from", file, path)
				}
			}
		}
	}
}

func clusterFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/clusters/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no clusters", err)
	}
	return files
}

func TestUnreadable(t *testing.T) {
	const node = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":{"nvidia.com/gpu.product":"NVIDIA-L4"}},"status":{"allocatable":{"nvidia.com/gpu":"1"}}}`
	for _, c := range []struct {
		name, text, want string
		gpus             int
	}{
		{"empty", "", "it is empty", 0},
		{"truncated", `{"kind":"List","items":[` + node + `,{"apiVersion":"v1","ki`, "cut off after 1 object", 1},
		{"yaml", "apiVersion: v1\nkind: Node\n", "-o json", 0},
		{"other", "hello there", "of no kind that is read", 0},
		{"no kind", `{"a":1}`, "without kind", 0},
		{"unknown version", `{"kind":"List","items":[` + node + `,{"apiVersion":"v7","kind":"Node","metadata":{"name":"m"}}]}`, `version "v7" is not known`, 1},
		{"wrong type", `{"kind":"List","items":[` + node + `,{"apiVersion":"v1","kind":"Pod","metadata":{"name":7}}]}`, "metadata.name is a number", 1},
		{"array of objects", "[" + node + "]", "(jq -c '.[]')", 0},
		{"table of nvidia-smi", "+---+\n| NVIDIA-SMI 580.95.05 Driver |\n", "give `nvidia-smi -q -x` of the machine", 0},
		{"nvidia-smi -L", "GPU 0: NVIDIA H200 (UUID: GPU-6)\n", "it is nvidia-smi -L, which has no memory", 0},
		{"cut off", "$ nvidia-smi -q -x\n<nvidia_smi_log><driver_version>580.95.05</driver_version><gpu id=\"0\"><product_name>" +
			"NVIDIA L4</product_name><uuid>GPU-1</uuid></gpu><gpu id=\"1\"><prod", "gpu[1]", 1},
		{"two documents", node + "\n" + strings.ReplaceAll(node, `"n"`, `"m"`), "", 2},
	} {
		d, err := read(t, discover.Options{}, "file.json", c.text)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := gpus(d); got != c.gpus {
			t.Errorf("%s: %d GPUs, want %d", c.name, got, c.gpus)
		}
	}
}

// smiXML returns the output of nvidia-smi -q -x for A100s with a memory.
func smiXML(memory string, uuids ...string) string {
	text := "<nvidia_smi_log><driver_version>550.54.15</driver_version>"
	for _, u := range uuids {
		text += "<gpu><product_name>NVIDIA A100-SXM4-80GB</product_name><uuid>" + u + "</uuid><fb_memory_usage><total>" + memory + "</total></fb_memory_usage></gpu>"
	}
	return text + "</nvidia_smi_log>"
}

// TestSeenInPart: a GPU as a container with a MIG device sees it is not free.
func TestSeenInPart(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		taken bool
	}{
		"memory is refused": {smiXML("[Insufficient Permissions]", "GPU-1"), true},
		"nothing is":        {smiXML("81920 MiB", "GPU-1"), false},
	} {
		d, err := read(t, discover.Options{}, "box.xml", c.text)
		if err != nil || len(d.Fleet.Pools) != 1 {
			t.Fatalf("%s: %v %+v", name, err, d.Fleet)
		}
		found := slices.ContainsFunc(d.Findings, func(f discover.Finding) bool { return f.Code == "gpu-seen-in-part" })
		if n := d.Fleet.Today.Nodes[0]; found != c.taken || (n.Devices[0].Mode == sharing.MechanismMIG) != c.taken {
			t.Errorf("%s: %+v, findings %+v", name, n, d.Findings)
		}
	}
}

// readBack writes a discovery's fleet, and reads it as decide does: nothing is lost.
func readBack(t *testing.T, d *discover.Discovery) *decision.Fleet {
	t.Helper()
	var out bytes.Buffer
	err := d.WriteFleet(&out)
	fleet := must.Get(decision.ParseFleet(out.Bytes()))(t)
	if diff := cmp.Diff(d.Fleet, *fleet, nodesAlike); err != nil || diff != "" {
		t.Errorf("%v (-discovered +read):\n%s\n%s", err, diff, &out)
	}
	return fleet
}

// nodesAlike compares nodes by their JSON.
var nodesAlike = cmp.Transformer("written", func(n layout.Node) string {
	data, err := n.MarshalJSON()
	return fmt.Sprint(string(data), err)
})

// TestHints: hints override findings, also in the fleet file.
func TestHints(t *testing.T) {
	h, err := discover.ParseHints([]byte(`
trust: all
nodes: {bare-2: {gpu: L40S}, "gpu-*": {gpu: L4}}
workloads:
  "*/*": {kind: batch, slo: {e2e_p99: 9s}, solo: {e2e_p99: 2s}} # for those that serve
  a/svd: {kind: batch}
  a/svc: {kind: online-inference, model: {parameters: 8e9, weights: fp8, kv_cache: 4GiB}, load: {requests_per_s: 2.5, input_tokens: 300, output_tokens: 200},
    slo: {ttft_p99: 800ms, tpot_p99: 40ms}, solo: {ttft_p99: 120ms}, isolation: {fault: hardware}, tenant: shop, trust: [b], spot: true}
  b/mystery: {memory: 6GiB, gpu_busy: 0.125, peak_busy: 0.5}
`))
	if err != nil {
		t.Fatal(err)
	}
	d := joined(t, discover.Options{Hints: h}, "bare.json", file(t, "clusters/bare.json"))
	unused := slices.DeleteFunc(slices.Clone(d.Findings), func(f discover.Finding) bool { return f.Code != "hint-unused" })
	if len(unused) != 2 || unused[0].Message != "no node has this name" || unused[1].Message != `no workload has this name, did you mean "a/svc"?` {
		t.Errorf("of what is not there: %v", unused)
	}
	fleet := readBack(t, d)
	svc, mystery := &fleet.Workloads[0], &fleet.Workloads[1]
	if len(fleet.Pools) != 2 || svc.Kind != decision.KindOnlineInference || svc.Model == nil || svc.Load == nil || svc.Tenant != "shop" || !svc.Spot || mystery.Kind != decision.KindBatch || mystery.PeakBusy.Or(0) != 0.5 || mystery.SLO != (decision.Workload{}).SLO || mystery.Solo != mystery.SLO || svc.SLO.TPOTP99.IsZero() {
		t.Errorf("%+v", fleet)
	}
	checkProvenance(t, "hints", d)
	for _, bad := range []string{"workloads: {a: {kind: nothing}}", "workloads: {\"[\": {}}", "nodes: {a: {gpu: A100}}", "workloads: {a: {memory: 1GiB, model: {parameters: 1e9, weights: fp16}}}"} {
		if _, err := discover.ParseHints([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// TestPrices: the machine's price before the GPU's, and a name of several GPUs for those without one of their own.
func TestPrices(t *testing.T) {
	opts := priced(t, "A100: 3 USD\nA100-SXM4-80GB: 3.25 USD\np4d.24xlarge: 20 USD\np4de.24xlarge: 40 USD")
	for name, want := range map[string]string{"mig-mixed": "3.25 USD -", "mig-single": "3.00 USD -", "bare": "- 20.00 USD", "hami": "- -"} {
		p := &joined(t, opts, name, file(t, "clusters/"+name+".json")).Fleet.Pools[0]
		if got := p.PricePerGPUHour.String() + " " + p.NodePricePerHour.String(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
