// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// kubelet asks the kubelet's pod-resources API on its socket.
type kubelet struct {
	conn   *grpc.ClientConn
	client podresources.PodResourcesListerClient
}

func newKubelet(socket string) (*kubelet, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		return nil, fmt.Errorf("-kubelet: %w", err)
	}
	return &kubelet{conn, podresources.NewPodResourcesListerClient(conn)}, nil
}

// isGPU reports that a resource's devices are GPUs: NVIDIA's plugin (nvidia.com/gpu, nvidia.com/gpu.shared,
// nvidia.com/mig-1g.10gb), Volcano's (volcano.sh/vgpu-number) or one that names its resources likewise.
func isGPU(resource string) bool {
	domain, name, _ := strings.Cut(resource, "/")
	ours := strings.Contains(domain, "nvidia") || domain == "volcano.sh"
	return ours && (strings.HasPrefix(name, "gpu") || strings.HasPrefix(name, "mig-") ||
		strings.HasPrefix(name, "vgpu"))
}

func (k *kubelet) Allocations(ctx context.Context) ([]container.Allocation, error) {
	r, err := k.client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list pod resources: %w", err)
	}
	var out []container.Allocation
	for _, p := range r.GetPodResources() {
		for _, c := range p.GetContainers() {
			a := container.Allocation{Pod: container.Pod{Namespace: p.GetNamespace(), Name: p.GetName(), Container: c.GetName()}}
			for _, d := range c.GetDevices() {
				if isGPU(d.GetResourceName()) {
					take(&a, d.GetDeviceIds()...)
				}
			}
			for _, d := range c.GetDynamicResources() {
				for _, claim := range d.GetClaimResources() {
					if strings.HasPrefix(claim.GetDriverName(), "gpu.nvidia") {
						take(&a, claim.GetDeviceName())
					}
				}
			}
			if len(a.Devices)+len(a.Unknown) > 0 {
				out = append(out, a)
			}
		}
	}
	return out, nil
}

// take adds devices by their ids.
func take(a *container.Allocation, ids ...string) {
	for _, id := range ids {
		if d, err := container.ParseDevice(id); err == nil {
			a.Devices = append(a.Devices, d)
		} else {
			a.Unknown = append(a.Unknown, id)
		}
	}
}

func (k *kubelet) Slots(ctx context.Context) (map[container.Device]int, error) {
	r, err := k.client.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list allocatable resources: %w", err)
	}
	out := map[container.Device]int{}
	for _, c := range r.GetDevices() {
		if !isGPU(c.GetResourceName()) {
			continue
		}
		var offered container.Allocation
		take(&offered, c.GetDeviceIds()...)
		for _, d := range offered.Devices {
			d.Replica = sharing.Optional[int]{}
			out[d]++
		}
	}
	return out, nil
}
