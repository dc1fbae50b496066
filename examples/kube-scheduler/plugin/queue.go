// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"maps"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

// EventsToRegister lists the events that may make room for a pod that was refused: nodes that come or offer
// something else, pods that leave, and the pod asking for something else.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node,
			ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel | fwk.UpdateNodeAnnotation},
			QueueingHintFn: nodeHint},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete | fwk.UpdatePodScaleDown},
			QueueingHintFn: p.leavingHint},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: askingHint},
	}, nil
}

// nodeHint retries a pod when a node's GPUs have changed.
func nodeHint(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, _ := oldObj.(*v1.Node)
	after, _ := newObj.(*v1.Node)
	if after == nil || before != nil &&
		maps.EqualFunc(before.Status.Allocatable, after.Status.Allocatable, resource.Quantity.Equal) &&
		maps.EqualFunc(before.Status.Capacity, after.Status.Capacity, resource.Quantity.Equal) &&
		maps.Equal(before.Labels, after.Labels) &&
		before.Annotations[kubegpu.AnnotationHAMiRegister] == after.Annotations[kubegpu.AnnotationHAMiRegister] ||
		kubegpu.ReadNode(after) == nil || !asksWell(pod) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// leavingHint retries a pod when another one leaves a node or takes less of it:
// GPUs, or where the pod was refused for want of CPU and memory, those.
func (p *Plugin) leavingHint(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	gone, _ := oldObj.(*v1.Pod)
	if gone == nil || gone.Spec.NodeName == "" || !asksWell(pod) {
		return fwk.QueueSkip, nil
	}
	had, err := kubegpu.ReadPod(gone)
	frees := had != nil || err != nil
	if shrunk, _ := newObj.(*v1.Pod); frees && shrunk != nil {
		has, hasErr := kubegpu.ReadPod(shrunk)
		frees = err != nil || hasErr != nil || has == nil || !slices.Equal(had.Claims, has.Claims)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !frees && !p.lacksOther[pod.UID] {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// asksWell reports whether a pod is worth trying again: where its request is invalid, only another request will do.
func asksWell(pod *v1.Pod) bool {
	_, err := kubegpu.ReadPod(pod)
	return err == nil
}

// askingHint retries a pod that asks for something else than before.
func askingHint(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, _ := oldObj.(*v1.Pod)
	after, _ := newObj.(*v1.Pod)
	if before == nil || after == nil {
		return fwk.Queue, nil
	}
	was, wasErr := kubegpu.ReadPod(before)
	is, isErr := kubegpu.ReadPod(after)
	if reflect.DeepEqual(was, is) && (wasErr == nil) == (isErr == nil) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

const (
	// handedOver is the most nodes that PreFilter leaves to the other plugins.
	handedOver = 16
	// fewNodes are looked at one by one.
	fewNodes = 64
)

// refusedByOthers reports whether other plugins refused the best nodes for a pod
// when it was last tried, and notes whether they do now.
func (p *Plugin) refusedByOthers(pod *v1.Pod, now bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.refused[pod.UID]
	if delete(p.refused, pod.UID); now {
		p.refused[pod.UID] = true
	}
	return before
}
