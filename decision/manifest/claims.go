// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

// claims writes the claims, and the pods that use them, of the workloads that DRA delivers: a template for each
// workload with a device or part of one for each pod, and a claim by name for each device that is shared otherwise.
func (b *builder) claims() {
	pods := map[*member][]*yaml.Node{}
	devices := map[*member]int{}
	for _, g := range b.groups {
		for _, n := range g.nodes {
			b.slots(n, func(s *slot) {
				for _, t := range s.tenants {
					devices[t.member]++
				}
			})
		}
	}
	for _, g := range b.groups {
		b.sharedClaims(g, pods, devices)
	}
	for _, m := range b.members {
		switch {
		case m.delivery() != sharing.DeliveryDRA:
		case !b.named(m):
			b.template(m)
		case len(pods[m]) > 0:
			header := b.newPod(m).header
			if len(pods[m]) > 1 {
				header = append(header, fmt.Sprintf("One %s for each device: pods that name the same claim share it.", m.object()))
			}
			b.encode("pods/"+m.file()+".yaml", "pods that share the claims of "+strings.Join(m.keys(), ", "), header,
				pods[m]...)
		}
	}
}

// named reports whether the pods of a workload name a claim that others name too: they share a device, and the
// scheduler does not count their parts of its memory.
func (b *builder) named(m *member) bool { return shared(m.Mechanism) && !b.consumes(m) }

// consumes reports whether claims may have parts of the GPUs that a workload shares. The gate for that is the whole
// driver's, and under it the driver refuses claims that ask for MPS, so that no group of a folder with such has it.
func (b *builder) consumes(m *member) bool {
	return m.Mechanism == sharing.MechanismTimeSlicing && !slices.ContainsFunc(b.groups, func(g *group) bool {
		return g.delivery == sharing.DeliveryDRA && g.any(usesMPS)
	}) && !slices.ContainsFunc(m.groups, func(g *group) bool {
		return slices.ContainsFunc(g.members, func(o *member) bool {
			return o.Mechanism == sharing.MechanismTimeSlicing && o.memory == 0
		})
	})
}

// draGates lists the gates of the DRA driver that the folder's claims need, and the gates that these exclude.
func (b *builder) draGates() string {
	gates := map[string]bool{}
	for _, m := range b.members {
		switch {
		case m.delivery() != sharing.DeliveryDRA:
		case b.consumes(m):
			gates["ConsumableShares, with consumableShares=memory"] = true
		case m.Mechanism == sharing.MechanismTimeSlicing:
			gates["TimeSlicingSettings"] = true
		case usesMPS(m.Mechanism):
			gates["MPSSupport, which excludes DynamicMIG and ConsumableShares"] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(gates)), "; ")
}

// template writes a workload with a claim of its own for each pod.
func (b *builder) template(m *member) {
	c := claim{name: m.name, namespace: m.space, template: true, gpu: m.gpu.Name, profile: m.Profile, count: m.gpus()}
	p, note := b.newPod(m), "a claim of its own for each pod"
	if b.consumes(m) {
		c.memory, note = m.memory, "a claim for its part of a GPU's memory for each pod"
		p.header = append(p.header, consumableGates...)
	}
	p.claim = &c
	b.encode("pods/"+m.file()+".yaml", note, p.header, c.node(), p.node(m))
}

// consumableGates lists the requirements of claims that consume a part of a GPU. Sources: dra-driver-nvidia-gpu,
// pkg/featuregates and demo/specs/consumable-shares at 95932046, and Kubernetes' DRAConsumableCapacity (KEP-5075).
var consumableGates = []string{
	"The claim consumes a part of a GPU, so every replica has its own, and an HPA may scale them.",
	"It needs the DRA driver from v0.5 with featureGates.ConsumableShares=true and consumableShares=memory, which",
	"exclude MPSSupport's sharing, and Kubernetes' DRAConsumableCapacity: alpha from 1.34, on by default from 1.36.",
	"The scheduler adds the parts up; on the GPU the pods take turns, and nothing limits the memory that each takes.",
}

// maxClaims bounds the shared GPUs of a group that are given claims: more than anybody can look after by name.
const maxClaims = 1000

// sharedClaims writes one ResourceClaim for each device, which its tenants'
// pods all name. A claim belongs to one namespace.
func (b *builder) sharedClaims(g *group, pods map[*member][]*yaml.Node, devices map[*member]int) {
	if g.delivery != sharing.DeliveryDRA || !slices.ContainsFunc(g.members, b.named) {
		return
	}
	if n := g.gpus(); n > maxClaims {
		b.warn(warnClaimsLeftOut, g.key, "nvidia-dra-driver", "deliver by the device plugin, or divide the pool",
			"no claims are written: sharing %d GPUs by DRA takes a named claim for each", n)
		return
	}
	var claims []*yaml.Node
	more, number := 0, 0
	for _, n := range g.nodes {
		b.slots(n, func(s *slot) {
			if !b.named(s.tenants[0].member) {
				return
			}
			byNamespace := map[string][]tenants{}
			var namespaces []string
			for _, t := range s.tenants {
				if byNamespace[t.space] == nil {
					namespaces = append(namespaces, t.space)
				}
				byNamespace[t.space] = append(byNamespace[t.space], t)
			}
			more += len(namespaces) - 1
			for k, ns := range namespaces {
				c := claim{name: fmt.Sprintf("%s-%d", g.key, number), namespace: ns, gpu: g.gpu.Name, profile: s.profile, count: 1,
					config: draConfig(s.mode, byNamespace[ns])}
				if k > 0 {
					c.name += fmt.Sprintf("-%d", k)
				}
				claims = append(claims, c.node())
				for _, t := range byNamespace[ns] {
					p := b.newPod(t.member)
					p.claim, p.replicas = &c, t.pods
					if devices[t.member] > 1 {
						p.name = fmt.Sprintf("%s-%d", t.name, len(pods[t.member]))
					}
					pods[t.member] = append(pods[t.member], p.node(t.member))
				}
			}
			number++
		})
	}
	if more > 0 {
		b.warn(warnClaimNamespaces, g.key, "nvidia-dra-driver",
			"put tenants that share a device into one namespace, or deliver by the device plugin",
			"a claim belongs to one namespace: tenants of several namespaces on one device take %d more device(s)", more)
	}
	b.encode("dra/claims/"+g.key+".yaml", fmt.Sprintf("%d claim(s), one for each shared device", len(claims)), g.draGate(),
		claims...)
}

// draConfig is the parameters of a shared device (resource.nvidia.com/v1beta1). The daemon's defaults hold for every
// client, so they are the most that any tenant may have; each pod's environment tightens its own. The driver ignores a
// GpuConfig on MIG devices without a word.
func draConfig(m sharing.Mechanism, all []tenants) *yaml.Node {
	kind := "GpuConfig"
	if usesMIG(m) {
		kind = "MigDeviceConfig"
	}
	config := func(strategy string, turns, mps any) *yaml.Node {
		return yamlnode.Map("apiVersion", "resource.nvidia.com/v1beta1", "kind", kind, "sharing",
			yamlnode.Map("strategy", strategy, "timeSlicingConfig", turns, "mpsConfig", mps))
	}
	if m == sharing.MechanismTimeSlicing {
		return config("TimeSlicing", yamlnode.Map("interval", "Default"), nil)
	}
	percent, memory := 0.0, sharing.Bytes(0)
	for _, t := range all {
		percent, memory = max(percent, t.percent), max(memory, t.processLimit())
	}
	var threads, limit any
	if !slices.ContainsFunc(all, func(t tenants) bool { return t.percent == 0 }) {
		threads = int(math.Ceil(percent))
	}
	if memory > 0 {
		limit = mebibytes(memory)
	}
	return config("MPS", nil, yamlnode.Map("defaultActiveThreadPercentage", threads,
		"defaultPinnedDeviceMemoryLimit", limit))
}

// draGate names the feature gate that the parameters of the group's claims need.
func (g *group) draGate() []string {
	var lines []string
	for _, m := range g.modes {
		gate := "MPSSupport"
		if m == sharing.MechanismTimeSlicing {
			gate = "TimeSlicingSettings"
		} else if !usesMPS(m) {
			continue
		}
		lines = append(lines, fmt.Sprintf("The opaque parameters need the DRA driver's feature gate %s, alpha and off by "+
			"default:", gate), fmt.Sprintf("helm upgrade ... --set featureGates.%s=true. Without it the claims cannot be "+
			"prepared.", gate))
		if usesMPS(m) {
			lines = append(lines, "MPSSupport excludes DynamicMIG and ConsumableShares, all values of the driver's whole chart.")
		}
	}
	return lines
}

// claim is a ResourceClaim or ResourceClaimTemplate (resource.k8s.io/v1) for the NVIDIA DRA driver, with one
// request. Pods that name the same ResourceClaim share its device; a template makes a claim of its own for each
// pod, so that only the containers of one pod share the device.
type claim struct {
	name      string
	namespace string // "" leaves it out
	template  bool
	profile   string // a MIG device of this profile; "" is a whole GPU
	gpu       string // product name that the device's must end with
	count     int    // devices
	// memory is consumed of each device, which other claims may then share: see the driver's feature gate
	// ConsumableShares. 0 leaves it out.
	memory sharing.Bytes
	config *yaml.Node // the driver's opaque parameters; nil leaves them out
}

// node is the document of a claim.
func (c *claim) node() *yaml.Node {
	name := c.request()
	var selectors []*yaml.Node
	cel := func(expr string) {
		selectors = append(selectors, yamlnode.Map("cel", yamlnode.Map("expression", expr)))
	}
	if c.profile != "" {
		cel(fmt.Sprintf("device.attributes['gpu.nvidia.com'].profile == '%s'", c.profile))
	}
	product, _, _ := strings.Cut(c.gpu, " (") // the stated figures of a GPU outside the table follow
	cel(fmt.Sprintf("device.attributes['gpu.nvidia.com'].productName.endsWith('%s')",
		strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(product)))
	memory := ""
	if c.memory > 0 {
		memory = mebibytes(c.memory)
	}
	var config []*yaml.Node
	if c.config != nil {
		config = append(config, yamlnode.Map("requests", []string{name},
			"opaque", yamlnode.Map("driver", "gpu.nvidia.com", "parameters", c.config)))
	}
	spec := yamlnode.Map("devices", yamlnode.Map(
		"requests", yamlnode.List(yamlnode.Map("name", name, "exactly", yamlnode.Map(
			"deviceClassName", name+".nvidia.com", "selectors", selectors, "allocationMode", "ExactCount",
			"count", c.count, "capacity", yamlnode.Map("requests", yamlnode.Map("memory", yamlnode.Some(memory)))))),
		"config", config))
	kind := "ResourceClaim"
	if c.template {
		kind, spec = "ResourceClaimTemplate", yamlnode.Map("spec", spec)
	}
	return yamlnode.Map("apiVersion", "resource.k8s.io/v1", "kind", kind,
		"metadata", metadata(c.name, c.namespace), "spec", spec)
}

// request is the name of the claim's request, and of the class of its device under nvidia.com.
func (c *claim) request() string {
	if c.profile != "" {
		return "mig"
	}
	return "gpu"
}
