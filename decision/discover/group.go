// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// claims counts the holders of each device of the DRA driver, and sorts the devices by node.
func (b *build) claims() {
	for _, pool := range sortedKeys(b.c.devices) {
		for _, name := range sortedKeys(b.c.devices[pool]) {
			node := b.c.poolNode[pool]
			b.devices[node] = append(b.devices[node], b.c.devices[pool][name])
		}
	}
	for _, p := range b.c.users {
		for a := range b.allocations(p) {
			b.heldBy[a]++
		}
	}
	for _, k := range b.c.claims {
		for _, a := range k.allocated {
			if d := b.device(a.deviceID); d != nil {
				b.heldDevices[d] = true
			}
		}
	}
}

func (b *build) group() {
	byKey := map[workloadKey]*workload{}
	add := func(p *pod) *workload {
		if b.resolve(p); p.ask.gpus == 0 {
			return nil // its claims and resources are for something else
		}
		key := workloadKey{b.root(p.owner), p.signature}
		w := byKey[key]
		if w == nil {
			w = &workload{key: key, first: p}
			byKey[key] = w
			b.workloads = append(b.workloads, w)
		}
		return w
	}
	for _, p := range b.c.users {
		if w := add(p); w != nil {
			w.pods = append(w.pods, p)
			w.all++
			if p.node != "" && w.first.node == "" {
				w.first = p
			}
		}
	}
	// Owners without pods in the input.
	for _, name := range sortedKeys(b.c.controllers) {
		k := b.c.controllers[name]
		if k.pod == nil || k.replicas == 0 || b.c.controllers[k.of.String()] != nil ||
			slices.ContainsFunc(b.workloads, func(w *workload) bool {
				return w.key.owner == b.root(k.owner) && len(w.pods) > 0
			}) {
			continue
		}
		if w := add(k.pod); w != nil {
			w.all = k.replicas
		}
	}
	slices.SortFunc(b.workloads, func(x, y *workload) int {
		return cmp.Or(cmp.Compare(x.key.namespace, y.key.namespace), cmp.Compare(x.key.name, y.key.name),
			cmp.Compare(x.key.kind, y.key.kind), cmp.Compare(y.all, x.all), cmp.Compare(x.key.signature, y.key.signature))
	})
	b.attach()
}

func (b *build) attach() {
	taken := map[string]bool{}
	b.Fleet.Workloads = slices.Grow(b.Fleet.Workloads, len(b.workloads)) // pointers into it stay
	for i, w := range b.workloads {
		b.Fleet.Workloads = append(b.Fleet.Workloads, decision.Workload{})
		w.at, w.Workload = fmt.Sprintf("workloads[%d]", i), &b.Fleet.Workloads[i]
		base := workloadName(w.key.namespace, w.key.name)
		w.Name = unique(taken, base, base+"-"+strings.ToLower(w.key.kind))
		for _, p := range w.pods {
			for a, k := range b.allocations(p) {
				if d := b.device(a); d != nil && d.uuid != "" && k.pods <= 1 {
					b.byDevice[d.uuid] = w
				}
			}
			p.of, p.at = w, b.byName[p.node]
			if p.at != nil && p.running {
				p.at.take(p)
			}
		}
	}
	for _, n := range b.nodes {
		n.placed()
	}
}

var cronName = regexp.MustCompile(`-\d{7,10}$`)

// root follows owners up: the Deployment of a ReplicaSet, the CronJob of a Job.
func (b *build) root(o owner) owner {
	for range 8 {
		if k := b.c.controllers[o.String()]; k != nil && k.of.name != "" {
			o = k.of
		}
	}
	if base := cronName.ReplaceAllString(o.name, ""); o.kind == "Job" && base != o.name {
		return owner{"CronJob", o.namespace, base}
	}
	return o
}

func (n *node) take(p *pod) {
	n.pods = append(n.pods, p)
	made := map[string]int{} // instances that are created when a pod requests them
	for _, h := range p.held {
		switch {
		case h.delivery == sharing.DeliveryKAI:
			n.closed = cmp.Or(n.closed, "one on which KAI gives pods parts of GPUs")
		case h.role == roleAmount:
			if name := named(p.namespace, p.name); !slices.Contains(n.opaque[h.resource], name) {
				n.opaque[h.resource] = append(n.opaque[h.resource], name)
			}
		case h.profile == "" || h.mechanism != sharing.MechanismMIG || h.delivery == sharing.DeliveryDRA:
		case h.granted || !strings.HasPrefix(h.resource, migPrefix):
			made[h.profile] += h.gpus
		}
	}
	for profile, k := range made {
		n.instances[profile] += k
	}
}

// placed writes the layouts of the GPUs on which HAMi placed MIG instances.
func (n *node) placed() {
	model := n.model()
	on := map[string][]mig.Instance{}
	for _, p := range n.pods {
		for _, h := range p.held {
			if model == nil || h.size == 0 {
				continue
			}
			if prof, err := model.Profile(h.profile); err == nil {
				on[h.device] = append(on[h.device], mig.Instance{Profile: prof, Busy: true,
					Placement: mig.Placement{Start: h.start, Size: h.size}})
			}
		}
	}
	for _, gpu := range sortedKeys(on) {
		if l := mig.NewLayout(model, on[gpu]...); l.Validate() == nil {
			n.layouts = append(n.layouts, l.String())
		}
	}
}

// makePools puts nodes with the same GPUs into pools.
func (b *build) makePools() {
	byKey := map[string][]*node{}
	for _, n := range b.nodes {
		b.hintNode(n)
		if n.gpu == nil || n.apart == "not ready" || n.apart != "" && len(n.pods) == 0 {
			continue
		}
		key := strings.Join([]string{cmp.Or(n.group, sharing.FoldGPUName(n.gpu.Name)), n.gpu.Name, n.instanceType, n.apart,
			fmt.Sprintf("%5d", n.gpus), n.group}, "\x00")
		byKey[key] = append(byKey[key], n)
	}
	base := func(n *node) string {
		board, _, _ := strings.Cut(n.gpu.Name, " (") // without the facts of one that is described
		name := workloadName("", cmp.Or(n.group, strings.ToLower(badName.ReplaceAllString(board, "-"))))
		if n.apart != "" {
			name += "-" + n.apart
		}
		return name
	}
	taken, alike := map[string]bool{}, map[string]int{}
	for _, nodes := range byKey {
		alike[base(nodes[0])]++
	}
	for _, key := range sortedKeys(byKey) {
		n := byKey[key][0]
		name := base(n)
		if alike[name] > 1 {
			part := cmp.Or(n.instanceType, fmt.Sprintf("%dx", n.gpus))
			if n.group != "" {
				part = strings.ToLower(n.gpu.Name)
			}
			name = workloadName("", name+"-"+part)
		}
		b.pools = append(b.pools, &pool{Pool: &decision.Pool{Name: unique(taken, name)}, nodes: byKey[key]})
	}
	slices.SortFunc(b.pools, func(x, y *pool) int { return strings.Compare(x.Name, y.Name) })
	b.Fleet.Pools = slices.Grow(b.Fleet.Pools, len(b.pools)) // pointers into it stay
	for i, p := range b.pools {
		b.Fleet.Pools = append(b.Fleet.Pools, *p.Pool)
		p.at, p.Pool = fmt.Sprintf("pools[%d]", i), &b.Fleet.Pools[i]
		for _, n := range p.nodes {
			b.poolOf[n] = p
		}
		b.makePool(p)
	}
}

func (b *build) makePool(p *pool) {
	n := p.nodes[0]
	note := func(key string, from Provenance) { b.note(p.at+"."+key, from) }
	p.GPU, p.GPUsPerNode, p.Delivery, p.InstanceType = n.gpu.Name, sharing.Some(n.gpus), n.delivery, n.instanceType
	note("name", derived("the GPU's model"))
	if n.groupFrom != "" {
		note("name", declared("label %s", n.groupFrom))
	}
	note("gpu", n.productFrom)
	from := n.gpusFrom
	for _, m := range p.nodes {
		p.Count += m.gpus
		if m.gpusFrom.Basis != basisDeclared && from.Basis == basisDeclared { // the least sure
			from = m.gpusFrom
		}
		if p.Driver.IsZero() || !m.driver.IsZero() && m.driver.Compare(p.Driver) < 0 {
			p.Driver = m.driver
			note("driver", m.driverFrom)
		}
		p.Delivery = min(p.Delivery, m.delivery)
		if m.driver != n.driver {
			b.find("drivers-differ", "pool "+p.Name, m.driverFrom.Source, m.name, m.driver, n.name, n.driver)
		}
		p.Layouts = append(p.Layouts, m.layouts...)
	}
	note("count", Provenance{from.Basis, fmt.Sprintf("%s, %s", from.Source, plaintext.Count(len(p.nodes), "node"))})
	note("gpus_per_node", from)
	if n.delivery != sharing.DeliveryBare {
		note("delivery", n.deliveryFrom)
	} else if !slices.ContainsFunc(p.nodes, func(m *node) bool { return m.meta != nil }) {
		p.Standalone = true
		note("delivery", derived("no Node describes it: a machine without an orchestrator"))
	}
	if n.instanceType != "" {
		note("instance_type", declared("label %s", n.typeFrom))
		if platform := names().Platforms[n.groupFrom]; platform != "" {
			p.Platform = platform
			note("platform", derived("label %s", n.groupFrom))
		}
	}
	if len(p.Layouts) > 0 {
		note("layouts", declared("annotations %s of pods", grantHAMiMIG))
	}
	if key, from := b.price(p.Pool); key != "" {
		note(key, from)
	}
}

// price writes a pool's price, where the user gave one: the machine's before the GPU's. It returns the field and where
// that comes from.
func (b *build) price(out *decision.Pool) (key string, from Provenance) {
	prices := b.c.opts.Prices
	if m, ok := prices.machines[out.InstanceType]; ok && out.InstanceType != "" {
		out.NodePricePerHour = sharing.Some(m)
		return "node_price_per_hour", Provenance{basisGiven, "prices, " + out.InstanceType}
	}
	board, _, _ := strings.Cut(out.GPU, " (")
	m, ok := prices.gpus[out.GPU]
	if !ok && board != out.GPU { // described by its memory: priced by its name
		m, ok = prices.machines[board]
	}
	if !ok {
		return "", from
	}
	out.PricePerGPUHour = sharing.Some(m)
	return "price_per_gpu_hour", Provenance{basisGiven, "prices, " + out.GPU}
}

func (b *build) hintNode(n *node) {
	h := b.c.opts.Hints
	for _, k := range matching(h.Nodes, n.name) {
		gpu, err := sharing.LookupGPU(h.Nodes[k].GPU)
		if err == nil && (n.gpu == nil || n.gpu != gpu) {
			n.gpu, n.productFrom = gpu, Provenance{basisGiven, "hints, nodes." + k}
		}
	}
}

// monthly writes the cost of GPUs of a pool in a month, "" without a price.
func monthly(p *decision.Pool, gpus int) string {
	price, ok := p.Price()
	m, err := price.Mul(int64(gpus) * cost.HoursPerMonth)
	if !ok || err != nil {
		return ""
	}
	return fmt.Sprintf(": %s a month", m.Round(2))
}
