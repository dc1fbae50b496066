// SPDX-License-Identifier: Apache-2.0

package cotenant

import (
	"fmt"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvlib/pkg/nvlib/info"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// machine is NVML as a node of a layout would have it, without MIG devices: their paths stand in the driver's files.
type machine struct{ *mock.Interface }

func newMachine(n *layout.Node) machine {
	var devices []nvml.Device
	for i := range n.Devices {
		d := &n.Devices[i]
		mode := nvml.DEVICE_MIG_DISABLE
		if d.Mode == sharing.MechanismMIG {
			mode = nvml.DEVICE_MIG_ENABLE
		}
		capability, _ := d.GPU.Known.ComputeCapability.Get()
		devices = append(devices, &mock.Device{
			GetNameFunc:        func() (string, nvml.Return) { return "NVIDIA " + d.GPU.Name, nvml.SUCCESS },
			GetUUIDFunc:        func() (string, nvml.Return) { return fmt.Sprintf("GPU-%d", i), nvml.SUCCESS },
			GetMinorNumberFunc: func() (int, nvml.Return) { return i, nvml.SUCCESS },
			GetPciInfoFunc:     func() (nvml.PciInfo, nvml.Return) { return nvml.PciInfo{}, nvml.SUCCESS },
			GetMigModeFunc:     func() (int, int, nvml.Return) { return mode, mode, nvml.SUCCESS },
			GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) {
				return nvml.Memory{Total: uint64(d.GPU.Memory)}, nvml.SUCCESS
			},
			GetCudaComputeCapabilityFunc: func() (int, int, nvml.Return) {
				return capability.Major, capability.Minor, nvml.SUCCESS
			},
			GetMaxMigDeviceCountFunc: func() (int, nvml.Return) { return 0, nvml.SUCCESS },
			GetGpuInstanceProfileInfoFunc: func(int) (nvml.GpuInstanceProfileInfo, nvml.Return) {
				return nvml.GpuInstanceProfileInfo{}, nvml.ERROR_NOT_SUPPORTED
			},
		})
	}
	done := func() nvml.Return { return nvml.SUCCESS }
	return machine{&mock.Interface{
		InitFunc: done, ShutdownFunc: done,
		DeviceGetCountFunc:         func() (int, nvml.Return) { return len(devices), nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) { return devices[i], nvml.SUCCESS },
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return nil }}
		},
	}}
}

func (m machine) devices() device.Interface { return device.New(m) }

// platform is a machine with NVML.
type platform struct{}

func (platform) ResolvePlatform() info.Platform     { return info.PlatformNVML }
func (platform) HasDXCore() (bool, string)          { return false, "" }
func (platform) HasNvml() (bool, string)            { return true, "" }
func (platform) HasTegraFiles() (bool, string)      { return false, "" }
func (platform) HasAnIntegratedGPU() (bool, string) { return false, "" }
