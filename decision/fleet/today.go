// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Tenants returns the fleet's workloads in the form of package layout, by name, with tenant and trust.
func (f *Fleet) Tenants() map[string]*layout.Workload {
	of := map[string]*layout.Workload{}
	for i := range f.Workloads {
		w := &f.Workloads[i]
		of[w.Name] = &layout.Workload{Name: w.Name, Tenant: w.Tenant, Trusts: w.Trusts(f.Trust)}
	}
	return of
}

// Layout returns the present layout, with the fleet's workloads as tenants. A node without a delivery has its pool's.
// Contradictory devices are reported as problems and take no further tenants; see [layout.Observe].
func (f *Fleet) Layout() (*layout.Cluster, []layout.Problem) {
	of, delivery := f.Tenants(), map[string]sharing.Delivery{}
	for i := range f.Pools {
		p := &f.Pools[i]
		if delivery[p.Name] = p.Delivery; p.Delivery == sharing.DeliveryBare && !p.Standalone {
			delivery[p.Name] = sharing.DeliveryDevicePlugin
		}
	}
	nodes := slices.Clone(f.Today.Nodes)
	for i := range nodes {
		n := &nodes[i]
		n.Delivery = cmp.Or(n.Delivery, delivery[n.Pool])
		n.Assignments = slices.Clone(n.Assignments)
		for k := range n.Assignments {
			if a := &n.Assignments[k]; a.Workload != nil {
				a.Workload = cmp.Or(of[a.Workload.Name], a.Workload)
			}
		}
	}
	return layout.Observe(nodes)
}

// nodeName matches valid names of nodes and machines: names go into files and commands.
var nodeName = regexp.MustCompile(`^[A-Za-z0-9]([-_.A-Za-z0-9]{0,251}[A-Za-z0-9])?$`)

// today checks the state of the cluster against the pools and workloads.
func (c *checker) today(f *Fleet, pools map[string]*Pool) {
	nodes, workloads, gpus := map[string]bool{}, map[string]bool{}, map[string]int{}
	for i := range f.Workloads {
		workloads[f.Workloads[i].Name] = true
	}
	for i := range f.Today.Nodes {
		n, path := &f.Today.Nodes[i], fmt.Sprintf("today.nodes[%d]", i)
		c.If(nodes[n.Name], path+".name", "name each node once", "%q is listed twice", problem.Clip(n.Name))
		c.If(!nodeName.MatchString(n.Name), path+".name", "write the name of the Node", "%q is no name of a node",
			problem.Clip(n.Name))
		if pools[n.Pool] == nil {
			c.noPool(path+".pool", n.Pool, f.Pools)
		}
		c.within(path+".devices", len(n.Devices), 1, 1024)
		for k := range n.Assignments {
			w := n.Assignments[k].Workload
			c.If(w == nil || !workloads[w.Name], fmt.Sprintf("%s.assignments[%d].workload", path, k),
				"name one of the workloads", "there is no such workload")
		}
		nodes[n.Name] = true
		gpus[n.Pool] += len(n.Devices)
	}
	for i := range f.Pools {
		p := &f.Pools[i]
		c.If(gpus[p.Name] > p.Count, fmt.Sprintf("pools[%d].count", i), "count the GPUs of today.nodes",
			"%d is less than the %d of its nodes", p.Count, gpus[p.Name])
	}
	for i := range f.Today.Objects {
		o := &f.Today.Objects[i]
		c.If(!nodes[o.Name], fmt.Sprintf("today.node_objects[%d].name", i), "name one of today.nodes",
			"there is no node %q", problem.Clip(o.Name))
	}
	known := func(path, name string) {
		c.If(!workloads[name], path+".workload", "name one of the workloads", "there is no workload %q", problem.Clip(name))
	}
	for i, a := range f.Today.Autoscalers {
		path := fmt.Sprintf("today.autoscalers[%d]", i)
		known(path, a.Workload)
		c.If(a.Min < 0 || a.Max < max(1, a.Min), path, "min is at most max", "%d to %d make no range", a.Min, a.Max)
	}
	for i, b := range f.Today.Budgets {
		known(fmt.Sprintf("today.budgets[%d]", i), b.Workload)
	}
}
