// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision/discover/internal/hami"
	"github.com/cotenant/cotenant/sharing"
)

const draDriver = "gpu.nvidia.com" // the name of NVIDIA's DRA driver for GPUs

func (d *deviceBody) get(key string) string {
	short, long := d.Attributes[key], d.Attributes[draDriver+"/"+key]
	return cmp.Or(short.String, short.Version, long.String, long.Version)
}

func (d *deviceBody) amount(key string) int64 {
	return quantity(cmp.Or(d.Capacity[key].Value, d.Capacity[draDriver+"/"+key].Value))
}

func (d *deviceBody) pciBus() string { return d.Attributes["resource.kubernetes.io/pciBusID"].String }

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
		c.devices[pool][d.Name] = &device{*body, pool, d.Name, body.get("type"), body.get("uuid"), body.get("parentUUID"),
			body.get("productName"), body.get("profile"), sharing.Bytes(body.amount("memory"))}
	}
}

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
	if o.Spec.ExtendedResourceName != "" {
		c.answers[o.Spec.ExtendedResourceName] = o.Metadata.Name
	}
}

// driverClasses are those that the driver's chart brings.
var driverClasses = map[string]string{draDriver: "gpu", "mig.nvidia.com": "mig", "vfio.gpu.nvidia.com": "vfio"}

// classKind is "gpu", "mig" or "vfio" of a class for NVIDIA's devices, "" of another's.
func (c *Collector) classKind(name string) string {
	return cmp.Or(driverClasses[name], c.classes[name].kind)
}

// strategy is the sharing that the last of the driver's configurations with one asks for, else was.
func strategy(all []claimConfig, was string) string {
	for _, c := range all {
		var p struct {
			Sharing struct {
				Strategy string `json:"strategy"`
			} `json:"sharing"`
		}
		if c.Opaque.Driver == draDriver && json.Unmarshal(c.Opaque.Parameters, &p) == nil {
			was = cmp.Or(p.Sharing.Strategy, was)
		}
	}
	return was
}

func (s *claimSpec) claim() claim {
	out := claim{admin: map[string]bool{}}
	for _, r := range s.Devices.Requests {
		req := *cmp.Or(r.Exactly, &r.deviceRequest)
		if req.DeviceClassName == "" && len(r.FirstAvailable) > 0 {
			req = r.FirstAvailable[0]
		}
		if req.AdminAccess {
			out.observes, out.admin[r.Name] = true, true
			continue
		}
		out.memory = max(out.memory, sharing.Bytes(quantity(req.Capacity.Requests["memory"])))
		for range min(max(1, req.Count), 1024) {
			out.classes = append(out.classes, req.DeviceClassName)
		}
	}
	out.strategy = strategy(s.Devices.Config, "")
	return out
}

func (c *Collector) takeClaim(file string, o *claimObject) {
	k := o.Spec.claim()
	k.strategy = strategy(o.Status.Allocation.Devices.Config, k.strategy)
	for _, r := range o.Status.Allocation.Devices.Results {
		request, _, _ := strings.Cut(r.Request, "/") // of a subrequest its request
		switch {
		case r.Driver != draDriver:
			k.elsewhere = true
		case r.AdminAccess || k.admin[request]:
			k.observes = true
		default:
			k.allocated = append(k.allocated, allocation{deviceID{r.Pool, r.Device},
				sharing.Bytes(quantity(r.ConsumedCapacity["memory"]))})
		}
	}
	for _, r := range o.Status.ReservedFor {
		if r.Resource == "pods" {
			k.pods++
		}
	}
	// One of other drivers' devices is kept by its name, so that its pod is not taken to hold a GPU.
	c.claims[o.Metadata.Namespace+"/"+o.Metadata.Name] = &k
}

func (c *Collector) takeClaimTemplate(file string, o *claimTemplateObject) {
	k := o.Spec.Spec.claim()
	c.templates[o.Metadata.Namespace+"/"+o.Metadata.Name] = &k
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
	for _, name := range sortedKeys(b.c.devices[d.pool]) {
		o := b.c.devices[d.pool][name]
		switch {
		case o.kind == "vfio":
		case d.pciBus() != "" && o.pciBus() != "":
			if d.pciBus() == o.pciBus() {
				return b.gpuOf(o)
			}
		case name == "gpu-"+number || strings.HasPrefix(name, "gpu-"+number+"-mig-"):
			return b.gpuOf(o)
		}
	}
	return cmp.Or(d.pciBus(), d.uuid, d.pool+"/"+d.name)
}

func (b *build) allocations(p *pod) iter.Seq2[deviceID, *claim] {
	return func(yield func(deviceID, *claim) bool) {
		for _, c := range p.claims {
			if k := b.c.claims[c.claim]; k != nil {
				for _, a := range k.allocated {
					if !yield(a.deviceID, k) {
						return
					}
				}
			}
		}
	}
}

// Annotations of pods in which schedulers record allocated devices: HAMi (protocol.md and dynamic-mig-migration.md at
// 4707fb02), the scheduler that became HAMi, and Volcano (65f4653d).
const (
	grantHAMi    = "hami.io/vgpu-devices-allocated"
	grantHAMiMIG = "hami.io/vgpu-mig-allocations" // from 2.10
	grantOld     = "4pd.io/vgpu-ids-new"
	grantVolcano = "volcano.sh/vgpu-ids-new"
)

var grants = []string{grantHAMi, grantOld, grantVolcano}

// migAllocation is an entry of HAMi's annotation of MIG instances.
type migAllocation struct {
	Container int    `json:"containerIndex"`
	Device    int    `json:"deviceIndex"`
	GPU       string `json:"gpuUUID"`
	Profile   string `json:"profile"`
	Placement struct {
		Start int `json:"start"`
		Size  int `json:"size"`
	} `json:"placement"`
}

// granted returns the devices that a pod was given, nil where no annotation or status records them.
func (b *build) granted(p *pod, n *node, asked []holding) (all []holding) {
	if i, ok := p.notes["ALIYUN_COM_GPU_MEM_IDX"]; ok && len(asked) == 1 {
		one := asked[0]
		one.device, one.gpus, one.granted = "index "+i, 1, true
		return []holding{one}
	}
	i := slices.IndexFunc(grants, func(key string) bool { return p.notes[key] != "" })
	if i < 0 {
		return nil
	}
	key, u := grants[i], use{role: roleCount, delivery: sharing.DeliveryHAMi}
	if key == grantVolcano {
		u.delivery = sharing.DeliveryVolcano
	}
	containers, err := hami.ParseGrants(p.notes[key])
	if err != nil {
		b.find("annotation-unreadable/request", "pod "+p.namespace+"/"+p.name, "annotation "+key, key, err)
		return nil
	}
	instances, names := b.instances(p), p.containers(len(containers))
	for i, devices := range containers {
		for k, g := range devices {
			h := holding{use: u, gpus: 1, device: g.UUID, resource: "annotation " + key, cores: g.Cores,
				memory: sharing.Bytes(g.MiB) * sharing.MiB, granted: true}
			if i < len(names) {
				h.container = names[i]
			}
			card := n.card(g.UUID)
			inMIG := g.Template || card != nil && card.Mode == "mig"
			if in := instances[[2]int{i, k}]; in != nil {
				h.profile, h.start, h.size = in.Profile, in.Placement.Start, in.Placement.Size
			} else if inMIG {
				h.profile = n.profileFor(h.memory)
			}
			if inMIG || h.profile != "" {
				h.mechanism, h.cores = sharing.MechanismMIG, 0
			}
			all = append(all, h)
		}
	}
	return all
}

// containers are the names of a pod's containers, with those that end before the others start where n counts them.
func (p *pod) containers(n int) (names []string) {
	for _, w := range p.wants {
		if !w.init || n == len(p.wants) {
			names = append(names, w.container)
		}
	}
	return names
}

// instances are the MIG instances that HAMi gave a pod, by the places of its container and device.
func (b *build) instances(p *pod) map[[2]int]*migAllocation {
	var all []migAllocation
	out := map[[2]int]*migAllocation{}
	text := p.notes[grantHAMiMIG]
	if err := json.Unmarshal([]byte(cmp.Or(text, "[]")), &all); err != nil {
		b.find("annotation-unreadable/instances", "pod "+p.namespace+"/"+p.name, "annotation "+grantHAMiMIG, grantHAMiMIG)
	}
	for i := range all {
		out[[2]int{all[i].Container, all[i].Device}] = &all[i]
	}
	return out
}

// kaiHoldings reads the annotations of the KAI scheduler: a part of each of some GPUs. The mode NvFractions (0.18)
// has them by container: a request, by which KAI places, and a limit, which the driver holds.
func (b *build) kaiHoldings(p *pod) (all []holding) {
	a := p.notes
	base := holding{use: use{role: roleAmount, delivery: sharing.DeliveryKAI, mechanism: sharing.MechanismTimeSlicing},
		gpus: 1}
	var groups []string
	for _, key := range sortedKeys(p.labels) {
		if kaiGroups.MatchString(key) && p.labels[key] != "" && !slices.Contains(groups, p.labels[key]) {
			groups = append(groups, p.labels[key])
		}
	}
	if g := a["gpu-group"]; g != "" && len(groups) == 0 {
		groups = []string{g}
	}
	containers := map[string]holding{}
	for _, key := range sortedKeys(a) { // a limit comes before its request
		m := kaiAnnotation.FindStringSubmatch(key)
		if m == nil {
			continue
		}
		h, ok := containers[m[1]]
		if !ok {
			h = base
			h.container = m[1]
		}
		switch v := sharing.Bytes(quantity(a[key])); {
		case m[2] == "gpu-compute.mode" && a[key] == "sm-sharing":
			h.mechanism = sharing.MechanismMPS
		case m[2] == "gpus.devices" && len(groups) == 0:
			for d := range strings.SplitSeq(a[key], ",") {
				groups = append(groups, "GPU "+strings.TrimSpace(d))
			}
		case m[2] == "gpu-memory.request":
			h.request = v
			fallthrough
		case m[2] == "gpu-memory.limit" && h.memory == 0:
			if h.memory == 0 && v > 0 {
				h.memory, h.resource = v, "annotation "+key
			}
		}
		containers[m[1]] = h
	}
	for _, name := range sortedKeys(containers) {
		if h := containers[name]; h.memory > 0 {
			all = append(all, h)
		}
	}
	fraction, _ := strconv.ParseFloat(a["gpu-fraction"], 64)
	mib, _ := strconv.ParseInt(a["gpu-memory"], 10, 64)
	if len(all) == 0 && (a["gpu-fraction"] != "" || a["gpu-memory"] != "") {
		base.resource = "annotation gpu-fraction"
		switch {
		case fraction > 0 && fraction < 1:
			base.fraction = fraction
		case mib > 0 && mib <= int64(mostMemory/sharing.MiB):
			base.memory, base.resource = sharing.Bytes(mib)*sharing.MiB, "annotation gpu-memory"
		}
		all = append(all, base)
	}
	// Each of so many GPUs; without a group they are its own, as far as is known.
	devices := max(1, count(a["gpu-fraction-num-devices"]), len(groups))
	for len(groups) < devices && len(groups) < mostPerNode {
		groups = append(groups, fmt.Sprintf("%s/%s %d", p.namespace, p.name, len(groups)))
	}
	var out []holding
	for _, h := range all {
		for _, g := range groups {
			h.device = "KAI's " + g
			out = append(out, h)
		}
	}
	return out
}
