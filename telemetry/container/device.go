package container

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
)

// Optional holds a value that may be missing, as the zero one's is: if v, ok := o.Get(); ok { use(v) } or use(o.Or(0)).
// IsZero says that it is, and Equal compares two; String writes "-" for a missing one, JSON null, or omitzero nothing.
type Optional[T any] = optional.Value[T]

// Some returns an Optional that holds v.
func Some[T any](v T) Optional[T] { return optional.Of(v) }

// Device is a GPU, a MIG device or a replica of either, as a device plugin
// names it. Exactly one of UUID and Index is there.
type Device struct {
	// UUID is "GPU-…" or "MIG-…". For the ids of MIG devices that drivers
	// before 470 gave it is the GPU's, and GPUInstance is set.
	UUID        string
	Index       Optional[int] // the GPU's number, where the plugin goes by it
	GPUInstance Optional[int] // the MIG GPU instance, where the id names it
	Replica     Optional[int] // which of the shares of a shared device it is
}

var (
	uuidForm  = `[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`
	uuidID    = regexp.MustCompile(`^((?:GPU|MIG)-` + uuidForm + `)(?:(?:::|-)(\d+))?$`)
	oldMIG    = regexp.MustCompile(`^MIG-(GPU-` + uuidForm + `)/(\d+)/\d+(?:::(\d+))?$`)
	indexID   = regexp.MustCompile(`^(\d+)(?::(\d+))?(?:::(\d+))?$`)
	gkeID     = regexp.MustCompile(`^nvidia(\d+)(?:/gi(\d+))?(?:/vgpu(\d+))?$`)
	claimName = regexp.MustCompile(`^gpu-(\d+)$`)
)

// ParseDevice reads a device's id in the pod-resources API: NVIDIA's plugin ("GPU-…", "MIG-…", "GPU-…::3" for a
// replica, "MIG-GPU-…/3/0" of old drivers, and by index "0", "0:1"), HAMi's ("GPU-…-3"), GKE's ("nvidia0",
// "nvidia0/gi3", "nvidia0/vgpu1") and the devices of NVIDIA's DRA driver ("gpu-0"). By index and MIG ("0:1") the
// second number is the MIG device's, from which no GPU instance follows.
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
		d = Device{Index: number(m[1]), GPUInstance: number(m[2]), Replica: number(m[3])}
	} else if m := claimName.FindStringSubmatch(id); m != nil {
		d = Device{Index: number(m[1])}
	}
	if !d.Index.IsZero() {
		return d, nil
	}
	return Device{}, fmt.Errorf("%w: device id %q", errUnknown, problem.Clip(id))
}

// number reads digits; it is missing where there are none or too many.
func number(digits string) Optional[int] {
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return Optional[int]{}
	}
	return Some(int(n))
}

// Allocation lists the devices that a container was given, used or not, by the kubelet's pod-resources API.
type Allocation struct {
	Pod     Pod
	Devices []Device
}
