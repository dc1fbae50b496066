package dra_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	resourceapi "k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/apis/resource/install"
	"k8s.io/kubernetes/pkg/apis/resource/validation"
	"sigs.k8s.io/yaml"

	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/examples/kube-scheduler/dra"
	"github.com/cotenant/cotenant/sharing/driverconf"
)

var bestFit = placement.NewScorer(placement.BestFit{}, nil)

// sample is the embedded example of the command.
func sample(t testing.TB) ([]*v1.Node, []*v1.Pod) {
	t.Helper()
	read := func(name string) []byte {
		data, err := os.ReadFile("../cmd/dra/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	nodes, err := dra.DecodeNodes(read("nodes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pods, err := dra.DecodePods(read("pods.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return nodes, pods
}

// TestOutput decodes what is written with the API's own types, unknown fields
// refused, and checks it by the API server's own rules.
func TestOutput(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	nodes, pods := sample(t)
	out, err := dra.Plan(nodes, pods, bestFit, dra.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := out.YAML()
	if err != nil {
		t.Fatal(err)
	}
	classes, claims := map[string]bool{}, map[string]bool{}
	var decoded []*v1.Pod
	for _, doc := range strings.Split(string(text), "---\n")[1:] {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatal(err)
		}
		strict := func(into any) {
			t.Helper()
			if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
				t.Errorf("%s: %v", doc, err)
			}
		}
		requests := func(rs []resourcev1.DeviceRequest) {
			for _, r := range rs {
				if !classes[r.Exactly.DeviceClassName] {
					t.Errorf("class %s is not there", r.Exactly.DeviceClassName)
				}
				if r.Exactly.AdminAccess != nil {
					t.Error("admin access")
				}
			}
		}
		switch head.Kind {
		case "DeviceClass":
			var o resourcev1.DeviceClass
			strict(&o)
			classes[o.Name] = true
			var internal resourceapi.DeviceClass
			convert(t, scheme, &o, &internal)
			if errs := validation.ValidateDeviceClass(&internal); len(errs) > 0 {
				t.Error(errs)
			}
		case "ResourceClaim":
			var o resourcev1.ResourceClaim
			strict(&o)
			claims[o.Namespace+"/"+o.Name] = true
			requests(o.Spec.Devices.Requests)
			for _, c := range o.Spec.Devices.Config {
				if _, _, err := driverconf.Parse(c.Opaque.Parameters.Raw); err != nil {
					t.Errorf("%s: the driver would refuse its parameters: %v", o.Name, err)
				}
			}
			var internal resourceapi.ResourceClaim
			convert(t, scheme, &o, &internal)
			if errs := validation.ValidateResourceClaim(&internal); len(errs) > 0 {
				t.Error(errs)
			}
		case "ResourceClaimTemplate":
			var o resourcev1.ResourceClaimTemplate
			strict(&o)
			claims[o.Namespace+"/"+o.Name] = true
			requests(o.Spec.Spec.Devices.Requests)
			var internal resourceapi.ResourceClaimTemplate
			convert(t, scheme, &o, &internal)
			if errs := validation.ValidateResourceClaimTemplate(&internal); len(errs) > 0 {
				t.Error(errs)
			}
		case "Pod":
			var o v1.Pod
			strict(&o)
			decoded = append(decoded, &o)
		default:
			t.Errorf("a %s", head.Kind)
		}
	}
	if len(decoded) != len(pods)-len(out.Refused) || len(out.Refused) != 1 {
		t.Errorf("%d pods and %v", len(decoded), out.Refused)
	}
	for _, p := range decoded {
		if len(p.Spec.ResourceClaims) == 0 {
			t.Errorf("%s has no claim", p.Name)
		}
		used := map[string]int{}
		for _, c := range p.Spec.Containers {
			for name := range c.Resources.Requests {
				if strings.HasPrefix(string(name), "nvidia.com/") {
					t.Errorf("%s still asks for %s", p.Name, name)
				}
			}
			for _, r := range c.Resources.Claims {
				used[r.Name]++
			}
		}
		for _, c := range p.Spec.ResourceClaims {
			name := c.ResourceClaimName
			if name == nil {
				name = c.ResourceClaimTemplateName
			}
			if !claims[p.Namespace+"/"+*name] {
				t.Errorf("%s uses %s, which is not there", p.Name, *name)
			}
			if used[c.Name] != 1 {
				t.Errorf("%s: %d containers use %s", p.Name, used[c.Name], c.Name)
			}
		}
	}
}

func convert(t *testing.T, scheme *runtime.Scheme, from, to runtime.Object) {
	t.Helper()
	scheme.Default(from)
	if err := scheme.Convert(from, to, nil); err != nil {
		t.Fatal(err)
	}
}

// TestSelectors evaluates the selectors, with the scheduler's own compiler, on
// devices as the NVIDIA driver publishes them.
func TestSelectors(t *testing.T) {
	text := func(s string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &s} }
	device := func(kind, product, profile, memory string) dracel.Device {
		d := dracel.Device{Driver: "gpu.nvidia.com", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": text(kind), "productName": text(product)},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse(memory)}}}
		if profile != "" {
			d.Attributes["profile"] = text(profile)
		}
		return d
	}
	h200 := device("gpu", "NVIDIA H200", "", "143771Mi")
	devices := map[string]dracel.Device{"H200": h200, "A100": device("gpu", "NVIDIA A100-SXM4-80GB", "", "80Gi"), "T4": device("gpu", "Tesla T4", "", "15Gi"),
		"2g": device("mig", "NVIDIA H100 80GB HBM3", "2g.20gb", "20Gi"), "1g": device("mig", "NVIDIA H100 80GB HBM3", "1g.10gb", "10Gi")}
	want := map[string]string{"cotenant-gpu-a100-sxm4-80gb": "A100", "cotenant-gpu-h200": "H200", "cotenant-gpu-tesla-t4": "T4", "cotenant-mig-2g.20gb-h100-80gb-hbm3": "2g"}
	nodes, pods := sample(t)
	out, err := dra.Plan(nodes, pods, bestFit, dra.Options{})
	if err != nil {
		t.Fatal(err)
	}
	matches := func(s resourcev1.DeviceSelector, d dracel.Device) bool {
		t.Helper()
		c := dracel.GetCompiler(dracel.Features{}).CompileCELExpression(s.CEL.Expression, dracel.Options{})
		if c.Error != nil {
			t.Fatalf("%s: %v", s.CEL.Expression, c.Error)
		}
		ok, _, err := c.DeviceMatches(t.Context(), d)
		if err != nil {
			t.Fatalf("%s: %v", s.CEL.Expression, err)
		}
		return ok
	}
	for _, c := range out.Classes {
		for name, d := range devices {
			if got := matches(c.Spec.Selectors[0], d); got != (name == want[c.Name]) {
				t.Errorf("%s takes %s: %v", c.Name, name, got)
			}
		}
		delete(want, c.Name)
	}
	if len(want) > 0 {
		t.Errorf("no class %v", want)
	}
	for _, tmpl := range out.Templates {
		if tmpl.Name == "train-gpu-0" {
			s := tmpl.Spec.Spec.Devices.Requests[0].Exactly.Selectors
			if len(s) != 1 || !matches(s[0], h200) || matches(s[0], devices["A100"]) {
				t.Errorf("%v", s)
			}
		}
	}
}

// slicesOf returns the slices that the driver publishes of the sample's nodes: whole GPUs, and of a
// GPU in MIG mode its instances. Some are of an older generation or of other drivers.
func slicesOf(t *testing.T, gpus map[string]int) []*resourcev1.ResourceSlice {
	t.Helper()
	text := "kind: List\nitems:\n"
	for node, n := range gpus {
		for generation := range 2 {
			for minor := n - 1; minor >= 0; minor-- {
				text += fmt.Sprintf("- kind: ResourceSlice\n  spec: {driver: gpu.nvidia.com, nodeName: %s, pool: {name: %s, generation: %d, resourceSliceCount: %d}, devices: [{name: gpu-%d, attributes: {type: {string: gpu}, uuid: {string: GPU-%s-%d-%d}}}, {name: gpu-9-mig-1, attributes: {type: {string: mig}, uuid: {string: MIG-1}}}]}\n",
					node, node, generation, n, minor, node, minor, generation)
			}
		}
		text += fmt.Sprintf("- kind: ResourceSlice\n  spec: {driver: other, nodeName: %s, pool: {name: x, generation: 9, resourceSliceCount: 1}, devices: [{name: gpu-0}]}\n", node)
	}
	out, err := dra.DecodeSlices([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPins holds that claims take the very GPUs that were decided: a selector by UUID
// on every claim but those of MIG, which the scheduler's compiler finds true of these
// GPUs and of no others, and no GPU in two claims.
func TestPins(t *testing.T) {
	nodes, pods := sample(t)
	all := map[string]int{"mps-0": 2, "whole-0": 4, "slices-0": 1}
	out, err := dra.Plan(nodes, pods, bestFit, dra.Options{Slices: slicesOf(t, all)})
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]string{}
	see := func(name string, r *resourcev1.ExactDeviceRequest) {
		n := int64(0)
		for node, gpus := range all {
			for minor := range gpus {
				for generation := range 2 {
					uuid := fmt.Sprintf("GPU-%s-%d-%d", node, minor, generation)
					d := dracel.Device{Driver: "gpu.nvidia.com", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"uuid": {StringValue: &uuid}}}
					c := dracel.GetCompiler(dracel.Features{}).CompileCELExpression(r.Selectors[len(r.Selectors)-1].CEL.Expression, dracel.Options{})
					ok, _, err := c.DeviceMatches(t.Context(), d)
					if c.Error != nil || err != nil {
						t.Fatal(c.Error, err)
					}
					if !ok {
						continue
					}
					if n++; generation == 0 || taken[uuid] != "" {
						t.Errorf("%s takes %s, which is %q's", name, uuid, taken[uuid])
					}
					taken[uuid] = name
				}
			}
		}
		if n != r.Count {
			t.Errorf("%s takes one of %d for %d", name, n, r.Count)
		}
	}
	for _, c := range out.Claims {
		see(c.Name, c.Spec.Devices.Requests[0].Exactly)
	}
	for _, c := range out.Templates {
		if r := c.Spec.Spec.Devices.Requests[0].Exactly; !strings.Contains(r.DeviceClassName, "mig") {
			see(c.Name, r)
		} else if len(r.Selectors) > 0 {
			t.Errorf("%s: %v", c.Name, r.Selectors)
		}
	}
	if len(taken) < 3 {
		t.Errorf("%v", taken)
	}
	delete(all, "slices-0")
	all["mps-0"] = 1
	_, err = dra.Plan(nodes, pods, bestFit, dra.Options{Slices: slicesOf(t, all)})
	for _, want := range []string{"node mps-0: it has more whole GPUs than the 1", "node slices-0: it has more whole GPUs than the 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", "there is no Pod"},
		{"kind: Pod\nspec: {contaners: []}\n", `unknown field "spec.contaners"`},
		{"kind: Pod\nkind: Pod\n", "already"},
		{"kind: Node\n", "it is a Node, not a Pod"},
		{"metadata: {name: x}\n", "it has no kind"},
		{"kind: List\nitems: [{kind: Pod}, {kind: Node}, 7]\n", "item 1: it is a Node"},
		{"{", "document 0"},
		{"[]", "document 0: it is no object of Kubernetes (give what"},
		{"kind: [Pod]", "document 0: it is no object of Kubernetes"},
	} {
		pods, err := dra.DecodePods([]byte(tc.text))
		if err == nil || pods != nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, %v, want %s", tc.text, pods, err, tc.want)
		}
	}
}

func FuzzDecodePods(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\nkind: List\nitems: []\n"))
	f.Add([]byte(`{"kind":"List","items":[{"kind":"Pod","spec":{"containers":[{"name":"c","resources":{"requests":{"nvidia.com/gpu":"1"}}}]}}]}`))
	nodes, _ := sample(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		pods, err := dra.DecodePods(data)
		if (pods == nil) == (err == nil) {
			t.Fatalf("%v, %v", pods, err)
		}
		if err != nil {
			return
		}
		out, err := dra.Plan(nodes, pods, bestFit, dra.Options{})
		if (out == nil) == (err == nil) {
			t.Fatalf("%v, %v", out, err)
		}
		if err == nil {
			if _, err := out.YAML(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// podOf asks for GPUs.
func podOf(namespace, name, gpus string, annotations map[string]string) *v1.Pod {
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main",
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}}}}}}
	p.Namespace, p.Name, p.Annotations = namespace, name, annotations
	return p
}

// sharedNode has GPUs in four replicas each.
func sharedNode(name, strategy, gpus string) *v1.Node {
	n := &v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus), "cpu": resource.MustParse("32")}}}
	n.Name = name
	n.Labels = map[string]string{"nvidia.com/gpu.product": "NVIDIA-L4-SHARED", "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": strategy}
	return n
}

// Pods that the decision puts on one GPU name one claim.
func ExamplePlan() {
	out, err := dra.Plan([]*v1.Node{sharedNode("a", "mps", "4")},
		[]*v1.Pod{podOf("search", "x", "1", nil), podOf("search", "y", "1", nil)}, bestFit, dra.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range out.Pods {
		fmt.Println(p.Name, *p.Spec.ResourceClaims[0].ResourceClaimName)
	}
	// Output:
	// x a-gpu-0
	// y a-gpu-0
}

// A claim does not reach across namespaces: the plan says what that costs.
func ExamplePlan_namespaces() {
	trust := func(who string) map[string]string { return map[string]string{"cotenant.dev/trusts": who} }
	out, err := dra.Plan([]*v1.Node{sharedNode("a", "time-slicing", "4")},
		[]*v1.Pod{podOf("search", "x", "1", trust("ads")), podOf("ads", "y", "1", trust("search"))}, bestFit, dra.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range out.Warnings {
		fmt.Println(w)
	}
	// Output:
	// ads/y and search/x share a GPU of a and are in two namespaces: a claim does not reach across, so each namespace takes a GPU
}

// A pod on two shared GPUs and one on the first of them cannot say so by claims.
func ExamplePlan_overlap() {
	out, err := dra.Plan([]*v1.Node{sharedNode("a", "time-slicing", "8")},
		[]*v1.Pod{podOf("search", "x", "2", nil), podOf("search", "y", "1", nil)}, bestFit, dra.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range out.Warnings {
		fmt.Println(w)
	}
	// Output:
	// search/y and search/x share a GPU of a and do not have the same GPUs, which a claim cannot say, so each takes its own
}

// What no node takes is named with its reasons.
func ExamplePlan_refused() {
	out, err := dra.Plan([]*v1.Node{sharedNode("a", "mps", "4")}, []*v1.Pod{podOf("search", "x", "2", nil)}, bestFit, dra.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out.Refused["search/x"])
	// Output:
	// 1 replicas (a: asks for 2 replicas of GPUs shared by mps: the device plugin gives a pod one)
}
