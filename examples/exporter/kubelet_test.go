// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// fakeKubelet answers as the kubelet does.
type fakeKubelet struct {
	podresources.UnimplementedPodResourcesListerServer
}

func gpus(resource string, ids ...string) *podresources.ContainerDevices {
	return &podresources.ContainerDevices{ResourceName: resource, DeviceIds: ids}
}

func (fakeKubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{
		{Namespace: "shop", Name: "web", Containers: []*podresources.ContainerResources{
			{Name: "c", Devices: []*podresources.ContainerDevices{gpus("nvidia.com/gpu.shared", uuid+"::2"), gpus("intel.com/qat", "qat-1")}},
			{Name: "side"},
		}},
		{Namespace: "lab", Name: "train", Containers: []*podresources.ContainerResources{
			{Name: "c", DynamicResources: []*podresources.DynamicResource{{ClaimResources: []*podresources.ClaimResource{{DriverName: "gpu.nvidia.com", DeviceName: "gpu-3"}}}}},
		}},
		{Namespace: "lab", Name: "slice", Containers: []*podresources.ContainerResources{
			{Name: "c", Devices: []*podresources.ContainerDevices{gpus("nvidia.com/mig-1g.10gb", "MIG-"+uuid[4:], "what is this?")}},
		}},
	}}, nil
}

func (fakeKubelet) GetAllocatableResources(context.Context, *podresources.AllocatableResourcesRequest) (*podresources.AllocatableResourcesResponse, error) {
	return &podresources.AllocatableResourcesResponse{Devices: []*podresources.ContainerDevices{
		gpus("nvidia.com/gpu.shared", uuid+"::0", uuid+"::1"), gpus("nvidia.com/gpu.shared", uuid+"::2", uuid+"::3"), gpus("intel.com/qat", "qat-1"),
	}}, nil
}

func TestKubelet(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	k, err := newKubelet(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer k.conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := k.Allocations(ctx); err == nil {
		t.Error("a kubelet that is not there answers")
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(srv, fakeKubelet{})
	go srv.Serve(l)
	defer srv.Stop()
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	k2, err := newKubelet(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer k2.conn.Close()
	got, err := k2.Allocations(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := []container.Allocation{
		{Pod: container.Pod{Namespace: "shop", Name: "web", Container: "c"}, Devices: []container.Device{{UUID: uuid, Replica: sharing.Some(2)}}},
		{Pod: container.Pod{Namespace: "lab", Name: "train", Container: "c"}, Devices: []container.Device{{Minor: sharing.Some(3)}}},
		{Pod: container.Pod{Namespace: "lab", Name: "slice", Container: "c"}, Devices: []container.Device{{UUID: "MIG-" + uuid[4:]}}, Unknown: []string{"what is this?"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	slots, err := k2.Slots(ctx)
	if diff := cmp.Diff(map[container.Device]int{{UUID: uuid}: 4}, slots); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

const uuid = "GPU-8f2b1c3d-0000-1111-2222-333344445555"
