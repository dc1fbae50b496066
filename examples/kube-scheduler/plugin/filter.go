package plugin

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

const stateKey fwk.StateKey = "Cotenant"

// cycle is the memory of one attempt to schedule a pod.
type cycle struct {
	pod   *kubegpu.Pod
	plans sync.Map // node name to *plan
	// handed says that PreFilter left only the best nodes to the others.
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

// Clone returns the cycle itself: what it has of a node is replaced whenever the node is looked at again.
func (c *cycle) Clone() fwk.StateData { return c }

func cycleOf(state fwk.CycleState) *cycle {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	c, _ := data.(*cycle)
	return c
}

// PreFilter reads what the pod asks for, and of many nodes hands the best over. A pod that asks for no GPU is left
// to the other plugins; one that asks in a way that cannot be met on any node is refused with every problem named.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	asked, err := kubegpu.ReadPod(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, oneLine(err))
	}
	if asked == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	c := &cycle{pod: asked}
	state.Write(stateKey, c)
	return p.best(c, pod, nodes), nil
}

// PreFilterExtensions is nil: Filter looks at the node's pods each time.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter passes a node that takes the pod. Its reasons are short, so that the
// scheduler can count nodes by them; PostFilter has the numbers.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	c := cycleOf(state)
	if c == nil || info.Node() == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, context.Cause(ctx).Error())
	}
	v := c.plan(p, info).ruling
	if v.Ruling == gate.VerdictPass {
		return nil
	}
	code := fwk.Unschedulable
	if v.Final() {
		code = fwk.UnschedulableAndUnresolvable
	}
	return fwk.NewStatus(code, shortReason(v.Code))
}
