// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

const hashLabel = "pod-template-hash"

// set is a Deployment or a StatefulSet as its controller sees it.
type set struct {
	name, kind, hash   string
	uid                types.UID
	generation         int64
	replicas           int
	surge, unavailable int
	template           v1.PodTemplateSpec
}

func (w *world) sets() []set {
	ctx, list := w.t.Context(), metav1.ListOptions{}
	deployments, err := w.admin.AppsV1().Deployments("team").List(ctx, list)
	w.must(err)
	var out []set
	add := func(kind string, m metav1.ObjectMeta, replicas *int32, t v1.PodTemplateSpec) *set {
		text, err := json.Marshal(t)
		w.must(err)
		h := fnv.New32a()
		h.Write(text)
		out = append(out, set{name: m.Name, kind: kind, hash: strconv.FormatUint(uint64(h.Sum32()), 36), uid: m.UID, generation: m.Generation, replicas: int(*replicas), template: t})
		return &out[len(out)-1]
	}
	for _, d := range deployments.Items {
		s := add("Deployment", d.ObjectMeta, d.Spec.Replicas, d.Spec.Template)
		r := d.Spec.Strategy.RollingUpdate
		s.surge, err = intstr.GetScaledValueFromIntOrPercent(r.MaxSurge, s.replicas, true)
		w.must(err)
		s.unavailable, err = intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, s.replicas, false)
		w.must(err)
	}
	stateful, err := w.admin.AppsV1().StatefulSets("team").List(ctx, list)
	w.must(err)
	for _, s := range stateful.Items {
		add("StatefulSet", s.ObjectMeta, s.Spec.Replicas, s.Spec.Template)
	}
	return out
}

// newPod makes a pod of a set's template, as its controller does: of a Deployment by way of a ReplicaSet.
func (w *world) newPod(s set, ordinal int) *v1.Pod {
	ctx, yes := w.t.Context(), true
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Labels: map[string]string{"app": s.name, hashLabel: s.hash}}, Spec: *s.template.Spec.DeepCopy()}
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: s.kind, Name: s.name, UID: s.uid, Controller: &yes}
	if s.kind == "Deployment" {
		name, n := s.name+"-"+s.hash, int32(s.replicas)
		rs, err := w.admin.AppsV1().ReplicaSets("team").Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			template := s.template.DeepCopy()
			template.Labels = p.Labels
			rs, err = w.admin.AppsV1().ReplicaSets("team").Create(ctx, &appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{owner}},
				Spec:       appsv1.ReplicaSetSpec{Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: p.Labels}, Template: *template}}, metav1.CreateOptions{})
		}
		w.must(err)
		owner.Kind, owner.Name, owner.UID = "ReplicaSet", name, rs.UID
		p.GenerateName = name + "-"
	} else {
		p.Name = fmt.Sprintf("%s-%d", s.name, ordinal)
	}
	p.OwnerReferences = []metav1.OwnerReference{owner}
	p, err := w.admin.CoreV1().Pods("team").Create(ctx, p, metav1.CreateOptions{})
	w.must(err)
	w.moved++
	return p
}

// bind is the scheduler's last act, and the kubelet's: the pod runs, and is ready.
func (w *world) bind(p *v1.Pod, node string) {
	ctx := w.t.Context()
	w.must(w.admin.CoreV1().Pods("team").Bind(ctx, &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: v1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{}))
	p, err := w.admin.CoreV1().Pods("team").Get(ctx, p.Name, metav1.GetOptions{})
	w.must(err)
	p.Status.Phase = v1.PodRunning
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	_, err = w.admin.CoreV1().Pods("team").UpdateStatus(ctx, p, metav1.UpdateOptions{})
	w.must(err)
}

func (w *world) stop(p *v1.Pod) {
	now := int64(0)
	w.must(w.admin.CoreV1().Pods("team").Delete(w.t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// settle lets everybody act until nobody has anything to do. Every act is followed by a look at all that must hold.
func (w *world) settle() {
	w.t.Helper()
	for range 1000 {
		acted := w.plug()
		if !acted {
			acted = w.schedule()
		}
		if !acted {
			acted = slices.ContainsFunc(w.sets(), w.roll)
		}
		w.hold()
		if !acted {
			for _, s := range w.sets() {
				w.report(s)
			}
			return
		}
	}
	w.t.Fatal("the cluster does not come to rest")
}

// report writes a workload's status as its controller does.
func (w *world) report(s set) {
	pods, updated := w.podsOf(s.name), 0
	for _, p := range pods {
		if p.Labels[hashLabel] == s.hash {
			updated++
		}
	}
	status := fmt.Appendf(nil, `{"status": {"observedGeneration": %d, "replicas": %d, "updatedReplicas": %d}}`, s.generation, len(pods), updated)
	w.must(w.admin.AppsV1().RESTClient().Patch(types.MergePatchType).Namespace("team").Resource(strings.ToLower(s.kind) + "s").
		Name(s.name).SubResource("status").Body(status).Do(w.t.Context()).Error())
}

// roll is one act of a workload's controller. Of a Deployment's old pods those go first that its new ones would not
// replace where they are: what a plan must be able to bear.
func (w *world) roll(s set) bool {
	pods := w.podsOf(s.name)
	running := 0
	var old []v1.Pod
	for _, p := range pods {
		if p.Status.Phase == v1.PodRunning {
			running++
		}
		if p.Labels[hashLabel] != s.hash {
			old = append(old, p)
		}
	}
	if s.kind == "StatefulSet" {
		w.pending = ""
		for i := s.replicas - 1; i >= 0; i-- {
			at := slices.IndexFunc(pods, func(p v1.Pod) bool { return p.Name == fmt.Sprintf("%s-%d", s.name, i) })
			switch {
			case at < 0:
				w.pending = s.name
				w.newPod(s, i)
				return true
			case pods[at].Status.Phase != v1.PodRunning:
				w.pending = s.name
				return false
			case pods[at].Labels[hashLabel] != s.hash:
				w.pending = s.name
				w.stop(&pods[at])
				return true
			}
		}
		return false
	}
	if fresh := len(pods) - len(old); fresh < s.replicas && len(pods) < s.replicas+s.surge {
		w.newPod(s, 0)
		return true
	}
	if len(old) > 0 && running > s.replicas-s.unavailable {
		slices.SortFunc(old, func(x, y v1.Pod) int {
			stays := func(p v1.Pod) int {
				if p.Spec.NodeName != "" && w.allows(&s.template.Spec, w.node(p.Spec.NodeName)) {
					return 1
				}
				return 0
			}
			if d := stays(x) - stays(y); d != 0 {
				return d
			}
			return strings.Compare(x.Name, y.Name)
		})
		w.stop(&old[0])
		return true
	}
	return false
}

// schedule binds one pod that waits, on the node that it prefers, or else the emptiest.
func (w *world) schedule() bool {
	for _, p := range w.pods() {
		if p.Spec.NodeName != "" {
			continue
		}
		best, most := "", -1
		for _, n := range w.nodes() {
			if n.Spec.Unschedulable || !w.allows(&p.Spec, &n) {
				continue
			}
			fits, score := true, 0
			for r, q := range asked(&p.Spec) {
				free := n.Status.Allocatable[r]
				left := int(free.Value()) - w.held(n.Name, r) - int(q)
				fits, score = fits && left >= 0, left
			}
			if prefers(p.Spec.Affinity, &n) {
				score += 10_000
			}
			if fits && score > most {
				best, most = n.Name, score
			}
		}
		if best != "" {
			w.bind(&p, best)
			return true
		}
	}
	return false
}

// asked returns what a pod asks the device plugin for.
func asked(s *v1.PodSpec) map[v1.ResourceName]int64 {
	out := map[v1.ResourceName]int64{}
	for _, c := range s.Containers {
		for r, q := range c.Resources.Limits {
			if strings.HasPrefix(string(r), "nvidia.com/") {
				out[r] += q.Value()
			}
		}
	}
	return out
}

func (w *world) held(node string, r v1.ResourceName) (n int) {
	for _, p := range w.pods() {
		if p.Spec.NodeName == node {
			n += int(asked(&p.Spec)[r])
		}
	}
	return n
}

// allows is the scheduler's reading of a pod's node selector and required affinity.
func (w *world) allows(s *v1.PodSpec, n *v1.Node) bool {
	for k, v := range s.NodeSelector {
		if n.Labels[k] != v {
			return false
		}
	}
	if s.Affinity == nil {
		return true
	}
	terms := s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return allow(terms, n)
}

// prefers reports whether a pod's preferred node affinity, if it has one, is for a node.
func prefers(a *v1.Affinity, n *v1.Node) bool {
	return a != nil && slices.ContainsFunc(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution, func(t v1.PreferredSchedulingTerm) bool {
		return allow([]v1.NodeSelectorTerm{t.Preference}, n)
	})
}

// allow reports whether one of the terms holds on a node.
func allow(terms []v1.NodeSelectorTerm, n *v1.Node) bool {
	s, err := nodeaffinity.NewNodeSelector(&v1.NodeSelector{NodeSelectorTerms: terms})
	return err == nil && s.Match(n)
}

// hold looks at what must always hold: a device for each running pod, and as many replicas as there are to be, but one
// of a StatefulSet that its rollout is at.
func (w *world) hold() {
	w.t.Helper()
	for _, n := range w.nodes() {
		for r, q := range n.Status.Allocatable {
			if strings.HasPrefix(string(r), "nvidia.com/") && w.held(n.Name, r) > int(q.Value()) {
				w.t.Fatalf("%s hands out %v of %s, and pods there have %d", n.Name, q.Value(), r, w.held(n.Name, r))
			}
		}
	}
	for _, p := range w.pods() {
		for r := range asked(&p.Spec) {
			if p.Spec.NodeName == "" {
				continue
			}
			if q := w.node(p.Spec.NodeName).Status.Allocatable[r]; q.Value() == 0 {
				w.t.Fatalf("%s runs on %s, which has no %s", p.Name, p.Spec.NodeName, r)
			}
		}
	}
	for _, s := range w.sets() {
		running := 0
		for _, p := range w.podsOf(s.name) {
			if p.Status.Phase == v1.PodRunning {
				running++
			}
		}
		least := s.replicas - s.unavailable
		if s.name == w.pending {
			least--
		}
		if running < least {
			w.t.Fatalf("%d of %d replicas of %s run", running, s.replicas, s.name)
		}
	}
}

// state describes what a way back must restore: what nodes hand out and whether they take pods, templates, and on which
// kind of device pods are.
func (w *world) state() string {
	var out []string
	kinds := map[string]string{}
	for _, n := range w.nodes() {
		devices := []string{}
		for r, q := range n.Status.Allocatable {
			if strings.HasPrefix(string(r), "nvidia.com/") && q.Value() > 0 {
				devices = append(devices, fmt.Sprintf("%s=%d", r, q.Value()))
			}
		}
		slices.Sort(devices)
		kinds[n.Name] = n.Labels["nvidia.com/gpu.sharing-strategy"]
		out = append(out, fmt.Sprintf("%s %v %s config=%q closed=%t", n.Name, devices, kinds[n.Name], n.Labels["nvidia.com/device-plugin.config"], n.Spec.Unschedulable))
	}
	for _, s := range w.sets() {
		var on []string
		for _, p := range w.podsOf(s.name) {
			on = append(on, fmt.Sprint(asked(&p.Spec), kinds[p.Spec.NodeName]))
		}
		slices.Sort(on)
		out = append(out, fmt.Sprintf("%s %s %d %v", s.name, s.hash, s.replicas, on))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
