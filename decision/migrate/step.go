// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict/profile"
)

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

// guarded reports whether a workload has objectives, stated or not.
func guarded(w *decision.Workload) bool {
	return w.SLO != (profile.SLO{}) || w.Kind == decision.KindOnlineInference
}

// Place is a node with a number of replicas of a workload.
type Place struct {
	Node     string `json:"node"`
	Replicas int    `json:"replicas"`
}
