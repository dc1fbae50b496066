package plugin

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

// cachedNode is a node as it was last read. The scheduler gives each change of
// a node, or of its pods, a generation of its own.
type cachedNode struct {
	generation int64
	object     *v1.Node
	node       *kubegpu.Node
	state      *kubegpu.State
}

// state is a node as the scheduler sees it in this cycle, pods that are reserved there included.
func (p *Plugin) state(info fwk.NodeInfo) *kubegpu.State {
	object := info.Node()
	if object == nil {
		return kubegpu.NewState(nil, nil)
	}
	var last *cachedNode
	if v, ok := p.nodes.Load(object.Name); ok {
		last = v.(*cachedNode)
		if last.generation == info.GetGeneration() && last.object == object {
			return last.state
		}
	}
	next := &cachedNode{generation: info.GetGeneration(), object: object}
	if last != nil && last.object == object {
		next.node = last.node
	} else {
		next.node = kubegpu.ReadNode(object)
		p.tellNode(object, next.node)
	}
	var running []kubegpu.Running
	if next.node != nil {
		for _, pi := range info.GetPods() {
			r, notes := kubegpu.ReadRunning(pi.GetPod(), next.node, p.reservationOn(pi.GetPod(), object.Name))
			for _, note := range notes {
				p.tell(object, reasonAssumed, note)
			}
			running = append(running, r)
		}
	}
	next.state = kubegpu.NewState(next.node, running)
	for _, note := range next.state.Notes {
		p.tell(object, reasonAssumed, note)
	}
	p.nodes.Store(object.Name, next)
	return next.state
}

// reservationOn is the reservation of a pod on a node.
func (p *Plugin) reservationOn(pod *v1.Pod, node string) *kubegpu.Allocation {
	if a := p.reservation(pod); a != nil && a.Node == node {
		return a
	}
	return nil
}
