//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
	"github.com/cotenant/cotenant/examples/kube-scheduler/plugin"
)

const (
	podsOneByOne = 200
	podsAtOnce   = 100
	seed         = 42
)

// run is a control plane with nodes, and the library that says what should come
// of each pod.
type run struct {
	*control
	scorer  *placement.Scorer
	policy  string
	library *kubegpu.Cluster
}

func newRun(t *testing.T) *run {
	t.Helper()
	c := newControl(t)
	scorer, policy, err := plugin.NewScorer(pluginArgs(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range makeNodes() {
		if _, err := c.admin.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r := &run{control: c, scorer: scorer, policy: policy}
	// What the library gets is what the API server kept.
	r.library = kubegpu.NewCluster(r.nodes(), nil)
	r.schedule()
	return r
}

func (r *run) nodes() []*v1.Node {
	r.t.Helper()
	list, err := r.admin.CoreV1().Nodes().List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	var out []*v1.Node
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

func (r *run) pods() []*v1.Pod {
	r.t.Helper()
	list, err := r.admin.CoreV1().Pods(namespace).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	var out []*v1.Pod
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

func (r *run) create(p *v1.Pod) {
	r.t.Helper()
	if _, err := r.admin.CoreV1().Pods(namespace).Create(r.t.Context(), p, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *run) get(name string) *v1.Pod {
	r.t.Helper()
	p, err := r.admin.CoreV1().Pods(namespace).Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *run) remove(name string) {
	r.t.Helper()
	now := int64(0) // no kubelet is there to confirm it
	if err := r.admin.CoreV1().Pods(namespace).Delete(r.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		r.t.Fatal(err)
	}
}

// refusal is what the scheduler says of a pod that it could not place.
func refusal(p *v1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable {
			return c.Message
		}
	}
	return ""
}

// settled waits until a pod is bound or refused.
func (r *run) settled(name string) *v1.Pod {
	r.t.Helper()
	var p *v1.Pod
	r.wait(r.scheduler, name+" to be bound or refused", time.Minute, func() bool {
		p = r.get(name)
		return p.Spec.NodeName != "" || refusal(p) != ""
	})
	return p
}

// where says where annotations put a pod.
func where(node string, annotations map[string]string) string {
	return strings.TrimSpace(fmt.Sprintf("%s GPU %s %s %s", node, annotations[kubegpu.AnnotationGPU], annotations[kubegpu.AnnotationShare],
		annotations[kubegpu.AnnotationMechanism]))
}

// count counts by key and prints the counts, most frequent first.
type count map[string]int

func (c count) table(t *testing.T, title string) {
	t.Helper()
	keys := slices.SortedFunc(maps.Keys(c), func(a, b string) int { return cmp.Or(c[b]-c[a], strings.Compare(a, b)) })
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "\n  %4d  %s", c[k], k)
	}
	t.Logf("%s%s", title, b.String())
}

// TestEndToEnd runs everything on one control plane, one part after another.
func TestEndToEnd(t *testing.T) {
	r := newRun(t)
	t.Logf("%d nodes, policy %s, seed %d", len(r.nodes()), r.policy, seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	parts := []struct {
		name string
		run  func(*testing.T, *run, *rand.Rand)
	}{
		{"one by one, as the library says", oneByOne},
		{"reasons in events", reasons},
		{"pods leave, others take their place", leaving},
		{"many at once", atOnce},
		{"nonsense", nonsense},
	}
	for _, part := range parts {
		ok := t.Run(part.name, func(t *testing.T) {
			was := r.t
			r.t = t
			defer func() { r.t = was }()
			part.run(t, r, rng)
		})
		if !ok {
			t.Fatalf("the end of the scheduler's output:\n%s", r.scheduler.tail())
		}
	}
}

// oneByOne creates pods one after another and compares each with the library's
// answer. Half-way the scheduler is killed, and the next one knows no more than
// what the API server has.
func oneByOne(t *testing.T, r *run, rng *rand.Rand) {
	byNode, byReason := count{}, count{}
	var example string
	var bound, refused, untouched int
	for i, p := range makePods(rng, "pod", podsOneByOne) {
		if i == podsOneByOne/2 {
			r.scheduler.kill()
			r.schedule()
			t.Logf("killed the scheduler after %d pods and started another", i)
		}
		asked, err := kubegpu.ReadPod(p)
		if err != nil {
			t.Fatal(err)
		}
		r.create(p)
		got := r.settled(p.Name)
		if asked == nil {
			if got.Spec.NodeName == "" || got.Annotations[kubegpu.AnnotationGPU] != "" {
				t.Errorf("%s asks for no GPU: on %q with %v", p.Name, got.Spec.NodeName, got.Annotations)
			}
			// Its CPU is taken from the node, and the library has to know.
			if !r.library.Bind(got) {
				t.Errorf("%s is on %q, which no node is", p.Name, got.Spec.NodeName)
			}
			untouched++
			continue
		}
		allocation, verdicts := r.library.Place(asked, r.scorer)
		if allocation == nil {
			refused++
			if got.Spec.NodeName != "" {
				t.Fatalf("%s (%v) is on %s, and the library places it nowhere: %v", p.Name, p.Spec.Containers[0].Resources.Requests, got.Spec.NodeName, verdicts)
			}
			message := refusal(got)
			for node, v := range verdicts {
				if !strings.Contains(message, "gpu "+v.Code) {
					t.Errorf("%s: %s; the library says of %s: %s (%s)", p.Name, message, node, v.Code, v.Text)
				}
				byReason[v.Code]++
			}
			example = p.Name + ": " + message
			continue
		}
		bound++
		byNode[allocation.Node]++
		want := where(allocation.Node, allocation.Annotations())
		if is := where(got.Spec.NodeName, got.Annotations); is != want {
			t.Fatalf("%s (%v) is on %s %s, and the library says %s", p.Name, p.Spec.Containers[0].Resources.Requests, is, refusal(got), want)
		}
		if v := got.Annotations[kubegpu.AnnotationVerdict]; !strings.HasPrefix(v, allocation.String()+" by policy "+r.policy) {
			t.Errorf("%s: verdict %q", p.Name, v)
		}
	}
	t.Logf("%d pods: %d bound to the node and the GPUs that the library says, %d refused where it refuses, %d without a GPU", podsOneByOne, bound, refused, untouched)
	byNode.table(t, "bound by node")
	byReason.table(t, "refusals, nodes by reason")
	t.Logf("the last refused, as its condition says: %s", example)
	if bound < podsOneByOne/4 || refused < podsOneByOne/10 {
		t.Errorf("%d bound and %d refused: that shows too little", bound, refused)
	}
}

// reasons looks at what the pods' events say to people.
func reasons(t *testing.T, r *run, _ *rand.Rand) {
	want := map[string]map[string]bool{"GPUPlaced": {}, "GPUUnplaced": {}, "FailedScheduling": {}}
	for _, p := range r.pods() {
		asked, err := kubegpu.ReadPod(p)
		if err != nil || asked == nil {
			continue
		}
		if p.Spec.NodeName != "" {
			want["GPUPlaced"][p.Name] = true
		} else {
			want["GPUUnplaced"][p.Name], want["FailedScheduling"][p.Name] = true, true
		}
	}
	var seen map[string]map[string]string
	r.wait(r.scheduler, "the events", time.Minute, func() bool {
		list, err := r.admin.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		seen = map[string]map[string]string{"GPUPlaced": {}, "GPUUnplaced": {}, "FailedScheduling": {}}
		for _, e := range list.Items {
			if seen[e.Reason] != nil {
				seen[e.Reason][e.InvolvedObject.Name] = e.Message
			}
		}
		for reason, names := range want {
			for name := range names {
				if seen[reason][name] == "" {
					return false
				}
			}
		}
		return true
	})
	for reason := range want {
		names := slices.Sorted(maps.Keys(seen[reason]))
		t.Logf("%s on %d pods, such as %s: %s", reason, len(names), names[0], seen[reason][names[0]])
	}
	nodes, err := r.admin.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,reason=GPULabels"})
	if err != nil {
		t.Fatal(err)
	}
	liars := map[string]string{}
	for _, e := range nodes.Items {
		liars[e.InvolvedObject.Name] = e.Message
	}
	for _, name := range []string{"liar-1", "liar-2"} {
		if liars[name] == "" {
			t.Errorf("no event says what is wrong with the labels of %s", name)
		}
		t.Logf("GPULabels on %s: %s", name, liars[name])
	}
}

// consistent holds that what the annotations of the bound pods say can be true all
// at once, and that no pod waits that a node would take. It reports the waiting.
func (r *run) consistent() []string {
	r.t.Helper()
	var waiting []string
	var last string
	// A pod that could be bound is bound soon: the scheduler backs off for up to
	// ten seconds after each failure.
	r.wait(r.scheduler, "pods that fit to be bound", 2*time.Minute, func() bool {
		running := map[string][]*v1.Pod{}
		var idle []*v1.Pod
		for _, p := range r.pods() {
			if p.Spec.NodeName != "" {
				running[p.Spec.NodeName] = append(running[p.Spec.NodeName], p)
			} else if p.DeletionTimestamp == nil {
				idle = append(idle, p)
			}
		}
		waiting, last = nil, ""
		for _, n := range r.nodes() {
			node := kubegpu.ReadNode(n)
			if node == nil {
				continue
			}
			var on []kubegpu.Running
			for _, p := range running[n.Name] {
				one, notes := kubegpu.ReadRunning(p, node, nil)
				for _, note := range notes {
					r.t.Errorf("%s on %s: %s", p.Name, n.Name, note)
				}
				on = append(on, one)
			}
			state := kubegpu.NewState(node, on)
			for _, note := range state.Notes {
				r.t.Errorf("%s: %s", n.Name, note)
			}
			for _, p := range idle {
				asked, err := kubegpu.ReadPod(p)
				if err != nil {
					continue
				}
				if _, _, v := state.Plan(asked, r.scorer); v.Verdict == decision.Pass {
					last = p.Name + " would fit on " + n.Name
					return false
				}
			}
		}
		for _, p := range idle {
			waiting = append(waiting, p.Name)
		}
		return true
	})
	if last != "" {
		r.t.Error(last)
	}
	return waiting
}

// leaving deletes pods and waits for those that waited to take their place.
func leaving(t *testing.T, r *run, rng *rand.Rand) {
	before := r.consistent()
	var bound []string
	for _, p := range r.pods() {
		if p.Spec.NodeName != "" {
			bound = append(bound, p.Name)
		}
	}
	slices.Sort(bound)
	rng.Shuffle(len(bound), func(i, j int) { bound[i], bound[j] = bound[j], bound[i] })
	gone := bound[:len(bound)/4]
	for _, name := range gone {
		r.remove(name)
	}
	after := r.consistent()
	t.Logf("%d pods waited; %d others left, and %d of those that waited are bound; no pod waits that would fit", len(before), len(gone), len(before)-len(after))
	if len(after) >= len(before) {
		t.Error("nobody took the place of those that left")
	}
}

// atOnce creates many pods at the same time: their order is the scheduler's, so
// that what can be held is that nothing is given twice and nobody waits in vain.
func atOnce(t *testing.T, r *run, rng *rand.Rand) {
	start := time.Now()
	pods := makePods(rng, "burst", podsAtOnce)
	for _, p := range pods {
		r.create(p)
	}
	for _, p := range pods {
		r.settled(p.Name)
	}
	took := time.Since(start)
	waiting := r.consistent()
	t.Logf("%d pods in %v; %d pods wait in all, and none of them would fit", podsAtOnce, took.Round(time.Millisecond), len(waiting))
}

// nonsense creates pods and nodes that make no sense, and holds that the scheduler
// says so and goes on.
func nonsense(t *testing.T, r *run, _ *rand.Rand) {
	for name, c := range map[string]struct{ asks, says, want string }{
		"trust":    {"cpu=1 nvidia.com/gpu=1", "trusts=,", "metadata.annotations[cotenant.dev/trusts]"},
		"memory":   {"cpu=1 nvidia.com/gpu=1", "gpu-memory=much", "metadata.annotations[cotenant.dev/gpu-memory]"},
		"slowdown": {"cpu=1 nvidia.com/gpu=1", "max-slowdown=-1", "metadata.annotations[cotenant.dev/max-slowdown]"},
		"profile":  {"cpu=1 nvidia.com/mig-9g.1gb=1", "", "gpu "},
		"huge":     {"cpu=1 cotenant.dev/gpu-milli=9000000000000000000", "", "milli"},
	} {
		r.create(makePod("nonsense-"+name, c.asks, c.says))
		p := r.settled("nonsense-" + name)
		if m := refusal(p); !strings.Contains(m, c.want) {
			t.Errorf("%s: on %q, %q does not name %q", name, p.Spec.NodeName, m, c.want)
		} else {
			t.Logf("%s: %s", name, m)
		}
	}
	wrong := makeNode("wrong", "nvidia.com/gpu=1", "gpu.count=many gpu.replicas=x mig.strategy=maybe")
	wrong.Annotations = map[string]string{kubegpu.AnnotationHAMiRegister: "{]"}
	if _, err := r.admin.CoreV1().Nodes().Create(t.Context(), wrong, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.create(makePod("nonsense-last", "cpu=1", ""))
	if p := r.settled("nonsense-last"); p.Spec.NodeName == "" {
		t.Error("a pod without a GPU is no longer bound: " + refusal(p))
	}
	if r.scheduler.ended() {
		t.Error("the scheduler died")
	}
}
