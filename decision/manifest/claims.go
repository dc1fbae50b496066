package manifest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

// consumes reports whether the pods of a group hold claims for parts of GPUs. The gate for that is the whole driver's,
// and under it the driver refuses claims that ask for MPS, so that no group of a folder with MPS has it.
func (b *builder) consumes(g *group) bool {
	return g.Mechanism == sharing.MechanismTimeSlicing && b.uses(sharing.DeliveryDRA) && !b.any(usesMPS) &&
		!slices.ContainsFunc(g.members, func(m *member) bool { return m.memory == 0 })
}

// draGates are the gates of the DRA driver that the folder's claims need, and what they exclude.
func (b *builder) draGates() string {
	gates := map[string]bool{}
	for _, g := range b.groups {
		switch {
		case b.consumes(g):
			gates["ConsumableShares, with consumableShares=memory"] = true
		case g.Mechanism == sharing.MechanismTimeSlicing:
			gates["TimeSlicingSettings"] = true
		case usesMPS(g.Mechanism):
			gates["MPSSupport, which excludes DynamicMIG and ConsumableShares"] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(gates)), "; ")
}

// draFiles writes the group's claims and the pods that use them.
func (b *builder) draFiles(g *group) {
	consumes := b.consumes(g)
	if shared(g.Mechanism) && !consumes {
		b.sharedClaims(g)
		return
	}
	for _, m := range g.members {
		c := claim{name: m.name, namespace: m.space, template: true, gpu: g.gpu.Name, profile: m.Profile, count: m.gpus()}
		p, note := b.newPod(m), "a claim of its own for each pod"
		if consumes {
			c.memory, note = m.memory, "a claim for its part of a GPU's memory for each pod"
			p.header = append(p.header, consumableGates...)
		}
		p.claim = &c
		b.encode("dra/pods/"+m.file()+".yaml", note, p.header, b.node(&c), p.node(m))
	}
}

// consumableGates say what claims that consume a part of a GPU need: dra-driver-nvidia-gpu, pkg/featuregates and
// demo/specs/consumable-shares at 95932046, and Kubernetes' DRAConsumableCapacity (KEP-5075).
var consumableGates = []string{
	"The claim consumes a part of a GPU, so every replica has its own, and an HPA may scale the Deployment.",
	"It needs the DRA driver from v0.5 with featureGates.ConsumableShares=true and consumableShares=memory, which",
	"exclude MPSSupport's sharing, and Kubernetes' DRAConsumableCapacity: alpha from 1.34, on by default from 1.36.",
	"The scheduler adds the parts up; on the GPU the pods take turns, and nothing limits the memory that each takes.",
}

// seat counts the pods of a workload that share one device.
type seat struct {
	*member
	pods int
}

// device is a GPU, or a MIG instance, and who sits on it.
type device struct {
	profile string
	seats   []seat
}

// devices seats the group's workloads on its devices as the decision has it.
func (g *group) devices() []device {
	var out []device
	seats := func(profile, workload string, pods int) {
		for _, m := range g.members {
			if d := &out[len(out)-1]; m.Workload == workload {
				d.profile, d.seats = profile, append(d.seats, seat{m, pods})
			}
		}
	}
	for _, l := range g.Layouts {
		for range l.GPUs {
			if !usesMIG(g.Mechanism) {
				out = append(out, device{})
				for _, t := range l.Tenants {
					seats("", t.Workload, t.Replicas)
				}
			}
			for _, in := range l.Instances {
				out = append(out, device{})
				seats(in.Profile, in.Workload, in.Replicas)
			}
		}
	}
	return out
}

// maxClaims bounds the shared GPUs of a group that are given claims: more than anybody can look after by name.
const maxClaims = 1000

// sharedClaims writes one ResourceClaim for each device, which its tenants'
// pods all name. A claim belongs to one namespace.
func (b *builder) sharedClaims(g *group) {
	if g.GPUs > maxClaims {
		b.warn(WarnClaimsLeftOut, g.key, "nvidia-dra-driver", "deliver by the device plugin, or divide the pool",
			"no claims are written: sharing %d GPUs by DRA takes a named claim for each", g.GPUs)
		return
	}
	devices := g.devices()
	seated, devicesOf := map[*member]int{}, map[*member]int{}
	for _, d := range devices {
		for _, s := range d.seats {
			seated[s.member] += s.pods
			devicesOf[s.member]++
		}
	}
	var claims []*yaml.Node
	split, pods := 0, map[*member][]*yaml.Node{}
	for i, d := range devices {
		byNamespace := map[string][]seat{}
		var namespaces []string
		for _, s := range d.seats {
			ns := s.space
			if byNamespace[ns] == nil {
				namespaces = append(namespaces, ns)
			}
			byNamespace[ns] = append(byNamespace[ns], s)
		}
		split += max(len(namespaces)-1, 0)
		for n, ns := range namespaces {
			c := claim{name: fmt.Sprintf("%s-%d", g.key, i), namespace: ns, gpu: g.gpu.Name, profile: d.profile, count: 1,
				config: g.draConfig(byNamespace[ns])}
			if n > 0 {
				c.name += fmt.Sprintf("-%d", n)
			}
			claims = append(claims, b.node(&c))
			for _, s := range byNamespace[ns] {
				p := b.newPod(s.member)
				p.claim, p.replicas = &c, s.pods
				if devicesOf[s.member] > 1 {
					p.name = fmt.Sprintf("%s-%d", s.name, len(pods[s.member]))
				}
				pods[s.member] = append(pods[s.member], p.node(s.member))
			}
		}
	}
	if split > 0 {
		b.warn(WarnClaimNamespaces, g.key, "nvidia-dra-driver",
			"put tenants that share a device into one namespace, or deliver by the device plugin",
			"a claim belongs to one namespace: tenants of several namespaces on one device take %d more device(s)", split)
	}
	if len(claims) > 0 {
		b.encode("dra/claims/"+g.key+".yaml", fmt.Sprintf("%d claim(s), one for each shared device", len(claims)),
			g.draGate(), claims...)
	}
	for _, m := range g.members {
		if n := m.Replicas - seated[m]; n > 0 {
			b.warn(WarnUnplacedTenants, m.name, "nvidia-dra-driver", "add GPUs to the group, or let more clients share each",
				"the devices of %s have no room for %d of its %d pods", g.key, n, m.Replicas)
		}
		if len(pods[m]) == 0 {
			continue
		}
		header := b.newPod(m).header
		if devicesOf[m] > 1 {
			header = append(header, "One Deployment for each device: pods that name the same claim share it.")
		}
		b.encode("dra/pods/"+m.file()+".yaml", "pods that share the claims of "+g.key, header, pods[m]...)
	}
}

// draConfig is the parameters of a shared device. The daemon's defaults hold for every client, so they are the most
// that any tenant may have; each pod's environment tightens its own.
func (g *group) draConfig(tenants []seat) *DRAConfig {
	if g.Mechanism == sharing.MechanismTimeSlicing {
		return &DRAConfig{Strategy: StrategyTimeSlicing, Interval: "Default"}
	}
	limits := &MPSLimits{}
	percent := 0.0
	for _, s := range tenants {
		percent = max(percent, s.percent)
		limits.PinnedMemory = max(limits.PinnedMemory, Quantity(s.processLimit()))
	}
	if !slices.ContainsFunc(tenants, func(s seat) bool { return s.percent == 0 }) {
		limits.ActiveThreadPercentage = decision.Some(int(math.Ceil(percent)))
	}
	return &DRAConfig{MIGDevice: usesMIG(g.Mechanism), Strategy: StrategyMPS, MPS: limits}
}

// draGate names the feature gate that the parameters of the group's claims need.
func (g *group) draGate() []string {
	gate := ""
	switch {
	case g.Mechanism == sharing.MechanismTimeSlicing:
		gate = "TimeSlicingSettings"
	case usesMPS(g.Mechanism):
		gate = "MPSSupport"
	default:
		return nil
	}
	lines := []string{fmt.Sprintf("The opaque parameters need the DRA driver's feature gate %s, alpha and off by default:",
		gate),
		fmt.Sprintf("helm upgrade ... --set featureGates.%s=true. Without it the claims cannot be prepared.", gate)}
	if usesMPS(g.Mechanism) {
		lines = append(lines, "MPSSupport excludes DynamicMIG and ConsumableShares, all values of the driver's whole chart.")
	}
	return lines
}

// claim is a ResourceClaim or ResourceClaimTemplate (resource.k8s.io/v1) for the NVIDIA DRA driver, with one
// request. Pods that name the same ResourceClaim share its device; a template makes a claim of its own for each
// pod, so what it hands out is shared by the containers of one pod only.
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
	config *DRAConfig // the driver's opaque parameters; nil leaves them out
}

// node is the document of a claim.
func (b *builder) node(c *claim) *yaml.Node {
	name := c.request()
	var selectors []*yaml.Node
	cel := func(expr string) {
		selectors = append(selectors, yamlnode.Map("cel", yamlnode.Map("expression", expr)))
	}
	if c.profile != "" {
		cel(fmt.Sprintf("device.attributes['gpu.nvidia.com'].profile == '%s'", c.profile))
	}
	product, _, _ := strings.Cut(c.gpu, " (") // what is stated of a GPU outside the table stands behind it
	cel(fmt.Sprintf("device.attributes['gpu.nvidia.com'].productName.endsWith('%s')",
		strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(product)))
	memory := ""
	if c.memory > 0 {
		memory = mebibytes(c.memory)
	}
	var config []*yaml.Node
	if c.config != nil {
		data, err := c.config.Marshal()
		var parameters yaml.Node
		if err == nil {
			err = yaml.Unmarshal(data, &parameters)
		}
		if err != nil {
			b.fail(err)
			return yamlnode.Map()
		}
		config = append(config, yamlnode.Map("requests", []string{name},
			"opaque", yamlnode.Map("driver", "gpu.nvidia.com", "parameters", parameters.Content[0])))
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
		"metadata", labelled(c.name, c.namespace, nil), "spec", spec)
}

func labelled(name, namespace string, labels map[string]string) *yaml.Node {
	return yamlnode.Map("name", name, "namespace", yamlnode.Some(namespace), "labels", labels)
}

// request is the name of the claim's request, and of the class of its device under nvidia.com.
func (c *claim) request() string {
	if c.profile != "" {
		return "mig"
	}
	return "gpu"
}
