// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

const stateKey fwk.StateKey = "Cotenant"

// cycle is the memory of one attempt to schedule a pod.
type cycle struct {
	pod   *kubegpu.Pod
	plans sync.Map // node name to *plan
	// handed is set where PreFilter left only the best nodes to the others.
	handed bool
}

// plan is the outcome of trying the pod on a node in a state.
type plan struct {
	node   string
	state  *kubegpu.State
	score  float64
	ruling kubegpu.Ruling
}

// plan tries the pod on a node, once for each state of it: PreFilter, Filter and Score ask for the same.
func (c *cycle) plan(p *Plugin, info fwk.NodeInfo) *plan {
	state, name := p.state(info), info.Node().Name
	if last, ok := c.plans.Load(name); ok && last.(*plan).state == state {
		return last.(*plan)
	}
	next := &plan{node: name, state: state}
	next.score, next.ruling = state.Score(c.pod, p.scorer)
	c.plans.Store(name, next)
	return next
}

// Clone returns the cycle itself: its entry of a node is replaced whenever the node is looked at again.
func (c *cycle) Clone() fwk.StateData { return c }

func cycleOf(state fwk.CycleState) *cycle {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	c, _ := data.(*cycle)
	return c
}
