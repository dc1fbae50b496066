// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

const mixArgs = `{"mix":[{"weight":3,"gpuMilli":250,"cpuMilli":2000},{"gpus":2,"cpuMilli":4000},{"profile":"1g.10gb"}]}`

func someNodes() []*v1.Node {
	hami := makeNode("hami", "nvidia.com/gpu=20", "")
	hami.Annotations = map[string]string{kubegpu.AnnotationHAMiRegister: "a,10,40960,100,NVIDIA-NVIDIA A100-SXM4-40GB,0,true:b,10,40960,100,NVIDIA-NVIDIA A100-SXM4-40GB,0,true:"}
	return []*v1.Node{
		makeNode("cpu", "", ""),
		makeNode("whole-1", "nvidia.com/gpu=4", "gpu.product=NVIDIA-H100-80GB-HBM3 gpu.count=4"),
		makeNode("whole-2", "nvidia.com/gpu=2", "gpu.product=NVIDIA-L4 gpu.count=2"),
		makeNode("mps", "nvidia.com/gpu=8", "gpu.product=NVIDIA-A100-SXM4-80GB-SHARED gpu.count=2 gpu.replicas=4 gpu.sharing-strategy=mps"),
		makeNode("slices", "nvidia.com/gpu=8", "gpu.product=Tesla-T4-SHARED gpu.count=4 gpu.replicas=2 gpu.sharing-strategy=time-slicing"),
		makeNode("mig", "nvidia.com/mig-1g.10gb=4 nvidia.com/mig-3g.40gb=2", "gpu.product=NVIDIA-A100-SXM4-80GB gpu.count=2 mig.strategy=mixed"),
		makeNode("single", "nvidia.com/gpu=7", "gpu.product=NVIDIA-A100-SXM4-80GB-MIG-1g.10gb mig.strategy=single"),
		makeNode("liar", "nvidia.com/gpu=9", "gpu.product=NVIDIA-L4-SHARED gpu.count=2 gpu.replicas=2"),
		hami,
	}
}

// randomPods are n pods of mixed requests, some of which fit nowhere.
func randomPods(rng *rand.Rand, n int) []*v1.Pod {
	asks := []string{"nvidia.com/gpu=1", "nvidia.com/gpu=2", "nvidia.com/gpu=4", "nvidia.com/mig-1g.10gb=1", "nvidia.com/mig-1g.10gb=2", "nvidia.com/mig-3g.40gb=1",
		"nvidia.com/mig-7g.80gb=1", "nvidia.com/gpu=1 nvidia.com/gpumem=10240", "nvidia.com/gpu=1 nvidia.com/gpumem=4096 nvidia.com/gpucores=20",
		"nvidia.com/gpu=1 cotenant.dev/gpu-milli=400"}
	says := []string{"", "", "", "tenant=a", "tenant=b trusts=a", "mechanisms=mps,time-slicing", "kind=distributed-training", "models=L4", "max-slowdown=1.2"}
	var out []*v1.Pod
	for i := range n {
		ask := asks[rng.IntN(len(asks))] + fmt.Sprintf(" cpu=%d", 1+rng.IntN(4))
		out = append(out, makePod(fmt.Sprintf("p%03d", i), ask, says[rng.IntN(len(says))]))
	}
	return out
}

// TestClusterAsTheLibrary binds pods with a whole scheduler, its configuration as deployed, on a fake API server, and
// holds that each is where the library puts it, with its reasons where it puts it nowhere; in the middle the scheduler
// is replaced by another that knows the API server's state alone.
func TestClusterAsTheLibrary(t *testing.T) {
	nodes := someNodes()
	var objects []runtime.Object
	for _, n := range nodes {
		objects = append(objects, n)
	}
	c := newCluster(t, objects...)
	c.start(mixArgs)
	running := map[string][]kubegpu.Running{}
	args, err := decodeArgs(&runtime.Unknown{Raw: []byte(mixArgs)})
	if err != nil {
		t.Fatal(err)
	}
	scorer, err := args.Scorer()
	if err != nil {
		t.Fatal(err)
	}
	placed, refused := 0, 0
	for i, p := range randomPods(rand.New(rand.NewPCG(1, 2)), 60) {
		if i == 30 {
			c.stop()
			c.start(mixArgs)
		}
		asked, err := kubegpu.ReadPod(p)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		var scores []float64
		plans, verdicts := map[string]*kubegpu.Allocation{}, map[string]kubegpu.Ruling{}
		for _, n := range nodes {
			one, score, v := kubegpu.NewState(kubegpu.ReadNode(n), running[n.Name]).Plan(asked, scorer)
			if plans[n.Name], verdicts[n.Name] = one, v; one != nil {
				names, scores = append(names, n.Name), append(scores, score)
			}
		}
		var a *kubegpu.Allocation
		if best := kubegpu.Best(names, scores); best >= 0 {
			a = plans[names[best]]
			running[a.Node] = append(running[a.Node], kubegpu.Running{Pod: asked, Allocation: a})
		}
		c.create(p)
		got := c.outcome(p.Name)
		if a != nil {
			placed++
			x := a.Annotations()
			if want := fmt.Sprintf("%s %s %s %s", a.Node, x[kubegpu.AnnotationGPU], x[kubegpu.AnnotationShare], x[kubegpu.AnnotationMechanism]); got != want {
				t.Fatalf("%s (%v): %s, and the library says %s", p.Name, p.Spec.Containers[0].Resources.Requests, got, want)
			}
			if v := c.get(p.Name).Annotations[kubegpu.AnnotationVerdict]; !strings.HasPrefix(v, a.String()+" by policy cotenant") {
				t.Errorf("%s: verdict %q", p.Name, v)
			}
			continue
		}
		refused++
		for node, v := range verdicts {
			if !strings.Contains(got, shortReason(v.Code)) {
				t.Errorf("%s: %s, and the library says of %s: %s (%s)", p.Name, got, node, v.Code, v.Text)
			}
		}
	}
	if placed < 20 || refused < 10 {
		t.Errorf("%d placed and %d refused: the pods show too little", placed, refused)
	}
	t.Logf("%d placed, %d refused", placed, refused)
}

// What REFERENCE.md quotes.
const (
	quotedFailed   = "0/2 nodes are available: 1 gpu gpu-share: too little of a GPU is free, 1 gpu labels: labels contradict the capacity."
	quotedUnplaced = "1 gpu-share (a: needs 1000 thousandths of a GPU, the most free is 0); 1 labels (liar: what the node says of its GPUs cannot be: " +
		"offers 3 of nvidia.com/gpu, which is no multiple of the 2 replicas of label nvidia.com/gpu.replicas)"
	quotedPlaced = "GPU 0 as 1000m of exclusive on a by policy best-fit (score 75.00, 1 node(s) would do)"
)

// TestReference holds that REFERENCE.md quotes what the tests see, and names every gate and annotation.
func TestReference(t *testing.T) {
	reference, err := os.ReadFile("../REFERENCE.md")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"    " + quotedFailed + "\n", "    " + quotedUnplaced + "\n", "    " + quotedPlaced + "\n"}
	for _, c := range filter.Codes() {
		if c.Short() != "" {
			want = append(want, c.String())
		}
	}
	want = slices.AppendSeq(want, maps.Keys(kubegpu.ShortReasons))
	for _, name := range []string{kubegpu.AnnotationTenant, kubegpu.AnnotationTrusts, kubegpu.AnnotationMechanisms, kubegpu.AnnotationModels,
		kubegpu.AnnotationGPUMemory, kubegpu.AnnotationKind, kubegpu.AnnotationWorkload, kubegpu.AnnotationMaxSlowdown, reasonPlaced, reasonUnplaced,
		reasonLabels, reasonAssumed} {
		want = append(want, "`"+name+"`")
	}
	for _, text := range want {
		if !strings.Contains(string(reference), text) {
			t.Errorf("REFERENCE.md does not have %q", text)
		}
	}
}

// TestClusterRetries holds that refused pods are tried again when another leaves,
// when a node comes, when labels are mended, and when the pod asks for less.
func TestClusterRetries(t *testing.T) {
	c := newCluster(t, makeNode("a", "nvidia.com/gpu=1", "gpu.product=NVIDIA-L4 gpu.count=1"),
		makeNode("liar", "nvidia.com/gpu=3", "gpu.product=NVIDIA-A100-SXM4-80GB-SHARED gpu.count=2 gpu.replicas=2"))
	c.start(`{}`)
	for _, name := range []string{"first", "second", "third"} {
		c.create(makePod(name, "nvidia.com/gpu=1", ""))
	}
	c.create(makePod("wrong", "nvidia.com/gpu=1", "models=T4 trusts=,"))
	if got := c.outcome("first"); got != "a 0 1000m exclusive" {
		t.Fatal(got)
	}
	if got := c.outcome("wrong"); !strings.Contains(got, "metadata.annotations[cotenant.dev/trusts]") {
		t.Error(got)
	}
	for _, name := range []string{"second", "third"} {
		if got := c.outcome(name); !strings.Contains(got, quotedFailed) {
			t.Error(got)
		}
	}
	if got := c.events.of(reasonUnplaced, "third"); len(got) == 0 ||
		got[0] != quotedUnplaced {
		t.Errorf("%q", got)
	}
	if got := c.events.of(reasonLabels, "liar"); len(got) != 1 {
		t.Errorf("%q", got)
	}

	ctx := t.Context()
	bound := func(name, node string) {
		t.Helper()
		c.wait(name+" on "+node, func() bool { return c.get(name).Spec.NodeName == node })
	}
	if err := c.client.CoreV1().Pods("ns").Delete(ctx, "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.wait("one of two on a", func() bool { return c.get("second").Spec.NodeName != "" || c.get("third").Spec.NodeName != "" })
	left := "third"
	if c.get("second").Spec.NodeName == "" {
		left = "second"
	}
	if _, err := c.client.CoreV1().Nodes().Update(ctx, makeNode("liar", "nvidia.com/gpu=4",
		"gpu.product=NVIDIA-A100-SXM4-80GB-SHARED gpu.count=2 gpu.replicas=2 gpu.sharing-strategy=mps"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound(left, "liar")
	mended := c.get("wrong")
	mended.Annotations = map[string]string{kubegpu.AnnotationModels: "T4"}
	mended.ResourceVersion = "2" // the fake counts none, and the scheduler passes over what has the same
	if _, err := c.client.CoreV1().Pods("ns").Update(ctx, mended, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.wait("wrong to be refused for its model", func() bool {
		e := c.events.of("FailedScheduling", "wrong")
		return len(e) > 0 && strings.Contains(e[len(e)-1], "another GPU model")
	})
	if _, err := c.client.CoreV1().Nodes().Create(ctx, makeNode("t4", "nvidia.com/gpu=1", "gpu.product=Tesla-T4 gpu.count=1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound("wrong", "t4")
}

// TestClusterOthers leaves pods without a GPU to the other plugins.
func TestClusterOthers(t *testing.T) {
	c := newCluster(t, makeNode("cpu", "", ""), makeNode("gpu", "nvidia.com/gpu=1", "gpu.product=NVIDIA-L4 gpu.count=1"))
	c.start(`{}`)
	p := makePod("plain", "cpu=1", "tenant=")
	c.create(p)
	if got := c.outcome("plain"); !strings.HasSuffix(got, "   ") {
		t.Errorf("%q", got)
	}
	if e := c.events.of(reasonPlaced, "plain"); len(e) > 0 {
		t.Errorf("%q", e)
	}
}

// TestClusterPreempts makes room for a pod of higher priority.
func TestClusterPreempts(t *testing.T) {
	c := newCluster(t, makeNode("a", "nvidia.com/gpu=2", "gpu.product=NVIDIA-L4-SHARED gpu.count=1 gpu.replicas=2 gpu.sharing-strategy=time-slicing"))
	c.start(`{}`)
	c.create(makePod("low", "nvidia.com/gpu=1", "tenant=x"))
	if got := c.outcome("low"); got != "a 0 500m time-slicing" {
		t.Fatal(got)
	}
	high := makePod("high", "nvidia.com/gpu=1", "tenant=y")
	priority := int32(1000)
	high.Spec.Priority = &priority
	c.create(high)
	c.wait("high on a", func() bool { return c.get("high").Spec.NodeName == "a" })
	if _, err := c.client.CoreV1().Pods("ns").Get(t.Context(), "low", metav1.GetOptions{}); err == nil {
		t.Error("low still runs beside a tenant that does not trust it")
	}
}
