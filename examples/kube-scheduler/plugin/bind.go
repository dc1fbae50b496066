package plugin

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

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

// PostBind says in an event of the pod where it is and why.
func (p *Plugin) PostBind(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) {
	if a := p.reservationOn(pod, nodeName); a != nil {
		p.event(pod, v1.EventTypeNormal, reasonPlaced, p.verdictText(cycleOf(state), a))
	}
}
