// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// build is a Discovery in the making. It adds nothing to its Collector.
type build struct {
	*Discovery
	findings
	c       *Collector
	devices map[string][]*device // of DRA, by node
	heldBy  map[deviceID]int     // pods by DRA device
	// heldDevices are the DRA devices that claims were given.
	heldDevices map[*device]bool
	hamiCounts  map[string]bool             // names of HAMi's count of GPUs on nodes
	others      map[string]bool             // resources that GPU nodes offer and that are not understood
	left        map[string]map[string]int64 // of nodes
	nodes       []*node
	byName      map[string]*node
	pools       []*pool
	poolOf      map[*node]*pool
	workloads   []*workload

	byDevice     map[string]*workload // by the UUID of a GPU or MIG device that a claim gave
	sharedSeries map[*workload]bool   // measured only together with others on its device
}

// pool is nodes with the same GPUs.
type pool struct {
	name  string
	nodes []*node
	index int
}

// workload is pods of one owner that ask for the same.
type workload struct {
	name  string
	pods  []*pod
	key   workloadKey
	all   int // pods, or the replicas that its owner wants
	index int
	first *pod
	held  decision.Optional[sharing.Bytes] // memory that its process holds, of a machine
}

type workloadKey struct {
	namespace string
	owner     owner
	signature string
}

// Discover makes the fleet from all inputs so far. It may be called again after more inputs.
func (c *Collector) Discover() *Discovery {
	b := &build{c: c, devices: map[string][]*device{}, heldBy: map[deviceID]int{}, hamiCounts: map[string]bool{},
		others: map[string]bool{}, heldDevices: map[*device]bool{}, byName: map[string]*node{},
		poolOf: map[*node]*pool{}, byDevice: map[string]*workload{},
		sharedSeries: map[*workload]bool{},
		Discovery:    &Discovery{Pods: c.pods, Provenance: map[string]Provenance{}},
		findings:     slices.Clone(c.findings)}
	b.Fleet.Version = "v1"
	b.claims()
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		if n := b.readNode(c.nodes[name]); n != nil {
			b.nodes, b.byName[name] = append(b.nodes, n), n
		}
	}
	b.joinMachines()
	b.group()
	b.notUnderstood()
	b.makePools()
	b.makeWorkloads()
	b.takeUsage()
	b.takeServing()
	b.today()
	b.cluster()
	b.unusedHints()
	b.checkKAI()
	b.checkHeld()
	b.check()
	b.leftOut()
	b.traps()
	b.unknowns()
	slices.SortFunc(b.findings, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(y.Severity, x.Severity), cmp.Compare(x.Code, y.Code), cmp.Compare(x.Object, y.Object),
			cmp.Compare(x.Message, y.Message), cmp.Compare(x.Source, y.Source))
	})
	b.Findings = slices.Compact(b.findings)
	return b.Discovery
}

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

// allocations are the devices that a pod's claims were given, each with its claim.
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

// group puts pods of one owner together.
func (b *build) group() {
	byKey := map[workloadKey]*workload{}
	add := func(p *pod) *workload {
		o := b.root(p.namespace, p.owner)
		if b.resolve(p); p.ask.gpus == 0 {
			return nil // its claims and resources are for something else
		}
		key := workloadKey{p.namespace, o, p.signature}
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
	for _, name := range slices.Sorted(maps.Keys(b.c.controllers)) {
		k := b.c.controllers[name]
		if k.pod == nil || k.replicas == 0 || k.owner.name != "" &&
			b.c.controllers[k.owner.kind+"/"+k.namespace+"/"+k.owner.name] != nil {
			continue
		}
		o := b.root(k.namespace, owner{k.kind, k.name})
		if slices.ContainsFunc(b.workloads, func(w *workload) bool {
			return w.key.namespace == k.namespace && w.key.owner == o && len(w.pods) > 0
		}) {
			continue
		}
		if w := add(k.pod); w != nil {
			w.all = k.replicas
		}
	}
	slices.SortFunc(b.workloads, func(x, y *workload) int {
		return cmp.Or(cmp.Compare(x.key.namespace, y.key.namespace), cmp.Compare(x.key.owner.name, y.key.owner.name),
			cmp.Compare(x.key.owner.kind, y.key.owner.kind), cmp.Compare(y.all, x.all),
			cmp.Compare(x.key.signature, y.key.signature))
	})
	b.attach()
}

// attach names the workloads, and puts their pods on the nodes.
func (b *build) attach() {
	taken := map[string]bool{}
	for _, w := range b.workloads {
		base := workloadName(w.key.namespace, w.key.owner.name)
		w.name = unique(taken, base, base+"-"+strings.ToLower(w.key.owner.kind))
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

// unique takes the first of the names that is not taken, or the first name with a number.
func unique(taken map[string]bool, names ...string) string {
	i := slices.IndexFunc(names, func(name string) bool { return !taken[name] })
	name := names[max(i, 0)]
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", names[0], n)
	}
	taken[name] = true
	return name
}

var badName = regexp.MustCompile(`[^-_.A-Za-z0-9]+`)

// workloadName is a name that a fleet file accepts.
func workloadName(namespace, name string) string {
	clean := func(s string, most int) string {
		s = strings.Trim(badName.ReplaceAllString(s, "-"), "-_.")
		if len(s) > most {
			s = strings.Trim(s[:most], "-_.")
		}
		return cmp.Or(s, "unnamed")
	}
	if namespace == "" {
		return clean(name, 63)
	}
	return clean(namespace, 63) + "/" + clean(name, 240)
}

var cronName = regexp.MustCompile(`-\d{7,10}$`)

// root follows owners up: the Deployment of a ReplicaSet, the CronJob of a Job.
func (b *build) root(namespace string, o owner) owner {
	for range 8 {
		k := b.c.controllers[o.kind+"/"+namespace+"/"+o.name]
		if k == nil || k.owner.name == "" {
			break
		}
		o = k.owner
	}
	if o.kind == "Job" {
		if base := cronName.ReplaceAllString(o.name, ""); base != o.name {
			return owner{"CronJob", base}
		}
	}
	return o
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
		b.pools = append(b.pools, &pool{name: unique(taken, name), nodes: byKey[key]})
	}
	slices.SortFunc(b.pools, func(x, y *pool) int { return strings.Compare(x.name, y.name) })
	for i, p := range b.pools {
		p.index = i
		for _, n := range p.nodes {
			b.poolOf[n] = p
		}
		b.Fleet.Pools = append(b.Fleet.Pools, b.makePool(p))
	}
}

func (b *build) note(path string, from Provenance) { b.Provenance[path] = from }

// makePool writes a pool of the fleet.
func (b *build) makePool(p *pool) decision.Pool {
	n := p.nodes[0]
	at := fmt.Sprintf("pools[%d]", p.index)
	out := decision.Pool{Name: p.name, GPU: n.gpu.Name, GPUsPerNode: decision.Some(n.gpus), Delivery: n.delivery,
		InstanceType: n.instanceType}
	b.note(at+".name", derived("the GPU's model"))
	if n.groupFrom != "" {
		b.note(at+".name", declared("label %s", n.groupFrom))
	}
	b.note(at+".gpu", n.productFrom)
	from := n.gpusFrom
	for _, m := range p.nodes {
		out.Count += m.gpus
		if m.gpusFrom.Basis != basisDeclared && from.Basis == basisDeclared { // the least sure
			from = m.gpusFrom
		}
		if out.Driver.IsZero() || !m.driver.IsZero() && m.driver.Compare(out.Driver) < 0 {
			out.Driver = m.driver
			b.note(at+".driver", m.driverFrom)
		}
		out.Delivery = min(out.Delivery, m.delivery)
		if m.driver != n.driver {
			b.find("drivers-differ", sharing.SeverityLow, "pool "+p.name, m.driverFrom.Source,
				"node %s has driver %v and %s has %v: the oldest is used", m.name, m.driver, n.name, n.driver)
		}
		out.Layouts = append(out.Layouts, m.layouts...)
	}
	b.note(at+".count", Provenance{from.Basis, fmt.Sprintf("%s, %s", from.Source, plaintext.Count(len(p.nodes), "node"))})
	b.note(at+".gpus_per_node", from)
	if n.delivery != sharing.DeliveryBare {
		b.note(at+".delivery", n.deliveryFrom)
	} else if !slices.ContainsFunc(p.nodes, func(m *node) bool { return m.meta != nil }) {
		out.Standalone = true
		b.note(at+".delivery", derived("no Node describes it: a machine without an orchestrator"))
	}
	if n.instanceType != "" {
		b.note(at+".instance_type", declared("label %s", n.typeFrom))
		if platform := names().Platforms[n.groupFrom]; platform != "" {
			out.Platform = platform
			b.note(at+".platform", derived("label %s", n.groupFrom))
		}
	}
	if len(out.Layouts) > 0 {
		for _, m := range slices.Backward(p.nodes) {
			if len(m.layouts) > 0 {
				b.note(at+".layouts", m.layoutsFrom)
			}
		}
	}
	if key, from := b.price(&out); key != "" {
		b.note(at+"."+key, from)
	}
	return out
}
