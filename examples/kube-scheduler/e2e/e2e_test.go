// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

// TestEndToEnd runs everything on one control plane, one part after another.
func TestEndToEnd(t *testing.T) {
	r := newRun(t)
	t.Logf("%d nodes, policy %s, seed %d", len(r.nodes()), r.policy, seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	parts := []struct {
		name string
		run  func(*testing.T, *run, *rand.Rand)
	}{
		{"one by one", oneByOne},
		{"events", reasons},
		{"leaving", leaving},
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

// oneByOne creates pods one after another and compares each with the library's answer. Half-way the scheduler is
// killed, and the next one knows no more than what the API server has.
func oneByOne(t *testing.T, r *run, rng *rand.Rand) {
	var bound, refused, untouched int
	for i, p := range makePods(rng, "pod", manyPods) {
		if i == manyPods/2 {
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
			if !r.library.bind(got) {
				t.Errorf("%s is on %q, which no node is", p.Name, got.Spec.NodeName)
			}
			untouched++
			continue
		}
		allocation, verdicts := r.library.place(asked, r.scorer)
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
			}
			continue
		}
		bound++
		want := where(allocation.Node, allocation.Annotations())
		if is := where(got.Spec.NodeName, got.Annotations); is != want {
			t.Fatalf("%s (%v) is on %s %s, and the library says %s", p.Name, p.Spec.Containers[0].Resources.Requests, is, refusal(got), want)
		}
		if v := got.Annotations[kubegpu.AnnotationVerdict]; !strings.HasPrefix(v, allocation.String()+" by policy "+r.policy) {
			t.Errorf("%s: verdict %q", p.Name, v)
		}
	}
	t.Logf("%d pods: %d bound to the node and the GPUs that the library says, %d refused where it refuses, %d without a GPU", manyPods, bound, refused, untouched)
	if bound < manyPods/4 || refused < manyPods/10 {
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
	for _, reason := range slices.Sorted(maps.Keys(want)) {
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

// leaving deletes pods one after another, and holds that those that waited take
// their place, as the library places them.
func leaving(t *testing.T, r *run, rng *rand.Rand) {
	before := r.consistent()
	var bound []string
	for _, p := range r.pods() {
		if p.Spec.NodeName != "" && p.Annotations[kubegpu.AnnotationVerdict] != "" {
			bound = append(bound, p.Name)
		}
	}
	slices.Sort(bound)
	rng.Shuffle(len(bound), func(i, j int) { bound[i], bound[j] = bound[j], bound[i] })
	gone := bound[:len(bound)/4]
	waiting := before
	for _, name := range gone {
		r.remove(name)
		r.library.remove(namespace + "/" + name)
		after := r.consistent()
		r.placedInOrder(slices.DeleteFunc(slices.Clone(waiting), func(name string) bool { return slices.Contains(after, name) }))
		waiting = after
	}
	t.Logf("%d pods waited; %d others left, and %d of those that waited are bound where the library puts them; no pod waits that would fit",
		len(before), len(gone), len(before)-len(waiting))
	if len(waiting) >= len(before) {
		t.Error("nobody took the place of those that left")
	}
}

// nonsense creates pods and nodes that make no sense, and holds that the scheduler says so and goes on.
func nonsense(t *testing.T, r *run, _ *rand.Rand) {
	for _, c := range []struct{ name, asks, says, want string }{
		{"trust", "cpu=1 nvidia.com/gpu=1", "trusts=,", "metadata.annotations[cotenant.dev/trusts]"},
		{"memory", "cpu=1 nvidia.com/gpu=1", "gpu-memory=much", "metadata.annotations[cotenant.dev/gpu-memory]"},
		{"slowdown", "cpu=1 nvidia.com/gpu=1", "max-slowdown=-1", "metadata.annotations[cotenant.dev/max-slowdown]"},
		{"profile", "cpu=1 nvidia.com/mig-9g.1gb=1", "", "gpu "},
		{"huge", "cpu=1 cotenant.dev/gpu-milli=9000000000000000000", "", "milli"},
	} {
		r.create(makePod("nonsense-"+c.name, c.asks, c.says))
		p := r.settled("nonsense-" + c.name)
		if m := refusal(p); !strings.Contains(m, c.want) {
			t.Errorf("%s: on %q, %q does not name %q", c.name, p.Spec.NodeName, m, c.want)
		} else {
			t.Logf("%s: %s", c.name, m)
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
