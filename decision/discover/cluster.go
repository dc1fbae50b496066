package discover

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/sharing"
)

// budgetObject is a PodDisruptionBudget. One that selects by expressions is taken to select nothing.
type budgetObject struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Selector struct {
			MatchLabels      map[string]string `json:"matchLabels"`
			MatchExpressions []struct{}        `json:"matchExpressions"`
		} `json:"selector"`
	} `json:"spec"`
	Status struct {
		Allowed int `json:"disruptionsAllowed"`
	} `json:"status"`
}

func (c *Collector) takeBudget(_ string, o *budgetObject) { c.budgets = append(c.budgets, o) }

// quotaObject is a ResourceQuota.
type quotaObject struct {
	Metadata metadata `json:"metadata"`
	Status   struct {
		Hard quantities `json:"hard"`
		Used quantities `json:"used"`
	} `json:"status"`
}

func (c *Collector) takeQuota(_ string, o *quotaObject) { c.quotas = append(c.quotas, o) }

// hashed stands for a label of which neither key nor value is kept.
func hashed(key, value string) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s=%s", key, value)
	return fmt.Sprintf("#%x", h.Sum64())
}

// selects reports whether a budget's selector matches a pod's labels.
func (o *budgetObject) selects(p *pod) bool {
	s := &o.Spec.Selector
	if o.Metadata.Namespace != p.namespace || len(s.MatchExpressions) > 0 || len(s.MatchLabels) == 0 {
		return false
	}
	for k, v := range s.MatchLabels {
		if _, ok := p.labels[hashed(k, v)]; p.labels[k] != v && !ok {
			return false
		}
	}
	return true
}

// cluster writes the state of the cluster: its nodes, who runs where, and what bounds a change.
func (b *build) cluster() {
	t := &decision.Cluster{Nodes: []decision.Node{}}
	b.Fleet.Today = t
	for _, n := range b.nodes {
		if b.poolOf[n] != nil {
			t.Nodes = append(t.Nodes, b.nodeToday(n))
		}
	}
	for _, w := range b.workloads {
		b.workloadToday(w)
	}
	for _, q := range b.c.quotas {
		for _, key := range slices.Sorted(maps.Keys(q.Status.Hard)) {
			resource := strings.TrimPrefix(key, "requests.")
			t.Quotas = append(t.Quotas, decision.Quota{Namespace: q.Metadata.Namespace, Resource: resource,
				Free: max(0, count(q.Status.Hard[key])-count(q.Status.Used[key]))})
		}
	}
	for _, n := range t.Nodes {
		for _, c := range b.c.plugins[n.Config] {
			t.PluginConfigs = cmp.Or(t.PluginConfigs, strings.TrimPrefix(c.object, "ConfigMap "))
		}
	}
}

func (b *build) nodeToday(n *node) decision.Node {
	out := decision.Node{Name: n.name, Pool: b.poolOf[n].name, GPUs: n.gpus, InMIG: min(n.inMIG, n.gpus),
		Config: n.label("nvidia.com/device-plugin.config"), MIGConfig: n.label(labelMIG)}
	if n.mechanism != sharing.MechanismExclusive {
		out.Mechanism = n.mechanism
	}
	if n.replicas > 1 {
		out.Replicas = n.replicas
	}
	if len(n.instances) > 0 {
		out.Instances = n.instances
	}
	switch {
	case n.meta == nil:
	case n.single != "":
		out.Closed = `under the MIG strategy "single", under which instances have no names of their own`
	case n.meta.Spec.Unschedulable:
		out.Closed = "cordoned"
	case !n.meta.ready():
		out.Closed = "not ready"
	}
	return out
}

// ready reports whether a node's condition Ready is true; one without conditions is taken to be.
func (o *nodeObject) ready() bool {
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return true
}

// workloadToday writes where a workload runs, under which budget, and who sets its number of replicas.
func (b *build) workloadToday(w *workload) {
	t, v := b.Fleet.Today, &b.Fleet.Workloads[w.index]
	at := fmt.Sprintf("workloads[%d].today", w.index)
	on := map[string]int{}
	for _, p := range w.pods {
		if n := b.byName[p.node]; n != nil && p.running && b.poolOf[n] != nil {
			on[n.name]++
		}
	}
	if v.Today == nil {
		v.Today = &decision.Today{Mechanism: sharing.MechanismExclusive, MayWeaken: true}
		b.note(at, guessed("it asks for whole GPUs, as the device plugin hands them out; may_weaken: false keeps it on them"))
	}
	v.Today.Object, v.Today.Container = w.key.owner.kind, w.first.container
	for _, name := range slices.Sorted(maps.Keys(on)) {
		v.Today.On = append(v.Today.On, decision.Place{Node: name, Replicas: on[name]})
	}
	if a, ok := b.c.autoscalers[w.key.owner.kind+"/"+w.key.namespace+"/"+w.key.owner.name]; ok {
		t.Autoscalers = append(t.Autoscalers, decision.Autoscaler{Workload: v.Name, Min: a.min, Max: max(a.max, a.min, 1)})
	}
	for _, o := range b.c.budgets {
		if o.selects(w.first) {
			t.Budgets = append(t.Budgets, decision.Budget{Name: o.Metadata.Name, Workload: v.Name,
				Allowed: max(0, o.Status.Allowed)})
		}
	}
}
