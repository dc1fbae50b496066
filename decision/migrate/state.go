package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

func newCluster(f *decision.Fleet, opts decision.Options) (*cluster, error) {
	c := &cluster{fleet: f, opts: opts, byName: map[string]*node{}, of: map[string]*decision.Workload{},
		today: map[string]seat{}, running: map[string]int{}, wants: map[string]int{}, budgets: map[string]decision.Budget{},
		priced: true, micros: map[string]int64{}, pools: map[string]*decision.CompiledPool{},
		models: map[string]*mig.Model{}, stays: map[string]string{}}
	for i := range f.Pools {
		cp, err := decision.CompilePool(&f.Pools[i])
		if err != nil {
			return nil, err
		}
		c.pools[cp.Pool.Name], c.micros[cp.Pool.Name], c.priced = cp, cp.Price.Micros(), c.priced && cp.Priced
		c.currency = cmp.Or(c.currency, cp.Price.Currency())
		c.models[cp.Pool.Name], _ = mig.Lookup(cp.Ground().GPU().Name)
	}
	for _, of := range f.Today.Nodes {
		switch d := c.pools[of.Pool].Pool.Delivery; d {
		case sharing.DeliveryBare, sharing.DeliveryGPUOperator, sharing.DeliveryDevicePlugin:
		default:
			of.Closed = cmp.Or(of.Closed, fmt.Sprintf("one whose GPUs %v hands out, which is not planned from here: a decision "+
				"for the fleet without its today writes pods for it", d))
		}
		n := &node{&of, map[string]int{}}
		c.nodes = append(c.nodes, n)
		c.byName[n.Name] = n
	}
	for i := range f.Workloads {
		w := &f.Workloads[i]
		c.of[w.Name] = w
		if w.Today == nil {
			c.wants[w.Name] = replicasOf(w)
			continue
		}
		c.today[w.Name] = seat{w.Today.Mechanism, w.Today.Profile}
		for _, on := range w.Today.On {
			c.byName[on.Node].run[w.Name] += on.Replicas
			c.running[w.Name] += on.Replicas
		}
		c.wants[w.Name] = max(c.running[w.Name], replicasOf(w))
	}
	for _, b := range f.Today.Budgets {
		if had, ok := c.budgets[b.Workload]; !ok || b.Allowed < had.Allowed {
			c.budgets[b.Workload] = b
		}
	}
	if !c.priced {
		for p := range c.micros {
			c.micros[p] = 1e6
		}
	}
	return c, nil
}

// replicasOf returns the least number of replicas that a workload is to have; of one that comes, the most.
func replicasOf(w *decision.Workload) int {
	if w.Today == nil {
		return max(1, w.Replicas.Max)
	}
	return max(1, cmp.Or(w.Replicas.Min, w.Replicas.Max))
}

// count sums up replicas.
func count(all []decision.Place) (n int) {
	for _, p := range all {
		n += p.Replicas
	}
	return n
}

// hold notes the workloads that stay whatever may be found.
func (c *cluster) hold() {
	for name, w := range c.of {
		if why := c.fixed(w); why != "" {
			c.stays[name] = why
		}
	}
	for _, n := range c.nodes {
		l, s := newLoad(n, ShapeOf(n.Node)), ""
		for _, w := range slices.Sorted(maps.Keys(n.run)) {
			if l.put(c.want(w, c.today[w]), n.run[w]) < n.run[w] {
				s = fmt.Sprintf("more runs on %s than it hands out as %v: another handed it out, or the files are of two "+
					"moments", n.Name, l.shape)
			}
		}
		if n.Closed != "" {
			s = n.Name + " is " + n.Closed
		}
		for w := range n.run {
			if s != "" && c.stays[w] == "" {
				c.stays[w] = s
			}
		}
	}
}

// fixed is the reason for which a workload can't be moved, or must not be before more is known; empty without one.
func (c *cluster) fixed(w *decision.Workload) string {
	t := w.Today
	switch {
	case t == nil:
		return ""
	case !slices.Contains(planned, t.Mechanism):
		return fmt.Sprintf("it shares by %v, which is not planned from here", t.Mechanism)
	case t.Object == "Job" || t.Object == "CronJob":
		return fmt.Sprintf("a %s's pods run to their end where they are", t.Object)
	case t.Object == "Pod":
		return "nothing starts a bare Pod again"
	case t.Object != "" && t.Object != "Deployment" && t.Object != "StatefulSet":
		return fmt.Sprintf("its pods are made by its %s, whose own template has to be changed", t.Object)
	case t.Object == "StatefulSet" && c.budgets[w.Name].Allowed < 1:
		return "a StatefulSet stops a replica before it starts the next, and no PodDisruptionBudget lets one be missing"
	case w.MemoryNeed().Unknown:
		return "how much GPU memory it uses is not known"
	case w.GPUBusy.IsZero() && w.Load == nil && w.Profile == nil:
		return "how busy it keeps its GPU is not known"
	case w.Kind == decision.KindOnlineInference && w.SLO == (profile.SLO{}):
		return "which latencies it must keep is not known"
	}
	return ""
}

// planned are the mechanisms that the device plugin hands out by a node's configuration.
var planned = []sharing.Mechanism{
	sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG,
}

func (c *cluster) want(w string, s seat) *want {
	return &want{w, s, max(1, c.of[w].GPUs), max(c.running[w], 0)}
}

// trusts reports whether two workloads are one tenant's, or each names the other's tenant.
func (c *cluster) trusts(a, b string) bool {
	x, y := c.of[a], c.of[b]
	if x.Tenant == "" && y.Tenant == "" {
		return a == b || c.fleet.Trust == decision.TrustAll
	}
	return x.Tenant == y.Tenant || slices.Contains(x.Trust, y.Tenant) && slices.Contains(y.Trust, x.Tenant)
}

// pinned are the nodes that stay as they are: those of workloads that stay, and closed ones.
func (c *cluster) pinned() map[string]bool {
	out := map[string]bool{}
	for _, n := range c.nodes {
		out[n.Name] = n.Closed != ""
		for w := range n.run {
			out[n.Name] = out[n.Name] || c.stays[w] != ""
		}
	}
	return out
}
