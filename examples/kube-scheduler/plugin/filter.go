// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/retry"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

// PreFilter reads the pod's requests, and of many nodes hands the best over. A pod without a GPU request is left
// to the other plugins; one with a request that no node can meet is refused with every problem named.
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
	if v.Ruling == filter.VerdictPass {
		return nil
	}
	code := fwk.Unschedulable
	if v.Final() {
		code = fwk.UnschedulableAndUnresolvable
	}
	return fwk.NewStatus(code, shortReason(v.Code))
}

// PreScore leaves pods that ask for no GPU to the other plugins.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if cycleOf(state) == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score scores a node by the policy. Policies score in units of their own, which NormalizeScore converts.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	c := cycleOf(state)
	if c == nil || info.Node() == nil {
		return 0, nil
	}
	on := c.plan(p, info)
	if on.ruling.Ruling != filter.VerdictPass {
		return 0, fwk.NewStatus(fwk.Unschedulable, shortReason(on.ruling.Code))
	}
	return int64(max(math.MinInt32, min(math.MaxInt32, math.Round(on.score)))), nil
}

// ScoreExtensions is the plugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore gives the node that the policy takes fwk.MaxNodeScore, and only it: the scheduler would break ties by
// chance, and the first by name is as good. The others are scaled between the best and the worst.
func (p *Plugin) NormalizeScore(_ context.Context, state fwk.CycleState, _ *v1.Pod,
	scores fwk.NodeScoreList) *fwk.Status {
	c := cycleOf(state)
	if c == nil || len(scores) == 0 {
		return nil
	}
	names, values := make([]string, len(scores)), make([]float64, len(scores))
	for i := range scores {
		names[i], values[i] = scores[i].Name, float64(scores[i].Score)
		if v, ok := c.plans.Load(names[i]); ok {
			values[i] = v.(*plan).score
		}
	}
	low, high := slices.Min(values), slices.Max(values)
	for i, v := range values {
		share := 1.0
		if high > low {
			share = (v - low) / (high - low)
		}
		scores[i].Score = int64(share * float64(fwk.MaxScore-1))
	}
	scores[kubegpu.Best(names, values)].Score = fwk.MaxScore
	return nil
}

// Reserve chooses the GPUs on the node that the scheduler chose, and keeps them for the pod.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	c := cycleOf(state)
	if c == nil {
		return nil
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("cotenant: node %s: %w", nodeName, err))
	}
	a, _, v := c.plan(p, info).state.Plan(c.pod, p.scorer)
	if a == nil {
		return fwk.NewStatus(fwk.Unschedulable, shortReason(v.Code))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserved[pod.UID] = a
	return nil
}

// Unreserve gives the GPUs back. It may be called at any time, also for pods that have none.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) { p.forget(pod) }

// PreBindPreFlight passes pods that have a reservation.
func (p *Plugin) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod,
	nodeName string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if p.reservationOn(pod, nodeName) == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind writes the allocation into the pod's annotations, where the next scheduler finds it. The patch names the
// pod's UID, so that it cannot reach another pod of the same name.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	a := p.reservationOn(pod, nodeName)
	if a == nil {
		return nil
	}
	annotations := a.Annotations()
	annotations[kubegpu.AnnotationVerdict] = p.verdictText(cycleOf(state), a)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": annotations}})
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("cotenant: %w", err))
	}
	pods := p.handle.ClientSet().CoreV1().Pods(pod.Namespace)
	retriable := func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
	}
	err = retry.OnError(retry.DefaultBackoff, retriable, func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, err := pods.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("cotenant: annotating %s/%s: %w", pod.Namespace, pod.Name, err))
	}
	return nil
}

// PostBind writes an event of the pod with its GPUs and the reason.
func (p *Plugin) PostBind(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) {
	if a := p.reservationOn(pod, nodeName); a != nil {
		p.event(pod, v1.EventTypeNormal, reasonPlaced, p.verdictText(cycleOf(state), a))
	}
}

// follow reads the nodes that changed since the last cycle.
func (p *Plugin) follow(nodes []fwk.NodeInfo) *fleet {
	f := &p.fleet
	if len(nodes) != len(f.infos) {
		*f = fleet{make([]fwk.NodeInfo, len(nodes)), make([]int64, len(nodes)), kubegpu.NewIndex(p.scorer.Policy, len(nodes))}
	}
	for i, info := range nodes {
		if g := info.GetGeneration(); f.infos[i] != info || f.generations[i] != g {
			f.infos[i], f.generations[i] = info, g
			f.index.Set(i, p.state(info))
		}
	}
	return f
}

// best returns the best nodes for a pod, so that nobody looks at the others; nil leaves all nodes to Filter: where they
// are few, where none takes the pod and each is to say why, and where other plugins refused the best ones before.
func (p *Plugin) best(c *cycle, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.PreFilterResult {
	if len(nodes) <= fewNodes || p.refusedByOthers(pod, false) {
		return nil
	}
	p.fleetMu.Lock()
	defer p.fleetMu.Unlock()
	f := p.follow(nodes)
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	allow := func(i int) bool {
		n := f.infos[i].Node()
		_, tainted := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, pod.Spec.Tolerations,
			func(t *v1.Taint) bool { return t.Effect != v1.TaintEffectPreferNoSchedule }, true)
		fits, err := required.Match(n)
		return !n.Spec.Unschedulable && !tainted && fits && err == nil
	}
	var takes []*plan
	for _, all := range []bool{false, true} {
		for _, i := range f.index.Candidates(c.pod, all, allow) {
			if on := c.plan(p, f.infos[i]); on.ruling.Ruling == filter.VerdictPass {
				takes = append(takes, on)
			}
		}
		if len(takes) > 0 {
			break
		}
	}
	if len(takes) == 0 {
		return nil
	}
	slices.SortFunc(takes, func(a, b *plan) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.node, b.node))
	})
	names := sets.New[string]()
	for _, on := range takes[:min(handedOver, len(takes))] {
		names.Insert(on.node)
	}
	c.handed = true
	return &fwk.PreFilterResult{NodeNames: names}
}
