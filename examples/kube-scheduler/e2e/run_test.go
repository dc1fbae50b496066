// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

const (
	manyPods = 200
	seed     = 42
)

// run is a control plane with nodes, and the library that says what should come of each pod.
type run struct {
	*control
	scorer  *placement.Scorer
	policy  string
	library *library
}

func newRun(t *testing.T) *run {
	t.Helper()
	c := newControl(t)
	args := pluginArgs(t)
	scorer, err := args.Scorer()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range makeNodes() {
		if _, err := c.admin.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r := &run{control: c, scorer: scorer, policy: scorer.Policy.Name()}
	// What the library gets is what the API server kept.
	r.library = newLibrary(r.nodes(), nil)
	r.schedule()
	t.Cleanup(r.quiet)
	return r
}

// quiet holds that the scheduler was refused nothing that it asked the API server for, and did not panic.
func (r *run) quiet() {
	data, err := os.ReadFile(r.scheduler.log)
	if err != nil {
		r.root.Error(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, "forbidden") || strings.Contains(strings.ToLower(line), "panic") {
			r.root.Errorf("the scheduler says: %s", line)
		}
	}
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

// consistent holds that what the annotations of the bound pods say can be true all
// at once, and that no pod waits that a node would take. It reports the waiting.
func (r *run) consistent() []string {
	r.t.Helper()
	var waiting []string
	var fits string
	defer func() {
		if r.t.Failed() && fits != "" {
			r.t.Log(fits)
		}
	}()
	// A pod that could be bound is bound soon: the scheduler backs off for up to ten seconds after each failure.
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
		waiting, fits = nil, ""
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
				if _, _, v := state.Plan(asked, r.scorer); v.Ruling == filter.VerdictPass {
					fits = p.Name + " waits, and fits on " + n.Name
					return false
				}
			}
		}
		for _, p := range idle {
			waiting = append(waiting, p.Name)
		}
		return true
	})
	return waiting
}
