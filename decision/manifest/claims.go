package manifest

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/sharing/driverconf"
)

// draFiles writes the group's claims and the pods that use them.
func (b *builder) draFiles(g *group) error {
	consumes := g.Mechanism == sharing.MechanismTimeSlicing &&
		!slices.ContainsFunc(g.members, func(m *member) bool { return m.memory == 0 })
	if shared(g.Mechanism) && !consumes {
		return b.sharedClaims(g)
	}
	for _, m := range g.members {
		c := Claim{Name: m.name, Namespace: m.pod.Namespace, Template: true, GPU: g.gpu.Name, Profile: m.Profile,
			Count: m.gpus()}
		p, note := b.newPod(m), "a claim of its own for each pod"
		if consumes {
			c.Memory, note = m.memory, "a claim for its part of a GPU's memory for each pod"
			p.header = append(p.header, consumableGates...)
		}
		doc, err := c.node()
		if err != nil {
			return err
		}
		p.claim = &c
		if err := b.encode("dra/pods/"+m.file()+".yaml", note, p.header, doc, p.node(m)); err != nil {
			return err
		}
	}
	return nil
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
func (b *builder) sharedClaims(g *group) error {
	if g.GPUs > maxClaims {
		b.warn(WarnClaimsLeftOut, g.key, "nvidia-dra-driver", "deliver by the device plugin, or divide the pool",
			"no claims are written: sharing %d GPUs by DRA takes a named claim for each", g.GPUs)
		return nil
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
			ns := s.pod.Namespace
			if byNamespace[ns] == nil {
				namespaces = append(namespaces, ns)
			}
			byNamespace[ns] = append(byNamespace[ns], s)
		}
		split += max(len(namespaces)-1, 0)
		for n, ns := range namespaces {
			c := Claim{Name: fmt.Sprintf("%s-%d", g.key, i), Namespace: ns, GPU: g.gpu.Name, Profile: d.profile,
				Config: g.draConfig(byNamespace[ns])}
			if n > 0 {
				c.Name += fmt.Sprintf("-%d", n)
			}
			doc, err := c.node()
			if err != nil {
				return err
			}
			claims = append(claims, doc)
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
		if err := b.encode("dra/claims/"+g.key+".yaml", fmt.Sprintf("%d claim(s), one for each shared device", len(claims)),
			g.draGate(), claims...); err != nil {
			return err
		}
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
		if err := b.encode("dra/pods/"+m.file()+".yaml", "pods that share the claims of "+g.key, header,
			pods[m]...); err != nil {
			return err
		}
	}
	return nil
}

// draConfig is the parameters of a shared device. The daemon's defaults hold for every client, so they are the most
// that any tenant may have; each pod's environment tightens its own.
func (g *group) draConfig(tenants []seat) *driverconf.DRA {
	if g.Mechanism == sharing.MechanismTimeSlicing {
		return &driverconf.DRA{Strategy: driverconf.TimeSlicing, Interval: "Default"}
	}
	limits := &driverconf.Limits{}
	percent := 0.0
	for _, s := range tenants {
		percent = max(percent, s.percent)
		limits.PinnedMemory = max(limits.PinnedMemory, s.processLimit())
	}
	if !slices.ContainsFunc(tenants, func(s seat) bool { return s.percent == 0 }) {
		limits.ActiveThreadPercentage = driverconf.Some(int(math.Ceil(percent)))
	}
	return &driverconf.DRA{MIGDevice: usesMIG(g.Mechanism), Strategy: driverconf.MPS, MPS: limits}
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
		lines = append(lines, "MPSSupport and DynamicMIG exclude one another.")
	}
	return lines
}

// Claim is a ResourceClaim or ResourceClaimTemplate (resource.k8s.io/v1) for the NVIDIA DRA driver, with one
// request. Pods that name the same ResourceClaim share its device; a template makes a claim of its own for each
// pod, so what it hands out is shared by the containers of one pod only.
type Claim struct {
	Name      string // up to 253 lower-case letters, digits and dashes
	Namespace string // "" leaves it out
	Template  bool
	Profile   string // a MIG device of this profile; "" is a whole GPU
	GPU       string // product name that the device's must end with; "" takes any
	Count     int    // devices; 0 stands for 1
	// Memory is consumed of each device, which other claims may then share: see the driver's feature gate
	// ConsumableShares. 0 leaves it out.
	Memory sharing.Bytes
	Config *driverconf.DRA // the driver's opaque parameters; nil leaves them out
}

var claimName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// Validate returns nil, or an error that matches ErrInvalid.
func (c Claim) Validate() error {
	var l problem.List
	l.If(len(c.Name) > 253 || !claimName.MatchString(c.Name), "name",
		"use up to 253 lower-case letters, digits and dashes, with a letter or digit at both ends",
		"%q is not a Kubernetes name", c.Name)
	if c.Namespace != "" {
		checkName(&l, "namespace", c.Namespace)
	}
	if c.Profile != "" {
		_, err := mig.ParseName(c.Profile)
		l.AddErr("profile", err)
	}
	l.If(strings.ContainsAny(c.GPU, "'\\\n"), "gpu", "write the product name as NVML prints it",
		"%q is not a product name", c.GPU)
	l.If(c.Count < 0, "count", "", "must be 1 or more, not %d", c.Count)
	l.If(c.Memory < 0, "memory", "", "must be 0 or more, not %d", c.Memory)
	if c.Config != nil {
		l.If(c.Config.MIGDevice != (c.Profile != ""), "config",
			"use a MigDeviceConfig for MIG devices and a GpuConfig for whole GPUs",
			"the driver ignores parameters of the other kind without a word")
		_, err := c.Config.Marshal()
		l.AddErr("config", err)
	}
	return invalid(l.Err())
}

// Marshal validates c and writes the document.
func (c Claim) Marshal() ([]byte, error) {
	n, err := c.node()
	if err != nil {
		return nil, err
	}
	return yamlnode.Encode(nil, n)
}

func (c Claim) node() (*yaml.Node, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	name := c.request()
	var selectors []*yaml.Node
	cel := func(expr string) {
		selectors = append(selectors, yamlnode.Map("cel", yamlnode.Map("expression", expr)))
	}
	if c.Profile != "" {
		cel(fmt.Sprintf("device.attributes['gpu.nvidia.com'].profile == '%s'", c.Profile))
	}
	if c.GPU != "" {
		cel(fmt.Sprintf("device.attributes['gpu.nvidia.com'].productName.endsWith('%s')", c.GPU))
	}
	memory := ""
	if c.Memory > 0 {
		memory = mebibytes(c.Memory)
	}
	var config []*yaml.Node
	if c.Config != nil {
		b, err := c.Config.Marshal()
		if err != nil {
			return nil, invalid(err)
		}
		var parameters yaml.Node
		if err := yaml.Unmarshal(b, &parameters); err != nil {
			return nil, invalid(err)
		}
		config = append(config, yamlnode.Map("requests", []string{name},
			"opaque", yamlnode.Map("driver", "gpu.nvidia.com", "parameters", parameters.Content[0])))
	}
	spec := yamlnode.Map("devices", yamlnode.Map(
		"requests", yamlnode.List(yamlnode.Map("name", name, "exactly", yamlnode.Map(
			"deviceClassName", name+".nvidia.com", "selectors", selectors, "allocationMode", "ExactCount",
			"count", max(c.Count, 1), "capacity", yamlnode.Map("requests", yamlnode.Map("memory", yamlnode.Some(memory)))))),
		"config", config))
	kind := "ResourceClaim"
	if c.Template {
		kind, spec = "ResourceClaimTemplate", yamlnode.Map("spec", spec)
	}
	return yamlnode.Map("apiVersion", "resource.k8s.io/v1", "kind", kind,
		"metadata", labelled(c.Name, c.Namespace, nil), "spec", spec), nil
}

func labelled(name, namespace string, labels map[string]string) *yaml.Node {
	return yamlnode.Map("name", name, "namespace", yamlnode.Some(namespace), "labels", labels)
}

// request is the name of the claim's request, and of the class of its device under nvidia.com.
func (c Claim) request() string {
	if c.Profile != "" {
		return "mig"
	}
	return "gpu"
}
