// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

// Name is the plugin's name in the scheduler's configuration.
const Name = "Cotenant"

// Plugin is the scheduler plugin. It is safe for concurrent use.
type Plugin struct {
	handle fwk.Handle
	scorer *placement.Scorer
	// predicts is true if the scorer predicts anything at all.
	predicts bool

	nodes sync.Map // node name to *cachedNode

	fleetMu sync.Mutex
	fleet   fleet

	mu       sync.Mutex
	reserved map[types.UID]*kubegpu.Allocation
	reported map[string]bool // notes on nodes that were logged already
	// lacksOther are waiting pods that a node refuses for want of CPU or memory.
	lacksOther map[types.UID]bool
	// refused are waiting pods with best nodes that other plugins refused.
	refused map[types.UID]bool
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.PreScorePlugin    = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.PreBindPlugin     = (*Plugin)(nil)
	_ fwk.PostBindPlugin    = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
)

// New makes the plugin for a scheduler. args are Args as JSON or YAML; nil is
// the zero Args. The error names every problem of them.
func New(_ context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	a, err := decodeArgs(args)
	if err != nil {
		return nil, err
	}
	return NewPlugin(a, h)
}

// NewPlugin makes the plugin with given arguments.
func NewPlugin(a Args, h fwk.Handle) (*Plugin, error) {
	scorer, err := a.Scorer()
	if err != nil {
		return nil, err
	}
	p := &Plugin{handle: h, scorer: scorer, predicts: len(a.Measured) > 0,
		reserved: map[types.UID]*kubegpu.Allocation{}, reported: map[string]bool{}, lacksOther: map[types.UID]bool{},
		refused: map[types.UID]bool{}}
	// A deleted pod needs no reservation; until then it bridges the time until
	// the scheduler sees the annotations that PreBind wrote.
	informers := h.SharedInformerFactory().Core().V1()
	_, err = informers.Pods().Informer().AddEventHandler(whenDeleted(func(pod *v1.Pod) {
		p.forget(pod)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.lacksOther, pod.UID)
		delete(p.refused, pod.UID)
	}))
	if err == nil {
		_, err = informers.Nodes().Informer().AddEventHandler(whenDeleted(func(n *v1.Node) { p.nodes.Delete(n.Name) }))
	}
	if err != nil {
		return nil, fmt.Errorf("cotenant: watching pods and nodes: %w", err)
	}
	return p, nil
}

// whenDeleted calls do with each object that is deleted.
func whenDeleted[T runtime.Object](do func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if o, ok := obj.(T); ok {
			do(o)
		}
	}}
}

// Name is Name.
func (p *Plugin) Name() string { return Name }

func (p *Plugin) forget(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.reserved, pod.UID)
}

func (p *Plugin) reservation(pod *v1.Pod) *kubegpu.Allocation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reserved[pod.UID]
}

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
		p.reportNode(object, next.node)
	}
	var running []kubegpu.Running
	if next.node != nil {
		for _, pi := range info.GetPods() {
			r, notes := kubegpu.ReadRunning(pi.GetPod(), next.node, p.reservationOn(pi.GetPod(), object.Name))
			for _, note := range notes {
				p.report(object, reasonAssumed, note)
			}
			running = append(running, r)
		}
	}
	next.state = kubegpu.NewState(next.node, running)
	for _, note := range next.state.Notes {
		p.report(object, reasonAssumed, note)
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

// fleet is the nodes as the last cycle saw them. Cycles come one after another.
type fleet struct {
	infos       []fwk.NodeInfo
	generations []int64
	index       *kubegpu.Index
}

// event writes an event of an object, cut to the API server's limit.
func (p *Plugin) event(about runtime.Object, kind, reason, note string) {
	if len(note) > maxNote {
		note = note[:maxNote-4] + " ..."
	}
	if r := p.handle.EventRecorder(); r != nil {
		r.Eventf(about, nil, kind, reason, "Scheduling", "%s", note)
	}
}

// reportNode writes events of the contradictions in the labels of a node.
func (p *Plugin) reportNode(object *v1.Node, n *kubegpu.Node) {
	if n == nil {
		return
	}
	for _, text := range slices.Concat(n.Problems, n.Notes) {
		p.report(object, reasonLabels, text)
	}
}

// report writes an event of a node once.
func (p *Plugin) report(object *v1.Node, reason, text string) {
	p.mu.Lock()
	key := object.Name + "\x00" + text
	before := p.reported[key]
	if len(p.reported) >= maxReported {
		clear(p.reported)
	}
	p.reported[key] = true
	p.mu.Unlock()
	if !before {
		p.event(object, v1.EventTypeWarning, reason, text)
	}
}
