// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

const draDriver = "gpu.nvidia.com" // the name of NVIDIA's DRA driver for GPUs

// device is a GPU or MIG device of a ResourceSlice.
type device struct {
	name, kind, uuid, parent, product, profile, driver string
	architecture, capability, pciBus, pool             string
	taint                                              string // why it takes no new claims

	memory sharing.Bytes
	// several is set where claims may share the device (the driver's ConsumableShares), each consuming a part of its
	// capacity; shares is their largest number, 0 without a limit.
	several bool
	shares  int
}

type deviceBody struct {
	Attributes map[string]struct {
		String  string `json:"string"`
		Version string `json:"version"`
	} `json:"attributes"`
	Capacity map[string]struct {
		Value string `json:"value"`
	} `json:"capacity"`
	Several bool `json:"allowMultipleAllocations"`
	Taints  []struct {
		Key    string `json:"key"`
		Effect string `json:"effect"`
	} `json:"taints"`
}

type sliceDevice struct {
	Name string `json:"name"`
	deviceBody
	Basic *deviceBody `json:"basic"` // v1beta1
}

func (d *deviceBody) get(key string) string {
	short, long := d.Attributes[key], d.Attributes[draDriver+"/"+key]
	return cmp.Or(short.String, short.Version, long.String, long.Version)
}

func (d *deviceBody) amount(key string) int64 {
	return quantity(cmp.Or(d.Capacity[key].Value, d.Capacity[draDriver+"/"+key].Value))
}

// quantity reads an amount as Kubernetes writes it, 20Gi or 21474836480; 0 where it is none, or more than there can be.
func quantity(text string) int64 {
	if v := amountIn("", text); v <= int64(mostMemory) {
		return v
	}
	return 0
}

type sliceObject struct {
	Spec struct {
		Driver   string `json:"driver"`
		NodeName string `json:"nodeName"`
		Pool     struct {
			Name       string `json:"name"`
			Generation int64  `json:"generation"`
		} `json:"pool"`
		Devices []sliceDevice `json:"devices"`
	} `json:"spec"`
}

// takeSlice keeps the devices of NVIDIA's driver. A pool has several slices where its GPUs can be partitioned: one of
// counters, and one of each GPU's devices.
func (c *Collector) takeSlice(file string, o *sliceObject) {
	if o.Spec.Driver != draDriver {
		return
	}
	pool := o.Spec.Pool.Name
	c.poolNode[pool] = cmp.Or(c.poolNode[pool], o.Spec.NodeName, pool)
	if o.Spec.Pool.Generation < c.generation[pool] {
		return // a newer one was read
	}
	if o.Spec.Pool.Generation > c.generation[pool] || c.devices[pool] == nil {
		c.generation[pool], c.devices[pool] = o.Spec.Pool.Generation, map[string]*device{}
	}
	for i := range o.Spec.Devices {
		d := &o.Spec.Devices[i]
		body := cmp.Or(d.Basic, &d.deviceBody)
		one := &device{name: d.Name, pool: pool, kind: body.get("type"), uuid: body.get("uuid"),
			parent: body.get("parentUUID"), product: body.get("productName"), profile: body.get("profile"),
			driver: body.get("driverVersion"), architecture: body.get("architecture"), several: body.Several,
			pciBus:     body.Attributes["resource.kubernetes.io/pciBusID"].String,
			capability: strings.TrimSuffix(body.get("cudaComputeCapability"), ".0"),
			memory:     sharing.Bytes(body.amount("memory")), shares: int(min(body.amount("shares"), mostReplicas))}
		for _, t := range body.Taints {
			if t.Effect == "NoSchedule" || t.Effect == "NoExecute" {
				one.taint = t.Key
			}
		}
		c.devices[pool][d.Name] = one
	}
}

type deviceClassObject struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Selectors []struct {
			CEL struct {
				Expression string `json:"expression"`
			} `json:"cel"`
		} `json:"selectors"`
		Extended string        `json:"extendedResourceName"`
		Config   []claimConfig `json:"config"`
	} `json:"spec"`
}

// deviceClass is the kind of device of a class, and their sharing.
type deviceClass struct {
	kind     string // gpu, mig or vfio; empty of another driver's
	strategy string
}

// takeDeviceClass records the kind of device of a class, and the resource that it serves.
func (c *Collector) takeDeviceClass(file string, o *deviceClassObject) {
	var class deviceClass
	for _, s := range o.Spec.Selectors {
		e := s.CEL.Expression
		if !strings.Contains(e, draDriver) {
			continue
		}
		class.kind = "gpu"
		for _, kind := range []string{"mig", "vfio"} {
			if strings.Contains(e, "'"+kind+"'") || strings.Contains(e, `"`+kind+`"`) {
				class.kind = kind
			}
		}
	}
	class.strategy = strategy(o.Spec.Config, "")
	c.classes[o.Metadata.Name] = class
	if o.Spec.Extended != "" {
		c.answers[o.Spec.Extended] = o.Metadata.Name
	}
}

// driverClasses are those that the driver's chart brings.
var driverClasses = map[string]string{draDriver: "gpu", "mig.nvidia.com": "mig", "vfio.gpu.nvidia.com": "vfio"}

// classKind is "gpu", "mig" or "vfio" of a class for NVIDIA's devices, "" of another's.
func (c *Collector) classKind(name string) string {
	return cmp.Or(driverClasses[name], c.classes[name].kind)
}

// implicitClass begins the resource to which every class answers (KEP-5004, stable in Kubernetes 1.37).
const implicitClass = "deviceclass.resource.kubernetes.io/"

// classUse interprets a resource that a class of devices serves; false means that no known class does.
func (b *build) classUse(key string) (use, bool) {
	name, implicit := strings.CutPrefix(key, implicitClass)
	if !implicit {
		if name = b.c.answers[key]; name == "" || useOf(key).role != roleUnknown {
			return use{}, false
		}
	}
	_, known := b.c.classes[name]
	switch b.c.classKind(name) {
	case "gpu", "vfio":
		return use{role: roleCount, delivery: sharing.DeliveryDRA, mechanism: sharing.MechanismExclusive}, true
	case "mig":
		return use{role: roleMIG, delivery: sharing.DeliveryDRA, mechanism: sharing.MechanismMIG}, true
	}
	return use{}, known // of another driver
}

// device is the one that a claim was given, nil where no slice has it.
func (b *build) device(id deviceID) *device { return b.c.devices[id.pool][id.device] }

// gpuOf identifies a device's GPU: instances lie on their parent, and a device for virtual machines is another form of
// the GPU at its PCI address, or of that with its number where a slice has no addresses.
func (b *build) gpuOf(d *device) string {
	switch {
	case d.parent != "":
		return d.parent
	case d.kind != "vfio":
		return cmp.Or(d.uuid, d.pool+"/"+d.name)
	}
	number, _ := strings.CutPrefix(d.name, "gpu-vfio-")
	for _, name := range slices.Sorted(maps.Keys(b.c.devices[d.pool])) {
		o := b.c.devices[d.pool][name]
		switch {
		case o.kind == "vfio":
		case d.pciBus != "" && o.pciBus != "":
			if d.pciBus == o.pciBus {
				return b.gpuOf(o)
			}
		case name == "gpu-"+number || strings.HasPrefix(name, "gpu-"+number+"-mig-"):
			return b.gpuOf(o)
		}
	}
	return cmp.Or(d.pciBus, d.uuid, d.pool+"/"+d.name)
}

// readDevices reads a node that the DRA driver serves.
func (n *node) readDevices(b *build) {
	gpus := map[string]bool{}
	// A GPU is in MIG mode where it is not offered as a whole, or an instance of it is there: a static one, which has
	// a UUID, or one of those that the driver can make that a claim holds.
	offered, inMIG := map[string]bool{}, map[string]bool{}
	for _, d := range n.devices {
		gpus[b.gpuOf(d)] = true
		offered[b.gpuOf(d)] = offered[b.gpuOf(d)] || d.kind != "mig"
		if n.driver.IsZero() {
			if v, err := sharing.ParseDriver(d.driver); err == nil {
				n.driver, n.driverFrom = v, declared("ResourceSlice attribute driverVersion")
			}
		}
	}
	n.uuids = slices.Sorted(maps.Keys(gpus))
	n.gpus, n.gpusFrom = len(gpus), declared("ResourceSlice: devices of %s", draDriver)
	n.mechanismFrom = declared("ResourceSlice and ResourceClaims")
	for _, d := range n.devices {
		there := d.kind == "mig" && (d.uuid != "" || b.heldDevices[d])
		if there {
			n.instances[d.profile]++
		}
		if there || d.kind == "mig" && !offered[d.parent] {
			inMIG[d.parent] = true
		}
		n.replicas = max(n.replicas, d.shares)
		if d.taint != "" {
			n.apartGPUs[b.gpuOf(d)] = "tainted " + d.taint
		}
	}
	n.inMIG = len(inMIG)
	n.whole = n.gpus - n.inMIG
}
