// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

// claims writes the claims, and the pods that use them, of the workloads that DRA delivers: a template for each
// workload with a device or part of one for each pod, and a claim by name for each device that is shared otherwise.
func (b *builder) claims() {
	pods := map[*member][]*pod{}
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
			b.document("pods/"+m.file()+".yaml", "pods that share the claims of "+strings.Join(m.keys(), ", "), "pods",
				claimsAndPods{Objects: pods[m]}, header...)
		}
	}
}

// claimsAndPods are claims with the gates of the DRA driver that they need, and the objects of pods that use them.
type claimsAndPods struct {
	Claims  []*claim
	Objects []*pod
	Gates   []string
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
	c := claim{Name: m.name, Space: m.space, Template: true, gpu: m.gpu.Name, profile: m.Profile, Count: m.gpus()}
	p, note := b.newPod(m), "a claim of its own for each pod"
	if b.consumes(m) {
		c.Memory, note = mebibytes(m.memory), "a claim for its part of a GPU's memory for each pod"
	}
	p.Claim = &c
	b.document("pods/"+m.file()+".yaml", note, "pods", claimsAndPods{Claims: []*claim{&c}, Objects: []*pod{p}},
		p.header...)
}

// maxClaims bounds the shared GPUs of a group that are given claims: more than anybody can manage by name.
const maxClaims = 1000

// sharedClaims writes one ResourceClaim for each device, which its tenants'
// pods all name. A claim belongs to one namespace.
func (b *builder) sharedClaims(g *group, pods map[*member][]*pod, devices map[*member]int) {
	if g.delivery != sharing.DeliveryDRA || !slices.ContainsFunc(g.members, b.named) {
		return
	}
	if n := g.gpus(); n > maxClaims {
		b.warn("claims-left-out", g.key, n)
		return
	}
	var claims []*claim
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
				c := &claim{Name: fmt.Sprintf("%s-%d", g.key, number), Space: ns, gpu: g.gpu.Name, profile: s.profile, Count: 1,
					Config: draConfig(s.mode, byNamespace[ns])}
				if k > 0 {
					c.Name += fmt.Sprintf("-%d", k)
				}
				claims = append(claims, c)
				for _, t := range byNamespace[ns] {
					p := b.newPod(t.member)
					p.Claim, p.Replicas = c, t.pods
					if devices[t.member] > 1 {
						p.Name = fmt.Sprintf("%s-%d", t.name, len(pods[t.member]))
					}
					pods[t.member] = append(pods[t.member], p)
				}
			}
			number++
		})
	}
	if more > 0 {
		b.warn("claim-namespaces", g.key, more)
	}
	b.document("dra/claims/"+g.key+".yaml", fmt.Sprintf("%d claim(s), one for each shared device", len(claims)), "pods",
		claimsAndPods{Claims: claims, Gates: g.draGates()})
}

// draConfig is the parameters of a shared device (resource.nvidia.com/v1beta1). The daemon's defaults hold for every
// client, so they are the most that any tenant may have; each pod's environment tightens its own. The driver ignores a
// GpuConfig on MIG devices without a word.
func draConfig(m sharing.Mechanism, all []tenants) *claimConfig {
	c := &claimConfig{Kind: "GpuConfig", Strategy: "MPS"}
	if usesMIG(m) {
		c.Kind = "MigDeviceConfig"
	}
	if m == sharing.MechanismTimeSlicing {
		c.Strategy = "TimeSlicing"
		return c
	}
	percent, memory := 0.0, sharing.Bytes(0)
	for _, t := range all {
		percent, memory = max(percent, t.percent), max(memory, t.processLimit())
	}
	if !slices.ContainsFunc(all, func(t tenants) bool { return t.percent == 0 }) {
		c.Threads = int(math.Ceil(percent))
	}
	if memory > 0 {
		c.Limit = mebibytes(memory)
	}
	return c
}

// claimConfig is the sharing of a claim's device by TimeSlicing or MPS; zero fields are left out.
type claimConfig struct {
	Kind, Strategy string
	Threads        int    // percent of active threads
	Limit          string // of pinned memory
}

// draGates are the feature gates that the parameters of the group's claims need.
func (g *group) draGates() (gates []string) {
	for _, m := range g.modes {
		if usesMPS(m) {
			gates = append(gates, "MPSSupport")
		} else if m == sharing.MechanismTimeSlicing {
			gates = append(gates, "TimeSlicingSettings")
		}
	}
	return gates
}

// claim is a ResourceClaim or ResourceClaimTemplate (resource.k8s.io/v1) for the NVIDIA DRA driver, with one
// request. Pods that name the same ResourceClaim share its device; a template makes a claim of its own for each
// pod, so that only the containers of one pod share the device.
type claim struct {
	Name, Space string // without a Space it has no namespace
	Template    bool
	profile     string // a MIG device of this profile; "" is a whole GPU
	gpu         string // product name that the device's must end with
	Count       int    // devices
	// Memory is consumed of each device, which other claims may then share: see the driver's feature gate
	// ConsumableShares. "" leaves it out.
	Memory string
	Config *claimConfig // the driver's opaque parameters; nil leaves them out
}

// Selectors are the expressions that a device must meet.
func (c *claim) Selectors() (out []string) {
	if c.profile != "" {
		out = append(out, fmt.Sprintf("device.attributes['gpu.nvidia.com'].profile == '%s'", c.profile))
	}
	product, _, _ := strings.Cut(c.gpu, " (") // the stated figures of a GPU outside the table follow
	return append(out, fmt.Sprintf("device.attributes['gpu.nvidia.com'].productName.endsWith('%s')",
		strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(product)))
}

// Request is the name of the claim's request, and of the class of its device under nvidia.com.
func (c *claim) Request() string {
	if c.profile != "" {
		return "mig"
	}
	return "gpu"
}
