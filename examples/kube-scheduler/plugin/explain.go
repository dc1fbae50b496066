// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

// Reasons of events.
const (
	reasonPlaced   = "GPUPlaced"   // on pods: where and why
	reasonUnplaced = "GPUUnplaced" // on pods: which nodes refuse it and why
	reasonLabels   = "GPULabels"   // on nodes: labels that contradict the capacity
	reasonAssumed  = "GPUAssumed"  // on nodes: assumptions about their pods
)

// maxNote is the longest text that the API server takes for an event.
const maxNote = 1024

// shortReason is the reason of a verdict's code, without numbers, for the scheduler to count nodes by.
func shortReason(code string) string {
	var c filter.Code
	text := kubegpu.ShortReasons[code]
	if c.UnmarshalText([]byte(code)) == nil && c.Short() != "" {
		text = c.Short()
	}
	return "gpu " + code + ": " + text
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// PostFilter writes an event of the pod with the nodes that refuse it and their reasons, with numbers. It finds no
// room: other plugins may, so it runs before them.
func (p *Plugin) PostFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod,
	_ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if c := cycleOf(state); c != nil {
		if text := c.unplaced(); text != "" {
			p.event(pod, v1.EventTypeWarning, reasonUnplaced, text)
		}
		if p.refusedByOthers(pod, c.handed); c.handed {
			// The other nodes are tried at once.
			p.handle.Activate(klog.Background(), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if delete(p.lacksOther, pod.UID); c.lacksOther() {
			p.lacksOther[pod.UID] = true
		}
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// unplaced counts the nodes that refuse the pod by reason; empty where none does.
func (c *cycle) unplaced() string {
	rulings := map[string]kubegpu.Ruling{}
	for name, on := range c.plans.Range {
		if on := on.(*plan); on.ruling.Ruling != filter.VerdictPass {
			rulings[name.(string)] = on.ruling
		}
	}
	return kubegpu.Reasons(rulings)
}

// lacksOther reports whether a node refuses the pod for want of CPU or memory of the host.
func (c *cycle) lacksOther() bool {
	for _, on := range c.plans.Range {
		if code := on.(*plan).ruling.Code; code == "cpu" || code == "memory" {
			return true
		}
	}
	return false
}

// verdictText gives a pod's place and the reason for it.
func (p *Plugin) verdictText(c *cycle, a *kubegpu.Allocation) string {
	text := fmt.Sprintf("%v by policy %s", a, p.scorer.Policy.Name())
	if c != nil {
		if on, ok := c.plans.Load(a.Node); ok {
			n := 0
			for _, on := range c.plans.Range {
				if on.(*plan).ruling.Ruling == filter.VerdictPass {
					n++
				}
			}
			text += fmt.Sprintf(" (score %.2f, %d node(s) would do)", on.(*plan).score, n)
		}
	}
	if a.Choice > 1 {
		text += fmt.Sprintf(", good for whichever of %d GPUs it gets", a.Choice)
	}
	for _, d := range a.Devices {
		if x, predicted := d.Slowdown.Get(); predicted {
			text += fmt.Sprintf(", the worst slowdown among the neighbours is predicted as %.3f", x)
		}
		if p.predicts && d.Unpredicted > 0 {
			text += fmt.Sprintf(", for %d of the neighbours nothing is predicted", d.Unpredicted)
		}
	}
	return text
}

// maxReported bounds the remembered events of nodes; beyond it they are written again.
const maxReported = 10_000
