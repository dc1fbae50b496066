// SPDX-License-Identifier: Apache-2.0

// Package migration plays plans of a change in simulated clusters. Whether a pod may be on a node, and which pods a
// budget counts, is answered by Kubernetes' own code.
package migration

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	resources "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/internal/nightly"
)

const (
	gpu = v1.ResourceName("nvidia.com/gpu")
	mig = v1.ResourceName("nvidia.com/mig-3g.40gb")
)

// cluster is what runs, as its API server has it.
type cluster struct {
	t       *testing.T
	nodes   map[string]*v1.Node
	pods    []*v1.Pod
	owners  map[string]*v1.PodTemplateSpec // by "Kind/name"
	objects map[string]any
	budgets []*policyv1.PodDisruptionBudget
	held    map[string]bool // owners whose pods follow no patch, or have rules that are not planned with
	freed   map[string]bool // nodes that are given back
	hidden  map[string]bool // nodes that the plan is made without
	plain   bool            // nothing of it is out of the ordinary
}

func pick[T any](rng *rand.Rand, all ...T) T { return all[rng.IntN(len(all))] }

// random makes a cluster of up to 12 nodes with four GPUs each. One in three is plain.
func random(t *testing.T, rng *rand.Rand) *cluster {
	c := &cluster{t: t, nodes: map[string]*v1.Node{}, owners: map[string]*v1.PodTemplateSpec{}, objects: map[string]any{}, held: map[string]bool{}, hidden: map[string]bool{}, freed: map[string]bool{}, plain: rng.IntN(3) == 0}
	often := func(n int) bool { return !c.plain && rng.IntN(n) == 0 }
	free := map[string]int{}
	var names []string
	for i := range 2 + rng.IntN(11) {
		n := &v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{
			"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "4", "nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/gpu.deploy.device-plugin": "true",
			"zone": pick(rng, "a", "b"), "kubernetes.io/hostname": fmt.Sprintf("host-%d", i)}}}
		n.Status.Capacity = v1.ResourceList{gpu: resource.MustParse("4"), "cpu": resource.MustParse(pick(rng, "8", "16", "64")), "memory": resource.MustParse("128Gi"), "pods": resource.MustParse("110"), "ephemeral-storage": resource.MustParse(pick(rng, "3", "100Gi"))}
		for _, name := range []v1.ResourceName{"hugepages-2Mi", "example.com/port", "rdma/hca"} {
			if rng.IntN(3) > 0 {
				n.Status.Capacity[name] = resource.MustParse(pick(rng, "2", "3", "1Gi"))
			}
		}
		free[n.Name] = 4
		if often(5) {
			free[n.Name] = 8
			c.share(n, pick(rng, "time-slicing", "mps", "mig"))
		}
		n.Status.Allocatable = n.Status.Capacity
		c.hidden[n.Name] = often(15)
		if often(10) {
			n.Status.Capacity["pods"] = resource.MustParse("8")
		}
		if often(4) {
			n.Spec.Taints = []v1.Taint{{Key: "team", Value: pick(rng, "x", "y"), Effect: pick(rng, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule)}}
		}
		if often(10) {
			n.Spec.Unschedulable = true
		}
		c.nodes[n.Name] = n
		names = append(names, n.Name)
	}
	for i := range 1 + rng.IntN(10) {
		c.workload(rng, i, free, names, often)
	}
	for i := range rng.IntN(9) {
		if c.plain {
			break
		}
		on := pick(rng, names...)
		p := &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: fmt.Sprintf("other-%d", i), Labels: map[string]string{"app": fmt.Sprintf("other-%d", i)}},
			Spec: v1.PodSpec{Containers: []v1.Container{asking("c", pick(rng, "500m", "500m", "30"), nil)}, NodeSelector: pick(rng, nil, nil, map[string]string{"kubernetes.io/hostname": c.nodes[on].Labels["kubernetes.io/hostname"]})}, Status: v1.PodStatus{Phase: v1.PodRunning}}
		if rng.IntN(3) > 0 {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: pick(rng, "ReplicaSet", "DaemonSet"), Name: "other", Controller: new(bool)}}
			*p.OwnerReferences[0].Controller = true
		}
		if why := c.why(p, on, ""); why != "" && why != "it is cordoned" {
			continue
		}
		p.Spec.NodeName = on
		c.pods = append(c.pods, p)
		for k := range max(0, rng.IntN(6)-3) { // no pod with two budgets is evicted
			c.budget(fmt.Sprintf("keep-%d-%d", i, k), &metav1.LabelSelector{MatchLabels: p.Labels}, int32(rng.IntN(2)))
		}
	}
	return c
}

// asking is a container that asks for CPU.
func asking(name, cpu string, restarts *v1.ContainerRestartPolicy) v1.Container {
	return v1.Container{Name: name, Image: "x", RestartPolicy: restarts, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse(cpu)}}}
}

// share lets a node hand out two slots of each GPU, or two instances.
func (c *cluster) share(n *v1.Node, mode string) {
	n.Labels["nvidia.com/gpu.sharing-strategy"], n.Labels["nvidia.com/gpu.replicas"] = mode, "2"
	n.Labels["nvidia.com/gpu.product"] += "-SHARED"
	amount := gpu
	if mode == "mig" {
		amount = mig
		n.Labels["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-80GB"
		n.Labels["nvidia.com/gpu.sharing-strategy"], n.Labels["nvidia.com/gpu.replicas"] = "none", "1"
		n.Labels["nvidia.com/mig.strategy"], n.Labels[string(mig)+".count"] = "mixed", "8"
	}
	delete(n.Status.Capacity, gpu)
	n.Status.Capacity[amount] = resource.MustParse("8")
}

// class is the kind of device that a node hands out: the first letter of names of workloads on such.
func class(n *v1.Node) string {
	switch {
	case n.Labels["nvidia.com/mig.strategy"] != "":
		return "m"
	case n.Labels["nvidia.com/gpu.sharing-strategy"] != "none":
		return "s"
	}
	return "w"
}

// rule gives a workload a rule that is not planned with.
func rule(rng *rand.Rand, name string, spec *v1.PodSpec) {
	near := []v1.PodAffinityTerm{{TopologyKey: pick(rng, "zone", "kubernetes.io/hostname"), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}}}
	switch rng.IntN(7) {
	case 0:
		spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: near}}
	case 1:
		near[0].TopologyKey = "kubernetes.io/hostname"
		spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: near}}
	case 2: // it keeps others away
		near[0].LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": pick(rng, "front", "back")}}
		spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: near}}
	case 3:
		spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: near[0].LabelSelector}}
	case 4:
		spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: pick(rng, v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}, v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/data"}})}}
	case 6:
		spec.SchedulerName = "volcano"
	case 5:
		spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	}
}

// repels reports whether a pod's anti-affinity keeps another off a node.
func (c *cluster) repels(p, other *v1.Pod, node *v1.Node) bool {
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil && c.nodes[p.Spec.NodeName] != nil {
		for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			s, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
			at := c.nodes[p.Spec.NodeName].Labels[term.TopologyKey]
			if err != nil || s.Matches(labels.Set(other.Labels)) && at == node.Labels[term.TopologyKey] {
				return true
			}
		}
	}
	return false
}

func (c *cluster) budget(name string, s *metav1.LabelSelector, allowed int32) {
	c.budgets = append(c.budgets, &policyv1.PodDisruptionBudget{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}, ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: s}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed}})
}

// workload adds an owner with its pods on nodes that take them.
func (c *cluster) workload(rng *rand.Rand, i int, free map[string]int, names []string, often func(int) bool) {
	on, amount := "w", gpu
	if often(2) {
		on = class(c.nodes[pick(rng, names...)])
	}
	if on == "m" {
		amount = mig
	}
	name, kind := fmt.Sprintf("%s%d", on, i), pick(rng, "Deployment", "Deployment", "Deployment", "StatefulSet")
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name, "tier": pick(rng, "front", "back")}}}
	amounts := v1.ResourceList{amount: resource.MustParse("1")}
	requests := v1.ResourceList{amount: resource.MustParse("1")}
	if often(2) {
		requests["cpu"], requests["memory"] = resource.MustParse(pick(rng, "1", "2500m", "4")), resource.MustParse(pick(rng, "4Gi", "30Gi"))
	}
	if often(3) {
		requests[pick(rng, v1.ResourceEphemeralStorage, "hugepages-2Mi", "example.com/port", "rdma/hca")] = resource.MustParse(pick(rng, "1", "2"))
	}
	template.Spec.Containers = []v1.Container{{Name: "main", Image: "x", Resources: v1.ResourceRequirements{Limits: amounts, Requests: requests}}}
	if often(3) {
		template.Spec.Containers = append(template.Spec.Containers, asking("side", "1", nil))
	}
	if always := v1.ContainerRestartPolicyAlways; often(4) {
		template.Spec.InitContainers = []v1.Container{pick(rng, asking("a", "2", &always), asking("a", "5", nil)), pick(rng, asking("b", "1500m", &always), asking("b", "6", nil))}
	}
	if often(6) {
		template.Spec.Overhead = v1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}
	}
	if often(12) {
		template.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("7")}}
	}
	if often(3) {
		template.Spec.Tolerations = []v1.Toleration{pick(rng, v1.Toleration{Key: "team", Operator: v1.TolerationOpExists}, v1.Toleration{Key: "team", Value: "x"}, v1.Toleration{Operator: v1.TolerationOpExists})}
	}
	if often(4) {
		template.Spec.NodeSelector = map[string]string{"zone": pick(rng, "a", "b")}
	}
	if often(4) {
		template.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: pick(rng, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn), Values: []string{pick(rng, "a", "b", "c")}}}}}}}}
	}
	if often(8) {
		c.held[kind+"/"+name] = true
		rule(rng, name, &template.Spec)
	}
	replicas := int32(1 + rng.IntN(3))
	own := &metav1.OwnerReference{Kind: kind, Name: name, Controller: new(bool)}
	*own.Controller = true
	meta := metav1.ObjectMeta{Namespace: "t", Name: name}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	var object any
	if often(8) { // what nothing plans with
		kind = pick(rng, "Job", "CronJob", "DaemonSet", "ReplicaSet", "Node", "")
		own.Kind, c.held[kind+"/"+name] = kind, true
	}
	several := replicas > 1 && often(10) // its rollout is under way
	c.held[kind+"/"+name] = c.held[kind+"/"+name] || several
	switch kind {
	case "Deployment":
		d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: kind}, ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template}}
		if d.Spec.Paused = often(8); often(8) {
			d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		}
		c.held[kind+"/"+name] = c.held[kind+"/"+name] || d.Spec.Paused || d.Spec.Strategy.Type != ""
		object = d
	case "StatefulSet":
		s := &appsv1.StatefulSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: kind}, ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: selector, Template: template}}
		if one := int32(1); often(4) {
			s.Spec.UpdateStrategy = pick(rng, appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}, appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &one}})
			c.held[kind+"/"+name] = true
		}
		object = s
		c.budget(name, selector, int32(rng.IntN(2)))
		if often(3) {
			c.budget(name+"-more", pick(rng, &metav1.LabelSelector{}, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: pick(rng, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), Values: []string{"front"}}}},
				&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}}), int32(rng.IntN(2)))
		}
	}
	if c.owners[kind+"/"+name] = &template; object != nil {
		c.objects[kind+"/"+name] = object
	}
	for k := range int(replicas) {
		p := &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: fmt.Sprintf("%s-%d", name, k), Labels: map[string]string{}, OwnerReferences: []metav1.OwnerReference{*own}}, Spec: *template.Spec.DeepCopy(), Status: v1.PodStatus{Phase: v1.PodRunning}}
		maps.Copy(p.Labels, template.Labels)
		hash := map[bool]string{true: "5f6d8c", false: "77c9b4"}[several && k == 0]
		switch kind {
		case "Deployment":
			p.Labels["pod-template-hash"], p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = hash, "ReplicaSet", name+"-"+hash
		case "StatefulSet":
			p.Labels["controller-revision-hash"] = hash
		case "":
			p.OwnerReferences = nil
		}
		for _, n := range rng.Perm(len(names)) {
			if free[names[n]] > 0 && class(c.nodes[names[n]]) == on && c.why(p, names[n], "") == "" {
				p.Spec.NodeName = names[n]
				free[names[n]]--
				break
			}
		}
		if p.Spec.NodeName == "" {
			p.Status.Phase = v1.PodPending
		} else if !several && often(12) {
			p.DeletionTimestamp = &metav1.Time{}
			p.DeletionTimestamp.UnmarshalText([]byte("2026-11-01T00:00:00Z"))
		} else if c.hidden[p.Spec.NodeName] {
			c.held[kind+"/"+name] = true
		}
		c.pods = append(c.pods, p)
	}
}

// why says why a node does not take a pod, by Kubernetes' own predicates and what is free; but counts as gone.
func (c *cluster) why(p *v1.Pod, node, but string) string {
	n := c.nodes[node]
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); !ok || err != nil {
		return fmt.Sprintf("its affinity does not match (%v)", err)
	}
	if taint, bad := corev1.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, p.Spec.Tolerations, func(t *v1.Taint) bool { return t.Effect != v1.TaintEffectPreferNoSchedule }, false); bad {
		return "it does not tolerate " + taint.Key
	}
	if n.Spec.Unschedulable {
		return "it is cordoned"
	}
	for _, other := range c.pods {
		other, next := *other, *p
		if next.Spec.NodeName = node; other.Spec.NodeName != "" && other.Name != but && (c.repels(&other, p, n) || c.repels(&next, &other, c.nodes[other.Spec.NodeName])) {
			return other.Name + " and it keep apart"
		}
	}
	asks := resources.PodRequests(p, resources.PodResourcesOptions{})
	asks["pods"] = resource.MustParse("1")
	for name, q := range asks {
		left := n.Status.Allocatable[name].DeepCopy()
		left.Sub(q)
		for _, other := range c.pods {
			if other != p && other.Spec.NodeName == node && other.Name != but {
				taken := resources.PodRequests(other, resources.PodResourcesOptions{})
				taken["pods"] = resource.MustParse("1")
				left.Sub(taken[name])
			}
		}
		if left.Sign() < 0 && !q.IsZero() {
			return fmt.Sprintf("too little %s", name)
		}
	}
	return ""
}

// counting counts the budgets of a pod, and says how many pods the least of them lets be missing.
func (c *cluster) counting(p *v1.Pod) (n int, least int32) {
	least = 1
	for _, b := range c.budgets {
		s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			c.t.Fatal(err)
		}
		if s.Matches(labels.Set(p.Labels)) {
			n, least = n+1, min(least, b.Status.DisruptionsAllowed)
		}
	}
	return n, least
}

// plan is the plan of the cluster as discover reads it, with its files.
func (c *cluster) plan() (*migrate.Plan, map[string][]byte) {
	var items []any
	for _, n := range c.nodes {
		if !c.hidden[n.Name] {
			items = append(items, n)
		}
	}
	for _, p := range c.pods {
		items = append(items, p)
	}
	for _, o := range c.objects {
		items = append(items, o)
	}
	for _, b := range c.budgets {
		items = append(items, b)
	}
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		c.t.Fatal(err)
	}
	hints, err := discover.ParseHints([]byte(`workloads:
  t/w*: {kind: batch, memory: 60GiB, gpu_busy: 0.6, tenant: t}
  t/m*: {kind: batch, memory: 20GiB, gpu_busy: 0.2, tenant: t}
  t/s*: {kind: batch, memory: 10GiB, gpu_busy: 0.1, tenant: t}
`))
	if err != nil {
		c.t.Fatal(err)
	}
	prices, err := discover.ParsePrices([]byte("A100-SXM4-80GB: 3 USD"))
	if err != nil {
		c.t.Fatal(err)
	}
	d := discover.New(discover.Options{Hints: hints, Prices: prices})
	if err := d.Read("objects", strings.NewReader(string(list))); err != nil {
		c.t.Fatal(err)
	}
	found := d.Discover()
	if len(found.Fleet.Pools) == 0 {
		return &migrate.Plan{}, nil
	}
	return c.planned(&found.Fleet)
}

// planned is the plan of a fleet that runs, with its files.
func (c *cluster) planned(fleet *decision.Fleet) (*migrate.Plan, map[string][]byte) {
	plan, err := migrate.Make(c.t.Context(), fleet, decision.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	folder, err := manifest.Migration(plan)
	if err != nil {
		c.t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range folder.Files {
		files[f.Path] = f.Data
	}
	return plan, files
}

// patched is the template of a step's workload with the patch that the plan wrote.
func (c *cluster) patched(s *migrate.Step, files map[string][]byte) *v1.PodTemplateSpec {
	_, name, _ := strings.Cut(s.Workload, "/")
	patch, err := yaml.YAMLToJSON(files["pods/"+strings.ReplaceAll(s.Workload, "/", ".")+".yaml"])
	if err != nil {
		c.t.Fatal(err)
	}
	before, err := json.Marshal(map[string]any{"spec": map[string]any{"template": c.owners[s.Object+"/"+name]}})
	if err != nil {
		c.t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, appsv1.Deployment{})
	var d appsv1.Deployment
	if err == nil {
		err = json.Unmarshal(after, &d)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return &d.Spec.Template
}

// move takes a step on a workload, one replica after another.
func (c *cluster) move(s *migrate.Step, template *v1.PodTemplateSpec, from, to []migrate.Place) {
	_, name, _ := strings.Cut(s.Workload, "/")
	if c.held[s.Object+"/"+name] {
		c.t.Errorf("%s: its pods follow no patch, or its rules are not planned with", s.Title())
	}
	var leave []*v1.Pod
	for _, f := range from {
		n := 0
		for _, p := range c.pods {
			if n < f.Replicas && p.Spec.NodeName == f.Node && p.Labels["app"] == name && p.DeletionTimestamp == nil {
				leave = append(leave, p)
				n++
			}
		}
		if n < f.Replicas {
			c.t.Errorf("%s: %d replicas on %s, not %d", s.Title(), n, f.Node, f.Replicas)
		}
	}
	for _, p := range c.pods { // those that wait are replaced too
		if p.Spec.NodeName == "" && p.Labels["app"] == name {
			leave = append(leave, p)
		}
	}
	for _, place := range to {
		for range place.Replicas {
			next := &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: fmt.Sprintf("%s-next-%d", name, len(c.pods)), Labels: template.Labels}, Spec: *template.Spec.DeepCopy()}
			gone := ""
			if s.Object == "StatefulSet" && len(leave) > 0 && leave[0].Spec.NodeName != "" {
				gone = leave[0].Name
				if _, least := c.counting(leave[0]); least < 1 {
					c.t.Errorf("%s: a budget lets no replica be missing", s.Title())
				}
			}
			if why := c.why(next, place.Node, gone); why != "" {
				c.t.Errorf("%s: %s does not take it: %s", s.Title(), place.Node, why)
			}
			next.Spec.NodeName = place.Node
			if len(leave) > 0 {
				next.Name, next.OwnerReferences = leave[0].Name, leave[0].OwnerReferences
				c.drop(leave[0])
				leave = leave[1:]
			}
			c.pods = append(c.pods, next)
		}
	}
	for _, p := range leave {
		p.Spec = *template.Spec.DeepCopy()
	}
}

// rollout replaces all pods of a workload in a copy of the cluster as its controller does, which may stop any pod first.
func (c cluster) rollout(rng *rand.Rand, s *migrate.Step, template *v1.PodTemplateSpec, planned map[string]int, cordoned []string) {
	_, name, _ := strings.Cut(s.Workload, "/")
	var old []*v1.Pod
	pods, nodes := c.pods, c.nodes
	c.pods, c.nodes = nil, maps.Clone(nodes)
	for _, n := range cordoned {
		c.nodes[n] = nodes[n].DeepCopy()
		c.nodes[n].Spec.Unschedulable = true
	}
	for _, p := range pods {
		p = p.DeepCopy()
		c.pods = append(c.pods, p)
		if p.Labels["app"] == name && p.DeletionTimestamp == nil {
			old = append(old, p)
		}
	}
	rng.Shuffle(len(old), func(i, j int) { old[i], old[j] = old[j], old[i] })
	slices.SortStableFunc(old, func(a, b *v1.Pod) int { return min(1, len(a.Spec.NodeName)) - min(1, len(b.Spec.NodeName)) }) // those that wait first
	room := 0
	for _, n := range planned {
		room += n
	}
	for i, p := range old[:min(room, len(old))] {
		if s.Object == "StatefulSet" {
			c.drop(p)
		}
		next := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: fmt.Sprintf("%s-new-%d", name, i), Labels: template.Labels}, Spec: *template.Spec.DeepCopy()}
		to := ""
		for _, n := range slices.Sorted(maps.Keys(c.nodes)) {
			if !c.freed[n] && (to == "" || planned[n] > 0) && c.why(next, n, "") == "" {
				to = n
			}
		}
		if next.Spec.NodeName = to; to == "" {
			c.t.Errorf("%s: with %d of %d pods replaced no node takes the next", s.Title(), i, len(old))
		}
		planned[to]--
		c.drop(p)
		c.pods = append(c.pods, next)
	}
}

// start lets pods that wait start where a step says, after a patch where they are to ask for other devices.
func (c *cluster) start(s *migrate.Step, files map[string][]byte) {
	_, name, _ := strings.Cut(s.Workload, "/")
	for _, place := range s.To {
		n := 0
		for _, p := range c.pods {
			if n < place.Replicas && p.Labels["app"] == name && p.Spec.NodeName == "" {
				if s.Request && c.held[s.Object+"/"+name] {
					c.t.Errorf("%s: its pods follow no patch", s.Title())
				}
				if s.Request {
					p.Spec = *c.patched(s, files).Spec.DeepCopy()
				}
				if why := c.why(p, place.Node, ""); why != "" {
					c.t.Errorf("%s: %s does not take it: %s", s.Title(), place.Node, why)
				}
				p.Spec.NodeName = place.Node
				n++
			}
		}
	}
}

func (c *cluster) drop(gone *v1.Pod) {
	c.pods = slices.DeleteFunc(slices.Clone(c.pods), func(p *v1.Pod) bool { return p == gone })
}

// drain checks that a node may be drained: nothing with a GPU is on it, and nothing that a drain would break.
func (c *cluster) drain(s *migrate.Step) {
	for _, p := range c.pods {
		if p.Spec.NodeName != s.Node {
			continue
		}
		owner := metav1.GetControllerOf(p)
		budgets, least := c.counting(p)
		switch {
		case len(p.Spec.Containers[0].Resources.Limits) > 0:
			c.t.Errorf("%s: %s holds a GPU", s.Title(), p.Name)
		case owner == nil:
			c.t.Errorf("%s: nothing starts %s again", s.Title(), p.Name)
		case owner.Kind != "DaemonSet" && (least < 1 || budgets > 1):
			c.t.Errorf("%s: a budget keeps %s", s.Title(), p.Name)
		case owner.Kind != "DaemonSet" && !slices.ContainsFunc(slices.Collect(maps.Keys(c.nodes)), func(n string) bool {
			return n != s.Node && !c.freed[n] && c.why(p, n, "") == ""
		}):
			c.t.Errorf("%s: no other node takes %s", s.Title(), p.Name)
		}
	}
}

// configure lets a node hand out its GPUs as a step says, and returns what it handed out.
func (c *cluster) configure(s *migrate.Step, to v1.ResourceList) (was v1.ResourceList) {
	n := c.nodes[s.Node]
	was = n.Status.Allocatable
	if n.Status.Allocatable = to; to != nil {
		return was
	}
	n.Status.Allocatable = maps.Clone(was)
	maps.DeleteFunc(n.Status.Allocatable, func(k v1.ResourceName, _ resource.Quantity) bool { return k == gpu || k == mig })
	add := func(name v1.ResourceName, k int64) {
		all := n.Status.Allocatable[name]
		all.Add(*resource.NewQuantity(k, resource.DecimalSI))
		n.Status.Allocatable[name] = all
	}
	for i := range s.Gets.Devices {
		d := &s.Gets.Devices[i]
		if len(d.Instances) == 0 {
			add(gpu, int64(max(1, d.Slots)))
		}
		for _, in := range d.Instances {
			add(v1.ResourceName("nvidia.com/mig-"+in.Profile.Name), 1)
		}
	}
	return was
}

// runs counts the pods of each workload by node.
func (c *cluster) runs() string {
	on := map[string]int{}
	for _, p := range c.pods {
		on[p.Labels["app"]+" on "+p.Spec.NodeName]++
	}
	return fmt.Sprint(on)
}

// nodesOf counts the replicas of a workload in a layout by node.
func nodesOf(l *layout.Cluster, workload string) map[string]int {
	on := map[string]int{}
	for n := range l.Nodes() {
		on[n.Name] = n.Replicas()[workload]
	}
	return on
}

// cordons are the nodes that the way back of a step keeps the pods off.
func cordons(page []byte, step int) []string {
	_, text, _ := strings.Cut(string(page), fmt.Sprintf("\n## %d. ", step))
	text, _, _ = strings.Cut(text, "\n## ")
	if m := regexp.MustCompile("`kubectl cordon ([^`]*)`, which keeps").FindStringSubmatch(text); m != nil {
		return strings.Fields(m[1])
	}
	return nil
}

// play takes a plan's steps, from each the way back and the step again, and in the end all of them back.
func (c *cluster) play(rng *rand.Rand, p *migrate.Plan, files map[string][]byte) {
	before := c.runs()
	var back []func()
	for i := range p.Steps {
		s := &p.Steps[i]
		_, name, _ := strings.Cut(s.Workload, "/")
		take, undo := func() { c.drain(s); c.freed[s.Node] = true }, func() { c.freed[s.Node] = false }
		switch {
		case s.Action == "configure":
			var was v1.ResourceList
			take = func() { c.drain(s); was = c.configure(s, nil) }
			undo = func() { c.drain(s); c.configure(s, was) }
		case s.Action == "move" && len(s.From) == 0:
			had := map[*v1.Pod]bool{}
			for _, one := range c.pods {
				had[one] = one.Spec.NodeName == "" && one.Labels["app"] == name
			}
			take = func() { c.start(s, files) }
			undo = func() {
				for one, waited := range had {
					if waited {
						one.Spec = *c.owners[s.Object+"/"+name].Spec.DeepCopy()
					}
				}
			}
		case s.Action == "move":
			take = func() {
				c.rollout(rng, s, c.patched(s, files), nodesOf(p.After, s.Workload), nil)
				c.move(s, c.patched(s, files), s.From, s.To)
			}
			undo = func() {
				c.rollout(rng, s, c.owners[s.Object+"/"+name], nodesOf(p.Today, s.Workload), cordons(files["plan.md"], i+1))
				c.move(s, c.owners[s.Object+"/"+name], s.To, s.From)
			}
		}
		take()
		undo()
		take()
		back = append(back, undo)
	}
	for i := len(back) - 1; i >= 0; i-- {
		back[i]()
	}
	if after := c.runs(); after != before {
		c.t.Errorf("after all steps and back:\n%s\nbefore:\n%s", after, before)
	}
}

// TestSteps plays the plans of random clusters, and the ways back from each step and from the last.
func TestSteps(t *testing.T) {
	plain, changed, hostile, moved, shared, configured := 0, 0, 0, 0, 0, 0
	for seed := range uint64(nightly.Cases(300, 2000)) {
		rng := rand.New(rand.NewPCG(seed, 55))
		c := random(t, rng)
		p, files := c.plan()
		if c.plain {
			plain++
		}
		if p.Changes() && c.plain {
			changed++
		} else if p.Changes() {
			hostile++
		}
		for i := range p.Steps {
			if s := &p.Steps[i]; s.Action == "configure" {
				configured++
			} else if len(s.From) > 0 {
				moved++
				if s.Workload[:3] != "t/w" {
					shared++
				}
			}
		}
		c.play(rng, p, files)
		if t.Failed() {
			for i := range p.Steps {
				t.Log(p.Steps[i].Title())
			}
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d of %d plain clusters change, %d others; %d moves, %d of them of shared GPUs, %d nodes configured", changed, plain, hostile, moved, shared, configured)
	if changed*2 < plain || hostile == 0 || shared == 0 {
		t.Error("the plans hardly change anything")
	}
}
