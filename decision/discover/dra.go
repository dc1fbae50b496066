package discover

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

const draDriver = "gpu.nvidia.com" // the name of NVIDIA's DRA driver for GPUs

// device is a GPU or MIG device of a ResourceSlice.
type device struct {
	name, kind, uuid, parent, product, profile, driver string
	architecture, capability                           string

	memory sharing.Bytes
	// several says that claims may share the device (the driver's ConsumableShares), each consuming a part of its
	// capacity; shares is how many may, where that is limited.
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

var quantityText = regexp.MustCompile(`^(\d{1,18}(?:\.\d{1,9})?)(|k|M|G|T|Ki|Mi|Gi|Ti)$`)

// quantity reads an amount as Kubernetes writes it, 20Gi or 21474836480; 0 where it is none, or more than there can be.
func quantity(text string) int64 {
	m := quantityText.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	scale := map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20,
		"Gi": 1 << 30, "Ti": 1 << 40}
	v, _ := strconv.ParseFloat(m[1], 64) // digits
	if v *= scale[m[2]]; v > float64(mostMemory) {
		return 0
	}
	return int64(v)
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

// takeSlice keeps the devices of NVIDIA's driver. A node has several slices where its GPUs can be partitioned: one of
// counters, and one of each GPU's devices.
func (c *Collector) takeSlice(file string, o *sliceObject) {
	if o.Spec.Driver != draDriver {
		if c.foreign[o.Spec.Driver] == nil {
			c.foreign[o.Spec.Driver] = map[string]int{}
		}
		c.foreign[o.Spec.Driver][o.Spec.NodeName] += len(o.Spec.Devices)
		return
	}
	name := cmp.Or(o.Spec.NodeName, o.Spec.Pool.Name)
	c.poolNode[o.Spec.Pool.Name] = name
	if o.Spec.Pool.Generation < c.generation[name] {
		return // a newer one was read
	}
	if o.Spec.Pool.Generation > c.generation[name] || c.devices[name] == nil {
		c.generation[name], c.devices[name] = o.Spec.Pool.Generation, map[string]*device{}
	}
	for i := range o.Spec.Devices {
		d := &o.Spec.Devices[i]
		body := cmp.Or(d.Basic, &d.deviceBody)
		c.devices[name][d.Name] = &device{name: d.Name, kind: body.get("type"), uuid: body.get("uuid"),
			parent: body.get("parentUUID"), product: body.get("productName"), profile: body.get("profile"),
			driver: body.get("driverVersion"), architecture: body.get("architecture"),
			capability: strings.TrimSuffix(body.get("cudaComputeCapability"), ".0"), several: body.Several,
			memory: sharing.Bytes(body.amount("memory")), shares: int(min(body.amount("shares"), mostReplicas))}
	}
}

type deviceRequest struct {
	Class    string `json:"deviceClassName"`
	Count    int    `json:"count"`
	Capacity struct {
		Requests map[string]string `json:"requests"`
	} `json:"capacity"`
}

type claimSpec struct {
	Devices struct {
		Requests []struct {
			deviceRequest
			Exactly *deviceRequest  `json:"exactly"`
			First   []deviceRequest `json:"firstAvailable"`
		} `json:"requests"`
		Config []claimConfig `json:"config"`
	} `json:"devices"`
}

type claimConfig struct {
	Opaque struct {
		Driver     string          `json:"driver"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"opaque"`
}

// strategy is the sharing that a configuration of the driver asks for.
func (c *claimConfig) strategy() string {
	var p struct {
		Sharing struct {
			Strategy string `json:"strategy"`
		} `json:"sharing"`
	}
	if c.Opaque.Driver != draDriver || json.Unmarshal(c.Opaque.Parameters, &p) != nil {
		return ""
	}
	return p.Sharing.Strategy
}

type claimObject struct {
	Metadata metadata  `json:"metadata"`
	Spec     claimSpec `json:"spec"`
	Status   struct {
		Allocation struct {
			Devices struct {
				Results []struct {
					Driver   string            `json:"driver"`
					Pool     string            `json:"pool"`
					Device   string            `json:"device"`
					Consumed map[string]string `json:"consumedCapacity"`
				} `json:"results"`
				Config []claimConfig `json:"config"`
			} `json:"devices"`
		} `json:"allocation"`
		ReservedFor []struct {
			Resource string `json:"resource"`
			Name     string `json:"name"`
		} `json:"reservedFor"`
	} `json:"status"`
}

// claim holds the known parts of a ResourceClaim for GPUs.
type claim struct {
	classes   []string // that it asks for, one an entry for each device
	strategy  string   // TimeSlicing, MPS or none
	allocated []allocation
	memory    sharing.Bytes // that it consumes of each device, the most; 0 = not said
	pods      int           // that it is reserved for
}

type allocation struct{ pool, device string }

func (s *claimSpec) claim() claim {
	var out claim
	for _, r := range s.Devices.Requests {
		req := *cmp.Or(r.Exactly, &r.deviceRequest)
		if req.Class == "" && len(r.First) > 0 {
			req = r.First[0]
		}
		out.memory = max(out.memory, sharing.Bytes(quantity(req.Capacity.Requests["memory"])))
		for range min(max(1, req.Count), 1024) {
			out.classes = append(out.classes, req.Class)
		}
	}
	for i := range s.Devices.Config {
		if text := s.Devices.Config[i].strategy(); text != "" {
			out.strategy = text
		}
	}
	return out
}

func (c *Collector) takeClaim(file string, o *claimObject) {
	k := o.Spec.claim()
	for i := range o.Status.Allocation.Devices.Config {
		if text := o.Status.Allocation.Devices.Config[i].strategy(); text != "" {
			k.strategy = text
		}
	}
	for _, r := range o.Status.Allocation.Devices.Results {
		if r.Driver == draDriver {
			k.allocated = append(k.allocated, allocation{r.Pool, r.Device})
			k.memory = max(k.memory, sharing.Bytes(quantity(r.Consumed["memory"])))
		}
	}
	for _, r := range o.Status.ReservedFor {
		if r.Resource == "pods" {
			k.pods++
		}
	}
	if len(k.classes) > 0 || len(k.allocated) > 0 {
		c.claims[o.Metadata.Namespace+"/"+o.Metadata.Name] = &k
	}
}

type claimTemplateObject struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Spec claimSpec `json:"spec"`
	} `json:"spec"`
}

func (c *Collector) takeClaimTemplate(file string, o *claimTemplateObject) {
	if k := o.Spec.Spec.claim(); len(k.classes) > 0 {
		c.templates[o.Metadata.Namespace+"/"+o.Metadata.Name] = &k
	}
}

// gpuClusterObject is the GPU Operator's configuration of the stack that delivers GPUs by DRA, from v26.7.0.
type gpuClusterObject struct {
	Spec struct {
		Driver struct {
			Gates map[string]bool `json:"featureGates"`
		} `json:"draDriver"`
		Exporter struct {
			Version string `json:"version"`
		} `json:"dcgmExporter"`
	} `json:"spec"`
}

func (c *Collector) takeGPUCluster(file string, o *gpuClusterObject) {
	if c.gates = o.Spec.Driver.Gates; c.gates == nil {
		c.gates = map[string]bool{}
	}
	c.exporter.see(exporterImage, "/dcgm-exporter:"+o.Spec.Exporter.Version, file+": GPUCluster")
}

// checkGates finds claims whose parameters the DRA driver refuses, as its gates are.
func (b *build) checkGates() {
	for _, of := range []map[string]*claim{b.c.claims, b.c.templates} {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			gate := map[string]string{"MPS": "MPSSupport", "TimeSlicing": "TimeSlicingSettings"}[of[name].strategy]
			if b.c.gates != nil && gate != "" && !b.c.gates[gate] {
				b.find("dra-gate-off", sharing.SeverityHigh, "claim "+name, "GPUCluster, spec.draDriver.featureGates",
					"asks for %s, and the DRA driver's feature gate %s is off: it cannot be prepared", of[name].strategy, gate)
			}
		}
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
	} `json:"spec"`
}

// takeDeviceClass keeps which kind of device of NVIDIA's driver a class stands for.
func (c *Collector) takeDeviceClass(file string, o *deviceClassObject) {
	for _, s := range o.Spec.Selectors {
		if e := s.CEL.Expression; strings.Contains(e, draDriver) {
			c.classes[o.Metadata.Name] = "gpu"
			if strings.Contains(e, "'mig'") || strings.Contains(e, `"mig"`) {
				c.classes[o.Metadata.Name] = "mig"
			}
		}
	}
}

// classKind is "gpu" or "mig" of a class for NVIDIA's devices, "" of another's.
func (c *Collector) classKind(name string) string {
	switch name {
	case draDriver:
		return "gpu"
	case "mig.nvidia.com":
		return "mig"
	}
	return c.classes[name]
}

// device is the one that a claim was given, nil where no slice has it.
func (b *build) device(a allocation) *device {
	return b.devices[cmp.Or(b.c.poolNode[a.pool], a.pool)][a.device]
}

// readDevices reads a node that the DRA driver serves.
func (n *node) readDevices(b *build) {
	parents := map[string]bool{}
	n.devices = b.devices[n.name]
	for _, name := range slices.Sorted(maps.Keys(n.devices)) {
		d := n.devices[name]
		uuid := d.uuid
		if d.kind == "mig" {
			uuid = d.parent
		}
		if uuid != "" {
			parents[uuid] = true
		}
		if n.driver.IsZero() {
			if v, err := sharing.ParseDriver(d.driver); err == nil {
				n.driver, n.driverFrom = v, declared("ResourceSlice attribute driverVersion")
			}
		}
	}
	n.uuids = slices.Sorted(maps.Keys(parents))
	n.gpus, n.gpusFrom = len(parents), declared("ResourceSlice: devices of %s", draDriver)
	n.mechanismFrom = declared("ResourceSlice and ResourceClaims")
	// A GPU is in MIG mode where it is not offered as a whole, or an instance of it is there: a static one, which has
	// a UUID, or one of those that the driver can make that a claim holds.
	offered, inMIG := map[string]bool{}, map[string]bool{}
	for _, d := range n.devices {
		if d.kind != "mig" {
			offered[d.uuid] = true
		}
	}
	for _, d := range n.devices {
		if d.kind == "mig" && (d.uuid != "" || b.heldDevices[d]) {
			n.instances[d.profile]++
		}
		if d.kind == "mig" && (!offered[d.parent] || d.uuid != "" || b.heldDevices[d]) {
			inMIG[d.parent] = true
		}
		n.replicas = max(n.replicas, d.shares)
	}
	n.inMIG = len(inMIG)
	n.whole = n.gpus - n.inMIG
}
