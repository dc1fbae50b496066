// SPDX-License-Identifier: Apache-2.0

package kubegpu

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

var bestFit = placement.NewScorer(placement.BestFit, nil)

// kubePod has a container for each of the texts of resources, divided by "|".
func kubePod(name, resourceText, annotations string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Annotations: map[string]string{}}}
	for i, text := range strings.Split(resourceText, "|") {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprint("c", i), Resources: v1.ResourceRequirements{Requests: resources(text)}})
	}
	for k, v := range labels(annotations) {
		p.Annotations["cotenant.dev/"+strings.TrimPrefix(k, "nvidia.com/")] = v
	}
	return p
}

// run puts pods on a node one after another and says what comes of each.
func run(t *testing.T, n *v1.Node, pods ...*v1.Pod) []string {
	t.Helper()
	node := ReadNode(n)
	var running []Running
	var out []string
	for _, p := range pods {
		asked, err := ReadPod(p)
		if err != nil {
			out = append(out, err.Error())
			continue
		}
		state := NewState(node, running)
		for _, note := range state.Notes {
			t.Errorf("before %s: %s", p.Name, note)
		}
		a, score, v := state.Plan(asked, bestFit)
		if a == nil {
			out = append(out, v.Code+": "+v.Text)
			continue
		}
		if math.IsNaN(score) {
			t.Errorf("%s: no score", p.Name)
		}
		out = append(out, strings.TrimSuffix(a.String(), " on "+n.Name))
		// Back from the annotations, as a scheduler that starts afresh reads them.
		bound := p.DeepCopy()
		bound.Spec.NodeName = n.Name
		maps.Copy(bound.Annotations, a.Annotations())
		r, notes := ReadRunning(bound, node, nil)
		for _, note := range notes {
			t.Errorf("%s: %s", p.Name, note)
		}
		running = append(running, r)
	}
	return out
}

func TestPlan(t *testing.T) {
	mps := kubeNode("n", "nvidia.com/gpu=8", "gpu.product=NVIDIA-A100-SXM4-80GB-SHARED gpu.count=2 gpu.replicas=4 gpu.sharing-strategy=mps")
	slicing := kubeNode("n", "nvidia.com/gpu=4", "gpu.product=NVIDIA-L4-SHARED gpu.count=2 gpu.replicas=2 gpu.sharing-strategy=time-slicing")
	whole := kubeNode("n", "nvidia.com/gpu=4", "gpu.product=NVIDIA-H100-80GB-HBM3 gpu.count=4")
	single := kubeNode("n", "nvidia.com/gpu=9", "gpu.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb mig.strategy=single")
	mixed := kubeNode("n", "nvidia.com/mig-1g.10gb=2 nvidia.com/mig-3g.40gb=3 nvidia.com/gpu=1",
		"gpu.product=NVIDIA-A100-SXM4-80GB gpu.count=3 mig.strategy=mixed")
	hami := kubeNode("n", "nvidia.com/gpu=20", "")
	hami.Annotations = map[string]string{AnnotationHAMiRegister: `[{"id":"a","count":10,"devmem":40960,"devcore":100,"type":"NVIDIA A100-SXM4-40GB"},` +
		`{"id":"b","count":10,"devmem":40960,"devcore":100,"type":"NVIDIA A100-SXM4-40GB"}]`}
	milli := kubeNode("n", "cotenant.dev/gpu-milli=2000", "")
	liar := kubeNode("n", "nvidia.com/gpu=3", "gpu.product=NVIDIA-L4-SHARED gpu.count=2 gpu.replicas=2")

	for _, tc := range []struct {
		name string
		node *v1.Node
		pods []*v1.Pod
		want []string
	}{
		{"whole GPUs", whole, []*v1.Pod{kubePod("a", "nvidia.com/gpu=1", ""), kubePod("b", "nvidia.com/gpu=2", ""), kubePod("c", "nvidia.com/gpu=2", "")},
			[]string{"GPU 0 as 1000m of exclusive", "GPU 1,2 as 1000m of exclusive", "gpu-count: needs 2 GPUs with one mechanism, 1 would do"}},
		{"two containers", whole, []*v1.Pod{kubePod("a", "nvidia.com/gpu=1|nvidia.com/gpu=2", "")},
			[]string{"GPU 0 as 1000m of exclusive, GPU 1,2 as 1000m of exclusive"}},
		{"a share of a whole GPU", whole, []*v1.Pod{kubePod("a", "nvidia.com/gpu=1 cotenant.dev/gpu-milli=300", "")},
			[]string{"mechanism: the GPU runs a mechanism that the request does not accept"}},
		{"replicas", mps, []*v1.Pod{kubePod("a", "nvidia.com/gpu=1", ""), kubePod("b", "nvidia.com/gpu=1 cotenant.dev/gpu-milli=600", ""),
			kubePod("c", "nvidia.com/gpu=2", ""), kubePod("d", "nvidia.com/gpu=1", "gpu-memory=30GiB")},
			[]string{"GPU 0 as 250m of mps", "GPU 0 as 600m of mps", "replicas: asks for 2 replicas of GPUs shared by mps: the device plugin gives a pod one",
				"slot-limit: needs 30GiB, and each tenant of the GPU is limited to 20GiB"}},
		{"tenants", slicing, []*v1.Pod{kubePod("a", "nvidia.com/gpu=1", "tenant=x"), kubePod("b", "nvidia.com/gpu=1", "tenant=y"),
			kubePod("c", "nvidia.com/gpu=1", "tenant=z"), kubePod("d", "nvidia.com/gpu=1", "tenant=x"), kubePod("e", "nvidia.com/gpu=1", "tenant=x")},
			[]string{"GPU 0 as 500m of time-slicing", "trust: a tenant on the GPU is not trusted and the mechanism does not isolate",
				"trust: a tenant on the GPU is not trusted and the mechanism does not isolate", "GPU 0 as 500m of time-slicing", "GPU 1 as 500m of time-slicing"}},
		{"trust", slicing, []*v1.Pod{kubePod("a", "nvidia.com/gpu=1", "tenant=x trusts=y"), kubePod("b", "nvidia.com/gpu=1", "tenant=y trusts=x,z")},
			[]string{"GPU 0 as 500m of time-slicing", "GPU 0 as 500m of time-slicing"}},
		{"kinds", slicing, []*v1.Pod{kubePod("a", "nvidia.com/gpu=1", "kind=distributed-training"), kubePod("b", "nvidia.com/gpu=1", "kind=online-inference max-slowdown=1.5"),
			kubePod("c", "nvidia.com/gpu=1", "kind=notebook")},
			[]string{"mechanism: the GPU runs a mechanism that the request does not accept",
				"mechanism: the GPU runs a mechanism that the request does not accept", "GPU 0 as 500m of time-slicing"}},
		{"model", slicing, []*v1.Pod{kubePod("a", "nvidia.com/gpu=1", "models=A100,Tesla-T4"), kubePod("b", "nvidia.com/gpu=1", "models=L4")},
			[]string{"model: the GPU's model is not among those asked for", "GPU 0 as 500m of time-slicing"}},
		{"mig single", single, []*v1.Pod{kubePod("a", "nvidia.com/gpu=2", ""), kubePod("b", "nvidia.com/gpu=8", ""),
			kubePod("c", "nvidia.com/mig-1g.10gb=1", ""), kubePod("d", "nvidia.com/gpu=1 cotenant.dev/gpu-milli=500", "")},
			[]string{"GPU 1 as MIG 1g.10gb at 0, GPU 1 as MIG 1g.10gb at 4", "slices: no MIG instance of 1g.10gb is free",
				"resource: asks for nvidia.com/mig-1g.10gb, and the node offers its instances as nvidia.com/gpu",
				"mig-mode: the GPU is in MIG mode: ask for a profile"}},
		{"mig mixed", mixed, []*v1.Pod{kubePod("a", "nvidia.com/mig-3g.40gb=1", ""), kubePod("b", "nvidia.com/mig-3g.40gb=2", ""),
			kubePod("c", "nvidia.com/mig-3g.40gb=1", ""), kubePod("d", "nvidia.com/mig-1g.10gb=2", ""), kubePod("e", "nvidia.com/mig-2g.20gb=1", ""),
			kubePod("f", "nvidia.com/gpu=1", ""), kubePod("g", "nvidia.com/gpu=1", "")},
			[]string{"GPU 2 as MIG 3g.40gb at 4", "GPU 1 as MIG 3g.40gb at 0, GPU 1 as MIG 3g.40gb at 4", "slices: no MIG instance of 3g.40gb is free",
				"GPU 2 as MIG 1g.10gb at 0, GPU 2 as MIG 1g.10gb at 1", "profile: the node has no MIG instance of 2g.20gb",
				"GPU 0 as 1000m of exclusive", "gpu-share: needs 1000 thousandths of a GPU, the most free is 0"}},
		{"mig where there is none", whole, []*v1.Pod{kubePod("a", "nvidia.com/mig-1g.10gb=1", "")},
			[]string{"not-mig: a MIG instance is asked for and the GPU is not in MIG mode"}},
		{"hami", hami, []*v1.Pod{kubePod("a", "nvidia.com/gpu=1 nvidia.com/gpumem=30720 nvidia.com/gpucores=30", ""),
			kubePod("b", "nvidia.com/gpu=1 nvidia.com/gpumem-percentage=50", ""), kubePod("c", "nvidia.com/gpumem=10240", ""),
			kubePod("d", "nvidia.com/gpu=2 nvidia.com/gpumem=1024 nvidia.com/gpucores=10", ""), kubePod("e", "nvidia.com/gpu=1", "")},
			[]string{"GPU 0 as 300m of hami", "GPU 1 as 20480Mi of hami", "GPU 0 as 10240Mi of hami", "gpu-count: needs 2 GPUs with one mechanism, 1 would do",
				"gpu-memory: needs 40GiB of GPU memory, the most free is 20GiB"}},
		{"hami elsewhere", whole, []*v1.Pod{kubePod("a", "nvidia.com/gpu=1 nvidia.com/gpumem=1024", "")},
			[]string{"resource: asks for HAMi's resources, and HAMi does not run the node"}},
		{"thousandths", milli, []*v1.Pod{kubePod("a", "cotenant.dev/gpu-milli=300", ""), kubePod("b", "cotenant.dev/gpu-milli=800", ""),
			kubePod("c", "cotenant.dev/gpu-milli=700", ""), kubePod("d", "cotenant.dev/gpu-milli=2000", ""), kubePod("e", "nvidia.com/gpu=1", "")},
			[]string{"GPU 0 as 300m of time-slicing", "GPU 1 as 800m of time-slicing", "GPU 0 as 700m of time-slicing",
				"gpu-share: needs 1000 thousandths of a GPU, the most free is 200", "resource: asks for nvidia.com/gpu, and the node offers cotenant.dev/gpu-milli"}},
		{"cpu", whole, []*v1.Pod{kubePod("a", "nvidia.com/gpu=1 cpu=60", ""), kubePod("b", "nvidia.com/gpu=1 cpu=5", "")},
			[]string{"GPU 0 as 1000m of exclusive", "cpu: needs 5000m CPU, 4000m are free"}},
		{"objective", mps, []*v1.Pod{kubePod("a", "nvidia.com/gpu=1", "max-slowdown=1.5"), kubePod("b", "nvidia.com/gpu=1", ""), kubePod("c", "nvidia.com/gpu=1", "max-slowdown=2")},
			[]string{"GPU 0 as 250m of mps", "slowdown-unknown: on the worst of 2 GPUs that it may get: how much neighbours slow it down, or it them, is not known and there is an objective",
				"slowdown-unknown: on the worst of 2 GPUs that it may get: how much neighbours slow it down, or it them, is not known and there is an objective"}},
		{"labels that lie", liar, []*v1.Pod{kubePod("a", "nvidia.com/gpu=1", "")},
			[]string{"labels: what the node says of its GPUs cannot be: offers 3 of nvidia.com/gpu, which is no multiple of the 2 replicas of label nvidia.com/gpu.replicas"}},
		{"no GPU", kubeNode("n", "", ""), []*v1.Pod{kubePod("a", "nvidia.com/gpu=1", "")}, []string{"no-gpu: the node offers no GPU"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, run(t, tc.node, tc.pods...)); d != "" {
				t.Error(d)
			}
		})
	}
}

// factors predicts the product of the neighbours' factors.
type factors map[string]float64

func (f factors) Predict(out []*predict.Prediction, _ string, _ sharing.Mechanism, group []string, _ predict.Method) []*predict.Prediction {
	for i := range group {
		x := 1.0
		for j, n := range group {
			if j != i {
				x *= f[n]
			}
		}
		out = append(out, &predict.Prediction{Slowdown: profile.Interval{Value: x, Low: x, High: x}})
	}
	return out
}

// TestKubeletPicksAnother has the kubelet give pods GPUs by chance, whatever the annotations say: on the GPUs that they
// really have, all trust each other and every objective holds.
func TestKubeletPicksAnother(t *testing.T) {
	f := factors{"light": 1.05, "medium": 1.2, "heavy": 1.6}
	scorer := placement.NewScorer(placement.BestFit, f)
	rng := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for round := range 200 {
		object := kubeNode("n", "nvidia.com/gpu=12", "gpu.product=NVIDIA-A100-SXM4-80GB-SHARED gpu.count=4 gpu.replicas=3 gpu.sharing-strategy="+[]string{"mps", "time-slicing"}[round%2])
		node := ReadNode(object)
		var running []Running
		really := make([][]*Pod, 4)
		for i := range 16 {
			annotations := fmt.Sprintf("workload=%s tenant=%s", []string{"light", "medium", "heavy"}[rng.IntN(3)], []string{"a", "a", "a", "b"}[rng.IntN(4)])
			if rng.IntN(3) == 0 {
				annotations += " max-slowdown=" + []string{"1.3", "2"}[rng.IntN(2)]
			}
			p, err := ReadPod(kubePod(fmt.Sprint("p", i), "nvidia.com/gpu=1", annotations))
			if err != nil {
				t.Fatal(err)
			}
			a, _, v := NewState(node, running).Plan(p, scorer)
			if a == nil {
				if v.Text == "" {
					t.Fatal("refused without a reason")
				}
				continue
			}
			taken++
			running = append(running, Running{Pod: p, Allocation: a})
			gpu := rng.IntN(4)
			for len(really[gpu]) == 3 {
				gpu = rng.IntN(4)
			}
			really[gpu] = append(really[gpu], p)
		}
		for _, pods := range really {
			for i, p := range pods {
				slowdown := 1.0
				for j, q := range pods {
					if j == i {
						continue
					}
					if slowdown *= f[q.Workload.Name]; p.Workload.Tenant != q.Workload.Tenant {
						t.Errorf("%s of %s beside %s of %s", p.Name, p.Workload.Tenant, q.Name, q.Workload.Tenant)
					}
				}
				if p.Workload.Objective.Slowdown > 0 && slowdown > p.Workload.Objective.Slowdown {
					t.Errorf("%s is slowed by %.2f, its objective is %v", p.Name, slowdown, p.Workload.Objective.Slowdown)
				}
			}
		}
	}
	if taken < 800 {
		t.Errorf("%d pods taken", taken)
	}
}

// TestForeign puts pods that others bound on the emptiest GPUs, and HAMi's where HAMi says.
func TestForeign(t *testing.T) {
	foreign := func(p *v1.Pod) *v1.Pod { p.Spec.NodeName = "n"; return p }
	with := func(p *v1.Pod, kv ...string) *v1.Pod {
		for i := 0; i < len(kv); i += 2 {
			p.Annotations[kv[i]] = kv[i+1]
		}
		return p
	}
	whole := kubeNode("n", "nvidia.com/gpu=2", "gpu.product=NVIDIA-H100-80GB-HBM3 gpu.count=2")
	hami := kubeNode("n", "nvidia.com/gpu=20", "")
	hami.Annotations = map[string]string{AnnotationHAMiRegister: "a,10,40960,100,NVIDIA-NVIDIA A100-SXM4-40GB,0,true:b,10,40960,100,NVIDIA-NVIDIA A100-SXM4-40GB,0,true:"}
	for _, tc := range []struct {
		name    string
		node    *v1.Node
		running []*v1.Pod
		next    *v1.Pod
		notes   []string
		want    string
	}{
		{"bound by others", whole, []*v1.Pod{foreign(kubePod("x", "nvidia.com/gpu=1", ""))}, kubePod("a", "nvidia.com/gpu=1", ""),
			[]string{"ns/x was bound by somebody else: which GPU it has is assumed"}, "GPU 1 as 1000m of exclusive on n"},
		{"annotations of another node", whole, []*v1.Pod{foreign(with(kubePod("x", "nvidia.com/gpu=1", ""), AnnotationNode, "m", AnnotationGPU, "1",
			AnnotationMechanism, "exclusive", AnnotationShare, "1000m"))}, kubePod("a", "nvidia.com/gpu=1", ""),
			[]string{"ns/x was bound by somebody else: which GPU it has is assumed"}, "GPU 1 as 1000m of exclusive on n"},
		{"annotations that cannot be", whole, []*v1.Pod{foreign(with(kubePod("x", "nvidia.com/gpu=1", ""), AnnotationNode, "n", AnnotationGPU, "7",
			AnnotationMechanism, "exclusive", AnnotationShare, "1000m"))}, kubePod("a", "nvidia.com/gpu=1", ""),
			[]string{"ns/x is assigned to device 7, and the node has 2", "ns/x was bound by somebody else: which GPU it has is assumed"}, "GPU 1 as 1000m of exclusive on n"},
		{"annotations that are nonsense", whole, []*v1.Pod{foreign(with(kubePod("x", "nvidia.com/gpu=1", ""), AnnotationNode, "n", AnnotationGPU, "one",
			AnnotationTrusts, ",,", AnnotationMechanism, "exclusive", AnnotationShare, "1000m"))}, kubePod("a", "nvidia.com/gpu=1", ""),
			[]string{"ns/x runs with annotations that are not valid", `ns/x: kubegpu: invalid: annotation cotenant.dev/gpu: "one" is no index of a GPU`,
				"ns/x was bound by somebody else: which GPU it has is assumed"}, "GPU 1 as 1000m of exclusive on n"},
		{"more than there is", whole, []*v1.Pod{foreign(kubePod("x", "nvidia.com/gpu=2", "")), foreign(kubePod("y", "nvidia.com/gpu=1", ""))},
			kubePod("a", "nvidia.com/gpu=1", ""), []string{"ns/y finds no room: the node is overcommitted",
				"ns/x was bound by somebody else: which GPU it has is assumed"},
			"gpu-share: needs 1000 thousandths of a GPU, the most free is 0"},
		{"what the node does not offer", whole, []*v1.Pod{foreign(kubePod("x", "nvidia.com/mig-1g.10gb=1", ""))}, kubePod("a", "nvidia.com/gpu=1", ""),
			[]string{"ns/x runs here, and the node has no MIG instance of 1g.10gb"}, "GPU 0 as 1000m of exclusive on n"},
		{"bound by HAMi", hami, []*v1.Pod{foreign(with(kubePod("x", "nvidia.com/gpu=1 nvidia.com/gpumem=40960", ""), AnnotationHAMiAllocated, "b,NVIDIA,40960,0:;"))},
			kubePod("a", "nvidia.com/gpu=1 nvidia.com/gpumem=1024", ""), nil, "GPU 0 as 1024Mi of hami on n"},
		{"HAMi picks another", hami, []*v1.Pod{foreign(with(kubePod("x", "nvidia.com/gpu=1 nvidia.com/gpumem=4096", ""), AnnotationHAMiAllocated, "b,NVIDIA,4096,0:;"))},
			kubePod("a", "nvidia.com/gpu=1 nvidia.com/gpumem=1024", "tenant=other"), nil,
			"trust: on the worst of 2 GPUs that it may get: a tenant on the GPU is not trusted and the mechanism does not isolate"},
		{"bound when the label was another", whole, []*v1.Pod{foreign(with(kubePod("x", "nvidia.com/gpu=1", "models=L4"), AnnotationNode, "n", AnnotationGPU, "0",
			AnnotationMechanism, "exclusive", AnnotationShare, "1000m"))}, kubePod("a", "nvidia.com/gpu=1", ""), nil, "GPU 1 as 1000m of exclusive on n"},
		{"CPU of others", whole, []*v1.Pod{foreign(kubePod("x", "cpu=62", ""))}, kubePod("a", "nvidia.com/gpu=1 cpu=4", ""), nil,
			"cpu: needs 4000m CPU, 2000m are free"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := ReadNode(tc.node)
			var running []Running
			var notes []string
			for _, p := range tc.running {
				r, more := ReadRunning(p, node, nil)
				notes = append(notes, more...)
				running = append(running, r)
			}
			state := NewState(node, running)
			if d := cmp.Diff(tc.notes, append(notes, state.Notes...)); d != "" {
				t.Error(d)
			}
			p, err := ReadPod(tc.next)
			if err != nil {
				t.Fatal(err)
			}
			a, _, v := state.Plan(p, bestFit)
			got := v.Code + ": " + v.Text
			if a != nil {
				got = a.String()
			}
			if got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestReadPodErrors(t *testing.T) {
	restart := v1.ContainerRestartPolicyAlways
	init := func(p *v1.Pod, text string, sidecar bool) *v1.Pod {
		c := v1.Container{Name: "init", Resources: v1.ResourceRequirements{Requests: resources(text)}}
		if sidecar {
			c.RestartPolicy = &restart
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		return p
	}
	for _, tc := range []struct {
		name string
		pod  *v1.Pod
		want string // of the error, or the number of claims
	}{
		{"no GPU", kubePod("a", "cpu=1", "kind=nonsense"), "0"},
		{"zero GPUs", kubePod("a", "nvidia.com/gpu=0", ""), "0"},
		{"init container", init(kubePod("a", "nvidia.com/gpu=1", ""), "nvidia.com/gpu=1", false), "1"},
		{"sidecar", init(kubePod("a", "nvidia.com/gpu=1", ""), "nvidia.com/gpu=1", true), "2"},
		{"greedy init container", init(kubePod("a", "nvidia.com/gpu=1", ""), "nvidia.com/gpu=2", false), "asks for more of GPUs than the containers do"},
		{"init container alone", init(kubePod("a", "cpu=1", ""), "nvidia.com/gpu=1", false), "asks for more of GPUs than the containers do"},
		{"two resources", kubePod("a", "nvidia.com/gpu=1 nvidia.com/gpu.shared=1", ""), "asks for nvidia.com/gpu and nvidia.com/gpu.shared"},
		{"too many", kubePod("a", "nvidia.com/gpu=99", ""), "nvidia.com/gpu of 99 is out of range (use 0 to 16)"},
		{"no profile", kubePod("a", "nvidia.com/mig-huge=1", ""), "nvidia.com/mig-huge names no MIG profile"},
		{"odd thousandths", kubePod("a", "cotenant.dev/gpu-milli=1500", ""), "1500 of cotenant.dev/gpu-milli is neither a share of a GPU nor whole GPUs"},
		{"uneven thousandths", kubePod("a", "nvidia.com/gpu=2 cotenant.dev/gpu-milli=301", ""), "301 of cotenant.dev/gpu-milli do not divide among 2 GPUs"},
		{"kind and mechanism", kubePod("a", "nvidia.com/gpu=1", "kind=distributed-training mechanisms=mps"), "distributed-training runs by none of the mechanisms"},
		{"unknown kind", kubePod("a", "nvidia.com/gpu=1", "kind=mining"), "metadata.annotations[cotenant.dev/kind]"},
		{"empty list", kubePod("a", "nvidia.com/gpu=1", "trusts=a,,b"), "has an empty or overlong entry"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := ReadPod(tc.pod)
			got := "0"
			switch {
			case err != nil && p != nil:
				t.Fatal("both a pod and an error")
			case err != nil:
				got = err.Error()
			case p != nil:
				got = fmt.Sprint(len(p.Claims))
			}
			if !strings.Contains(got, tc.want) {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// FuzzPod holds that no pod and no node make planning panic, and that what was planned is read back.
func FuzzPod(f *testing.F) {
	f.Add("nvidia.com/gpu", int64(1), int64(0), "kind", "notebook", int64(8), "NVIDIA-L4-SHARED", "4", "2", "")
	f.Add("nvidia.com/mig-1g.10gb", int64(2), int64(300), "mechanisms", "mps", int64(7), "NVIDIA-A100-SXM4-80GB", "1", "1", "")
	f.Add("nvidia.com/gpumem", int64(2000), int64(0), "max-slowdown", "1.5", int64(10), "", "", "", "GPU-a,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:")
	f.Add("nvidia.com/gpu", int64(1), int64(0), "gpu", "0", int64(14), "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "1", "14", "[{}]")
	f.Fuzz(func(t *testing.T, name string, asks, milli int64, key, value string, offers int64, product, replicas, count, register string) {
		n := kubeNode("n", "", "")
		q := func(v int64) (out v1.ResourceList) {
			out = resources(fmt.Sprintf("cpu=8 memory=8Gi nvidia.com/gpu=%d cotenant.dev/gpu-milli=%d", offers, max(0, milli)))
			out[v1.ResourceName(name)] = *resourceQuantity(v)
			return out
		}
		n.Status.Allocatable, n.Status.Capacity = q(offers), q(offers)
		n.Labels = map[string]string{"nvidia.com/gpu.product": product, "nvidia.com/gpu.replicas": replicas, "nvidia.com/gpu.count": count}
		if milli == 0 {
			delete(n.Status.Allocatable, ResourceMilli)
		}
		if register != "" {
			n.Annotations = map[string]string{AnnotationHAMiRegister: register}
		}
		node := ReadNode(n)
		p := kubePod("p", "cpu=1", "")
		p.Annotations["cotenant.dev/"+key] = value
		p.Spec.Containers[0].Resources.Requests[v1.ResourceName(name)] = *resourceQuantity(asks)
		if milli != 0 {
			p.Spec.Containers[0].Resources.Requests[ResourceMilli] = *resourceQuantity(milli)
		}
		asked, err := ReadPod(p)
		if err != nil && asked != nil {
			t.Fatal("both a pod and an error")
		}
		var running []Running
		for range 3 {
			if asked == nil {
				break
			}
			a, _, v := NewState(node, running).Plan(asked, bestFit)
			if a == nil {
				if v.Text == "" || v.Code == "" {
					t.Fatalf("refused without a reason: %+v", v)
				}
				break
			}
			bound := p.DeepCopy()
			bound.Spec.NodeName = "n"
			maps.Copy(bound.Annotations, a.Annotations())
			back, err := ReadAllocation(bound)
			if err != nil || back.String() != a.String() {
				t.Fatalf("%v became %v: %v", a, back, err)
			}
			r, _ := ReadRunning(bound, node, nil)
			running = append(running, r)
			if s := NewState(node, running); len(s.Notes) > 0 {
				t.Fatalf("%v: %v", a, s.Notes)
			}
		}
		p.Spec.NodeName = "n"
		r, _ := ReadRunning(p, node, nil)
		NewState(node, []Running{r, r})
	})
}

func resourceQuantity(v int64) *resource.Quantity { return resource.NewQuantity(v, resource.DecimalSI) }

// FuzzReadAllocation holds that what is read is written back alike.
func FuzzReadAllocation(f *testing.F) {
	f.Add("0,1;3", "exclusive;mig", "1000m;1g.10gb@4")
	f.Add("0", "mps", "250m")
	f.Fuzz(func(t *testing.T, gpus, mechanisms, shares string) {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationNode: "n", AnnotationGPU: gpus,
			AnnotationMechanism: mechanisms, AnnotationShare: shares}}, Spec: v1.PodSpec{NodeName: "n"}}
		a, err := ReadAllocation(p)
		if (a == nil) == (err == nil) {
			t.Fatalf("%v, %v", a, err)
		}
		if err != nil {
			return
		}
		p.Annotations = a.Annotations()
		b, err := ReadAllocation(p)
		if err != nil || b.String() != a.String() {
			t.Fatalf("%v became %v: %v", a, b, err)
		}
	})
}
