// SPDX-License-Identifier: Apache-2.0

package container

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Device is a GPU, a MIG device or a replica of either, as a device plugin names it. Exactly one of UUID, Index and
// Minor is set.
type Device struct {
	// UUID is "GPU-…" or "MIG-…". For ids of MIG devices from drivers before 470 it is the GPU's, and GPUInstance is set.
	UUID        string
	Index       sharing.Optional[int] // the GPU's number in NVML, if the plugin uses it
	Minor       sharing.Optional[int] // the GPU's minor number (/dev/nvidia1), which on many hosts is not its index
	GPUInstance sharing.Optional[int] // the MIG GPU instance, where the id names it
	Start       sharing.Optional[int] // the memory slice at which the MIG instance begins, where the id names that
	Replica     sharing.Optional[int] // number of the share of a shared device
}

var (
	uuidForm = `[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`
	uuidID   = regexp.MustCompile(`^((?:GPU|MIG)-` + uuidForm + `)(?:(?:::|-)(\d+))?$`)
	oldMIG   = regexp.MustCompile(`^MIG-(GPU-` + uuidForm + `)/(\d+)/\d+(?:::(\d+))?$`)
	indexID  = regexp.MustCompile(`^(\d+)(?::(\d+))?(?:::(\d+))?$`)
	gkeID    = regexp.MustCompile(`^nvidia(\d+)(?:/gi(\d+))?(?:/vgpu(\d+))?$`)
	draID    = regexp.MustCompile(`^gpu-(\d+)(?:-mig-(?:\d+-(\d+)-\d+|[0-9]+g[0-9a-z.+]*-\d+-(\d+)))?$`)
)

// ParseDevice reads a device's id in the pod-resources API: NVIDIA's plugin ("GPU-…", "MIG-…", "GPU-…::3" for a
// replica, "MIG-GPU-…/3/0" of old drivers, and by index "0", "0:1"), HAMi's and Volcano's ("GPU-…-3"), GKE's
// ("nvidia0", "nvidia0/gi3", "nvidia0/vgpu1") and the devices of NVIDIA's DRA driver ("gpu-0", "gpu-0-mig-9-4-1" with
// profile, start and size, or "gpu-0-mig-1g10gb-19-4" with profile's name, id and start). GKE and the DRA driver count
// by minor number. In "0:1" the second number is the MIG device's, which does not identify the GPU instance.
func ParseDevice(id string) (Device, error) {
	if m := uuidID.FindStringSubmatch(id); m != nil {
		return Device{UUID: m[1], Replica: number(m[2])}, nil
	}
	if m := oldMIG.FindStringSubmatch(id); m != nil {
		return Device{UUID: m[1], GPUInstance: number(m[2]), Replica: number(m[3])}, nil
	}
	var d Device
	if m := indexID.FindStringSubmatch(id); m != nil {
		d = Device{Index: number(m[1]), Replica: number(m[3])}
	} else if m := gkeID.FindStringSubmatch(id); m != nil {
		d = Device{Minor: number(m[1]), GPUInstance: number(m[2]), Replica: number(m[3])}
	} else if m := draID.FindStringSubmatch(id); m != nil {
		d = Device{Minor: number(m[1]), Start: number(m[2] + m[3])}
	}
	if !d.Index.IsZero() || !d.Minor.IsZero() {
		return d, nil
	}
	return Device{}, fmt.Errorf("container: unknown device id %q", problem.Clip(id))
}

// maxForm bounds the form of an id.
const maxForm = 40

var (
	uuidPart = regexp.MustCompile(uuidForm)
	digits   = regexp.MustCompile(`[0-9]+`)
	notPlain = regexp.MustCompile(`[^A-Za-z0-9._:/+-]`)
)

// DeviceForm returns the form of an id, for a metric's label, without its UUIDs and numbers.
func DeviceForm(id string) string {
	form := notPlain.ReplaceAllString(digits.ReplaceAllString(uuidPart.ReplaceAllString(id, "UUID"), "N"), "?")
	return form[:min(len(form), maxForm)]
}

// number reads digits; it is missing where there are none or too many.
func number(digits string) sharing.Optional[int] {
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return sharing.Optional[int]{}
	}
	return sharing.Some(int(n))
}

// Allocation lists the devices that a container was given, used or not, by the kubelet's pod-resources API.
type Allocation struct {
	Pod     Pod
	Devices []Device
	Unknown []string // ids that ParseDevice does not understand
}
