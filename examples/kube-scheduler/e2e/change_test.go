// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

// patience is how long a pod may wait for what it is owed: less than the five
// minutes after which the scheduler retries pods whether or not anything changed.
const patience = time.Minute

// boundSoon waits until a pod is bound.
func (r *run) boundSoon(name string) *v1.Pod {
	r.t.Helper()
	var p *v1.Pod
	r.wait(r.scheduler, name+" to be bound", patience, func() bool {
		p = r.get(name)
		return p.Spec.NodeName != ""
	})
	return p
}

// forged creates a pod that brings the annotations of an allocation with it: they
// are worth nothing before it is bound, and the scheduler's after.
func (r *run) forged(t *testing.T) {
	for i, says := range []string{
		"node=h100-1 gpu=99 mechanism=mps share=1m verdict=mine",
		"node=t4-1 gpu=0;;0 mechanism=magic share=",
	} {
		p := makePod(fmt.Sprintf("forged-%d", i), "cpu=1 cotenant.dev/gpu-milli=1", says)
		p.Annotations[kubegpu.AnnotationTenant] = fmt.Sprint("forger-", i)
		r.create(p)
		got := r.settled(p.Name)
		if got.Spec.NodeName == "" {
			r.refusedAlike(got)
			continue
		}
		r.placedAlike(got)
		if got.Annotations[kubegpu.AnnotationVerdict] == "mine" {
			t.Errorf("%s kept its own verdict", p.Name)
		}
		t.Logf("%s, created with %q, is on %s", p.Name, says, where(got.Spec.NodeName, got.Annotations))
	}
}

// eventNotes are the texts of the events of a reason about a pod.
func (r *run) eventNotes(pod, reason string) []string {
	r.t.Helper()
	list, err := r.admin.CoreV1().Events(namespace).List(r.t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Pod,involvedObject.name=" + pod + ",reason=" + reason})
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		out = append(out, e.Message)
	}
	return out
}

// exactReasons creates pods that no node takes, and holds that their events say
// what the library says: of how many nodes, and in which words.
func (r *run) exactReasons(t *testing.T) {
	for i, ask := range []string{"nvidia.com/gpu=16", "nvidia.com/mig-1g.5gb=1", "nvidia.com/gpu=1 nvidia.com/gpumem=400000", "cotenant.dev/gpu-milli=16000"} {
		p := makePod(fmt.Sprintf("no-room-%d", i), "cpu=1 "+ask, "tenant=nobody")
		r.create(p)
		got := r.settled(p.Name)
		verdicts := r.refusedAlike(got)
		nodes := map[string][]string{}
		for _, node := range slices.Sorted(maps.Keys(verdicts)) {
			nodes[verdicts[node].Code] = append(nodes[verdicts[node].Code], node)
		}
		var notes []string
		r.wait(r.scheduler, "events of "+p.Name, patience, func() bool {
			notes = r.eventNotes(p.Name, "GPUUnplaced")
			return len(notes) > 0 && len(r.eventNotes(p.Name, "FailedScheduling")) > 0
		})
		failed := r.eventNotes(p.Name, "FailedScheduling")[0]
		full, cut := strings.CutSuffix(notes[0], " ...")
		for code, names := range nodes {
			if want := fmt.Sprintf("%d gpu %s: ", len(names), code); !strings.Contains(failed, want) || !strings.Contains(refusal(got), want) {
				t.Errorf("%s: FailedScheduling does not say %q: %s", p.Name, want, failed)
			}
			want := fmt.Sprintf("%d %s (%s: %s)", len(names), code, names[0], verdicts[names[0]].Text)
			if !cut && !strings.Contains(full, want) {
				t.Errorf("%s: GPUUnplaced does not say %q: %s", p.Name, want, full)
			}
		}
		t.Logf("%s asks for %s\n  FailedScheduling: %s\n  GPUUnplaced: %s", p.Name, ask, failed, notes[0])
		r.remove(p.Name)
	}
}

// nodesChange holds that pods which wait are tried again when nodes change: one
// comes that would take them, and one corrects a label that lied.
func (r *run) nodesChange(t *testing.T) {
	asks := "cpu=1 nvidia.com/gpu=1"
	r.create(makePod("waits-for-node", asks, "models=GB200"))
	r.create(makePod("waits-for-label", asks, "models=B200"))
	for _, name := range []string{"waits-for-node", "waits-for-label"} {
		if p := r.settled(name); p.Spec.NodeName != "" {
			t.Fatalf("%s is on %s, which has no such GPU", name, p.Spec.NodeName)
		}
	}
	ctx := t.Context()
	for name, labels := range map[string]string{
		"new-gb200": "gpu.product=NVIDIA-GB200 gpu.count=4",
		"new-b200":  "gpu.product=NVIDIA-B200 gpu.count=8", // and it has four
	} {
		if _, err := r.admin.CoreV1().Nodes().Create(ctx, makeNode(name, "nvidia.com/gpu=4", labels), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p := r.boundSoon("waits-for-node")
	if p.Spec.NodeName != "new-gb200" {
		t.Errorf("%s is on %s", p.Name, p.Spec.NodeName)
	}
	t.Logf("%s is on %s once that is there", p.Name, where(p.Spec.NodeName, p.Annotations))
	if p := r.get("waits-for-label"); p.Spec.NodeName != "" {
		t.Errorf("%s is on %s, whose labels contradict its capacity", p.Name, p.Spec.NodeName)
	}
	n, err := r.admin.CoreV1().Nodes().Get(ctx, "new-b200", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Labels["nvidia.com/gpu.count"] = "4"
	if _, err := r.admin.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p = r.boundSoon("waits-for-label")
	if p.Spec.NodeName != "new-b200" {
		t.Errorf("%s is on %s", p.Name, p.Spec.NodeName)
	}
	t.Logf("%s is on %s once its labels tell the truth", p.Name, where(p.Spec.NodeName, p.Annotations))
}

// crashes kills the scheduler while it binds pods, and stops it as a deployment does. What was decided and not bound is
// decided again; nothing is lost or given twice.
func (r *run) crashes(t *testing.T) {
	// Room for some.
	for _, p := range r.pods() {
		if strings.HasPrefix(p.Name, "at-once-") {
			r.remove(p.Name)
		}
	}
	const n = 60
	for i := range n {
		ask := []string{"nvidia.com/gpu=1", "cotenant.dev/gpu-milli=300", "nvidia.com/mig-1g.10gb=1"}[i%3]
		r.create(makePod(fmt.Sprintf("crash-%02d", i), "cpu=1 memory=1Gi "+ask, ""))
	}
	early := func() (bound, annotated int) {
		for _, p := range r.pods() {
			switch {
			case !strings.HasPrefix(p.Name, "crash-"):
			case p.Spec.NodeName != "":
				bound++
			case p.Annotations[kubegpu.AnnotationVerdict] != "":
				annotated++
			}
		}
		return bound, annotated
	}
	r.wait(r.scheduler, "some pods to be bound", patience, func() bool { bound, _ := early(); return bound >= n/6 })
	r.scheduler.kill()
	bound, annotated := early()
	r.schedule()
	waiting := r.consistent()
	t.Logf("killed while it bound pods: %d of %d were bound, %d annotated and not bound; the next one left %d waiting that no node takes, and gave nothing twice",
		bound, n, annotated, len(waiting))

	if err := r.scheduler.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-r.scheduler.done
	r.create(makePod("while-down", "cpu=1 cotenant.dev/gpu-milli=5", "tenant=late"))
	start := time.Now()
	r.schedule()
	r.settled("while-down")
	t.Logf("stopped; the next one settled a pod that was created meanwhile after %v", time.Since(start).Round(time.Millisecond))
	r.consistent()
}
