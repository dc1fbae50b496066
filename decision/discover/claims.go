// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

type deviceRequest struct {
	Class    string `json:"deviceClassName"`
	Count    int    `json:"count"`
	Admin    bool   `json:"adminAccess"`
	Capacity struct {
		Requests map[string]string `json:"requests"`
	} `json:"capacity"`
}

type claimSpec struct {
	Devices struct {
		Requests []struct {
			Name string `json:"name"`
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
					Request  string            `json:"request"`
					Admin    bool              `json:"adminAccess"`
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
	memory    sharing.Bytes   // requested of each device, the most; 0 = not given
	pods      int             // that it is reserved for
	observes  bool            // some of it is admin access, which takes no device from anybody
	admin     map[string]bool // its requests of admin access
	elsewhere bool            // it was given devices of other drivers
}

// allocation is a device that a claim was given.
type allocation struct {
	deviceID
	memory sharing.Bytes // that the claim consumes of it; 0 = not given
}

type deviceID struct{ pool, device string }

func (s *claimSpec) claim() claim {
	out := claim{admin: map[string]bool{}}
	for _, r := range s.Devices.Requests {
		req := *cmp.Or(r.Exactly, &r.deviceRequest)
		if req.Class == "" && len(r.First) > 0 {
			req = r.First[0]
		}
		if req.Admin {
			out.observes, out.admin[r.Name] = true, true
			continue
		}
		out.memory = max(out.memory, sharing.Bytes(quantity(req.Capacity.Requests["memory"])))
		for range min(max(1, req.Count), 1024) {
			out.classes = append(out.classes, req.Class)
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
		case r.Admin || k.admin[request]:
			k.observes = true
		default:
			k.allocated = append(k.allocated, allocation{deviceID{r.Pool, r.Device},
				sharing.Bytes(quantity(r.Consumed["memory"]))})
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

type claimTemplateObject struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Spec claimSpec `json:"spec"`
	} `json:"spec"`
}

func (c *Collector) takeClaimTemplate(file string, o *claimTemplateObject) {
	k := o.Spec.Spec.claim()
	c.templates[o.Metadata.Namespace+"/"+o.Metadata.Name] = &k
}

// claimed returns the devices that a pod's claims were given, or request. An unknown claim counts as a GPU on a
// node that the driver serves.
func (b *build) claimed(p *pod, n *node) (all []holding) {
	for _, c := range p.claims {
		k := b.c.claims[c.claim]
		if k == nil {
			k = b.c.templates[c.template]
		}
		switch {
		case k != nil:
			all = append(all, b.claimHoldings(k)...)
		case n != nil && len(n.devices) > 0 && p.running:
			name := cmp.Or(c.claim, c.template)
			all = append(all, holding{use: use{role: roleAmount, delivery: sharing.DeliveryDRA,
				mechanism: sharing.MechanismExclusive}, gpus: 1, resource: "ResourceClaim " + name})
		}
	}
	return all
}

func (b *build) claimHoldings(k *claim) (all []holding) {
	base := holding{use: use{role: roleCount, delivery: sharing.DeliveryDRA, mechanism: sharing.MechanismExclusive},
		gpus: 1, resource: "ResourceClaim"}
	strategy := k.strategy
	for _, class := range k.classes {
		strategy = cmp.Or(strategy, b.c.classes[class].strategy)
	}
	shared := func(h *holding, several bool) {
		switch {
		case strategy == "MPS" && h.mechanism == sharing.MechanismMIG:
			h.mechanism = sharing.MechanismMIGWithMPS
		case strategy == "MPS":
			h.mechanism = sharing.MechanismMPS
		case h.mechanism != sharing.MechanismMIG && several:
			h.mechanism = sharing.MechanismTimeSlicing
		}
	}
	if len(k.allocated) == 0 && !k.elsewhere {
		for _, class := range k.classes {
			h := base
			_, known := b.c.classes[class]
			switch kind := b.c.classKind(class); {
			case kind == "mig":
				h.mechanism = sharing.MechanismMIG
			case kind == "" && (known || !gpuWord.MatchString(class)):
				continue
			}
			h.memory = k.memory
			shared(&h, k.pods > 1)
			all = append(all, h)
		}
		return all
	}
	for _, a := range k.allocated {
		h, d := base, b.device(a.deviceID)
		h.granted = true
		if d == nil {
			h.device = a.pool + "/" + a.device
			shared(&h, k.pods > 1 || b.heldBy[a.deviceID] > 1)
			all = append(all, h)
			continue
		}
		h.device = b.gpuOf(d)
		if d.kind == "mig" {
			h.mechanism, h.profile = sharing.MechanismMIG, d.profile
		}
		consumed := cmp.Or(a.memory, k.memory)
		part := d.several && (consumed == 0 || consumed < d.memory) // others may consume the rest
		if part {
			h.memory = consumed
		}
		shared(&h, k.pods > 1 || part || b.heldBy[a.deviceID] > 1)
		all = append(all, h)
	}
	return all
}
