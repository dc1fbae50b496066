// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"slices"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// Plan is a change of a cluster's placement with its steps, compared with the present placement. Without steps nothing
// changes.
type Plan struct {
	Steps []Step `json:"steps"`
	Rows  []Row  `json:"changes"` // by node and workload
	Bill  Bill   `json:"bill"`
	// Mends are the workloads that miss an objective, or the GPU's memory, today and not after.
	Mends []string `json:"mends,omitempty"`
	// Answers say whether workloads meet their objectives, where that is known today or after.
	Answers []Answer `json:"answers"`
	Stays   []Stay   `json:"stays,omitempty"` // by reason
	Why     string   `json:"why"`             // nothing changes, or the summary of the change

	Fleet        *decision.Fleet `json:"-"` // the fleet with its state
	Today, After *layout.Cluster `json:"-"` // placements; Steps lists the differences
	// the decision for workloads that move to new nodes or get another request; nil without
	Result *decision.Result `json:"-"`

	cluster *cluster
}

// NotEnough begins the reason for which a workload stays where it would have to be moved on assumptions.
const NotEnough = "it is not known enough of: "

// Stay returns the reason for which a workload was not free to move, empty without one. held reports that more
// measurements or stated needs of the workload would not change that.
func (p *Plan) Stay(workload string) (why string, held bool) {
	return cmp.Or(p.cluster.stays[workload], p.cluster.bounds[workload]), p.cluster.held[workload]
}

// Changes reports whether anything is to change.
func (p *Plan) Changes() bool { return len(p.Steps) > 0 }

// Row is the change of one workload on one node.
type Row struct {
	Node     string `json:"node"`
	Workload string `json:"workload"`
	Today    string `json:"today"` // "3 x exclusive"; empty where it comes new
	After    string `json:"after"` // empty where it leaves
	Risk     string `json:"risk"`

	risky bool // that it meets its objectives is not sure
}

// Answer reports whether a workload meets its objectives today and after the change.
type Answer struct {
	Workload string         `json:"workload"`
	Today    sharing.Answer `json:"today"`
	After    sharing.Answer `json:"after"`
}

// Stay is a reason for which workloads were not free to move.
type Stay struct {
	Why       string   `json:"why"`
	Count     int      `json:"count"`
	Workloads []string `json:"workloads"` // the first of them, at most 20
}

// mostNamed bounds the workloads that are named of one reason.
const mostNamed = 20

// Bill is the money of a plan, by the month of 730 hours: exact decimals, absent where a pool has no price. Nodes are
// paid whole, and reserved GPUs in any case.
type Bill struct {
	NodesToday int `json:"nodes_today"` // with GPUs
	NodesAfter int `json:"nodes_after"` // those that the plan empties left out
	GPUsFreed  int `json:"gpus_freed"`
	// Uncertain is the part of MonthlySaved that may not come: moved workloads that have to go back, each with a
	// probability of one less the confidence, and an hour of its devices twice for each move.
	MonthlyToday string `json:"monthly_today,omitempty"`
	MonthlyAfter string `json:"monthly_after,omitempty"`
	MonthlySaved string `json:"monthly_saved,omitempty"`
	Uncertain    string `json:"monthly_uncertain,omitempty"`
	// Comes prices the devices of the workloads that come.
	Comes    string `json:"monthly_comes,omitempty"`
	Currency string `json:"currency,omitempty"`

	saved, uncertain int64 // micro-units a month; without prices a GPU counts as one unit an hour
}

// Waits names the workloads of which replicas have no device once the steps are taken.
func (p *Plan) Waits() (names []string) {
	has := total(p.After)
	for i := range p.Fleet.Workloads {
		if w := &p.Fleet.Workloads[i]; has[w.Name] < leastReplicas(w) {
			names = append(names, w.Name)
		}
	}
	return names
}

// total counts the replicas of workloads.
func total(l *layout.Cluster) map[string]int {
	out := map[string]int{}
	for n := range l.Nodes() {
		for w, k := range n.Replicas() {
			out[w] += k
		}
	}
	return out
}

// Disturbs reports whether a step does more than start arriving workloads.
func (p *Plan) Disturbs() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action != "move" || len(s.From) > 0 })
}

// Step is one step of a plan. Steps are taken one after another; a plan can be taken back from any step by undoing
// those before it in reverse order.
type Step struct {
	// Action is move (a workload's replicas go to other devices), configure (an empty node hands out its GPUs in another
	// way), or free (an empty node can be given back).
	Action string `json:"action"`
	Pool   string `json:"pool,omitempty"` // in which its devices are
	// Of a step on a node: the node, its sharing before the step, and its configuration after it.
	Node string       `json:"node,omitempty"`
	Was  string       `json:"was,omitempty"`
	Gets *layout.Node `json:"gets,omitempty"`
	// Others counts pods without a GPU on a node that is given back, as far as they were read.
	Others int `json:"others,omitempty"`
	// Of a step on a workload: the kind of object that is patched, its replicas, the nodes that they leave and those
	// that have a free device for each of them when the step begins.
	Workload string  `json:"workload,omitempty"`
	Object   string  `json:"object,omitempty"`
	Replicas int     `json:"replicas,omitempty"`
	From     []Place `json:"from,omitempty"`
	To       []Place `json:"to,omitempty"`
	Device   string  `json:"device,omitempty"` // the device that a replica gets
	Request  bool    `json:"request"`          // the pods ask for another device than today
	// Budget is the PodDisruptionBudget that lets a replica stop before the next starts. Without one each starts first.
	Budget string `json:"budget,omitempty"`
}

// Place is a node with a number of replicas of a workload.
type Place struct {
	Node     string `json:"node"`
	Replicas int    `json:"replicas"`
}
