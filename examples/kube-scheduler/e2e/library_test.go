// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

// library places pods one after another on nodes by package kubegpu, without a scheduler.
type library struct {
	nodes   map[string]*kubegpu.Node
	running map[string][]kubegpu.Running
}

func newLibrary(nodes []*v1.Node, bound []*v1.Pod) *library {
	l := &library{map[string]*kubegpu.Node{}, map[string][]kubegpu.Running{}}
	for _, n := range nodes {
		l.nodes[n.Name] = kubegpu.ReadNode(n)
	}
	for _, p := range bound {
		l.bind(p)
	}
	return l
}

// place puts a pod on the best node; without one it returns the rulings.
func (l *library) place(p *kubegpu.Pod, scorer *placement.Scorer) (a *kubegpu.Allocation, refused map[string]kubegpu.Ruling) {
	var names []string
	var scores []float64
	plans, refused := map[string]*kubegpu.Allocation{}, map[string]kubegpu.Ruling{}
	for name, n := range l.nodes {
		one, score, v := kubegpu.NewState(n, l.running[name]).Plan(p, scorer)
		if plans[name], refused[name] = one, v; one != nil {
			names, scores = append(names, name), append(scores, score)
		}
	}
	if best := kubegpu.Best(names, scores); best >= 0 {
		a = plans[names[best]]
		l.running[a.Node] = append(l.running[a.Node], kubegpu.Running{Pod: p, Allocation: a})
	}
	return a, refused
}

// remove takes the pod of a name (namespace/name) off.
func (l *library) remove(name string) {
	for node, on := range l.running {
		l.running[node] = slices.DeleteFunc(on, func(r kubegpu.Running) bool { return r.Pod != nil && r.Pod.Name == name })
	}
}

// bind takes note of a pod that somebody else bound, and reports whether its node is known.
func (l *library) bind(p *v1.Pod) bool {
	n, known := l.nodes[p.Spec.NodeName]
	if r, _ := kubegpu.ReadRunning(p, n, nil); known {
		l.running[p.Spec.NodeName] = append(l.running[p.Spec.NodeName], r)
	}
	return known
}
