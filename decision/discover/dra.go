package discover

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

const draDriver = "gpu.nvidia.com" // the name of NVIDIA's DRA driver for GPUs

// device is a GPU or MIG device of a ResourceSlice.
type device struct {
	name, kind, uuid, parent, product, profile, driver string
}

type attribute struct {
	String  *string `json:"string"`
	Version *string `json:"version"`
}

func (a attribute) text() string {
	switch {
	case a.String != nil:
		return *a.String
	case a.Version != nil:
		return *a.Version
	}
	return ""
}

type sliceDevice struct {
	Name       string               `json:"name"`
	Attributes map[string]attribute `json:"attributes"`
	Basic      *struct {            // v1beta1
		Attributes map[string]attribute `json:"attributes"`
	} `json:"basic"`
}

func (d *sliceDevice) get(key string) string {
	attributes := d.Attributes
	if d.Basic != nil {
		attributes = d.Basic.Attributes
	}
	if a, ok := attributes[key]; ok {
		return a.text()
	}
	return attributes[draDriver+"/"+key].text()
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

// takeSlice keeps the devices of NVIDIA's driver.
func (c *Collector) takeSlice(file string, o *sliceObject) {
	if o.Spec.Driver != draDriver {
		return
	}
	name := cmp.Or(o.Spec.NodeName, o.Spec.Pool.Name)
	if o.Spec.Pool.Generation < c.generation[name] {
		return // a newer one was read
	}
	if o.Spec.Pool.Generation > c.generation[name] || c.devices[name] == nil {
		c.generation[name], c.devices[name] = o.Spec.Pool.Generation, map[string]*device{}
	}
	for i := range o.Spec.Devices {
		d := &o.Spec.Devices[i]
		c.devices[name][d.Name] = &device{name: d.Name, kind: d.get("type"), uuid: d.get("uuid"), parent: d.get("parentUUID"),
			product: d.get("productName"), profile: d.get("profile"), driver: d.get("driverVersion")}
	}
}

type deviceRequest struct {
	Class string `json:"deviceClassName"`
	Count int    `json:"count"`
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
					Driver string `json:"driver"`
					Pool   string `json:"pool"`
					Device string `json:"device"`
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
	pods      int // that it is reserved for
}

type allocation struct{ pool, device string }

func (s *claimSpec) claim() claim {
	var out claim
	for _, r := range s.Devices.Requests {
		req := r.deviceRequest
		if r.Exactly != nil {
			req = *r.Exactly
		}
		if req.Class == "" && len(r.First) > 0 {
			req = r.First[0]
		}
		if !strings.Contains(req.Class, draDriver) {
			continue
		}
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
	// A GPU is in MIG mode where an instance of it is there: a static one, of a
	// GPU that is not offered as a whole, or one that a claim holds.
	offered, inMIG := map[string]bool{}, map[string]bool{}
	for _, d := range n.devices {
		if d.kind != "mig" {
			offered[d.uuid] = true
		}
	}
	for _, d := range n.devices {
		if d.kind == "mig" && (!offered[d.parent] || b.held[allocation{n.name, d.name}] > 0) {
			inMIG[d.parent] = true
			n.instances[d.profile]++
		}
	}
	n.inMIG = len(inMIG)
	n.whole = n.gpus - n.inMIG
}
