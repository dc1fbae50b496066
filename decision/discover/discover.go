// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// notUnderstood reports the resources of GPU nodes that are not understood, with the pods that hold them. Amounts that
// pods hold count as GPUs, and no GPU of such a node counts as free.
func (b *build) notUnderstood() {
	for _, n := range b.nodes {
		for _, key := range sortedKeys(n.opaque) {
			pods := n.opaque[key]
			n.closed = cmp.Or(n.closed, "one on which pods hold "+key+", which is not understood")
			offers := "does not say how much it has of " + key
			if v := n.offers[key]; v > 0 {
				offers = fmt.Sprintf("offers %d of %s", v, key)
			}
			n.find("resource-not-understood/held", "resource "+key, offers, some(pods))
		}
		for _, key := range n.others {
			if n.opaque[key] == nil && !n.handedOut() {
				n.find("resource-not-understood/unheld", "resource "+key, n.offers[key], key)
			}
		}
	}
}

// unusedHints finds hints that fit nothing, which change nothing: most are misspelt.
func (b *build) unusedHints() {
	var workloads, nodes []string
	for _, w := range b.workloads {
		workloads = append(workloads, w.Name)
	}
	for _, n := range b.nodes {
		nodes = append(nodes, n.name)
	}
	unused := func(kind, pattern string, names []string) {
		if slices.ContainsFunc(names, func(name string) bool { return fits(pattern, name) }) {
			return
		}
		near := ""
		if name := problem.Nearest(pattern, names); name != "" {
			near = fmt.Sprintf(", did you mean %q?", name)
		}
		b.find("hint-unused", kind+"s."+pattern, "hints", kind, near)
	}
	for k := range b.c.opts.Hints.Workloads {
		unused("workload", k, workloads)
	}
	for k := range b.c.opts.Hints.Nodes {
		unused("node", k, nodes)
	}
}

// checkKAI reports that KAI may not enforce the memory of shares. Annotations by container are read by the mode in
// which the driver enforces limits.
func (b *build) checkKAI() {
	for _, w := range b.workloads {
		if p := b.poolOf[w.node]; p != nil && w.first.ask.delivery == sharing.DeliveryKAI &&
			!strings.HasPrefix(w.first.ask.resource, "annotation nvidia.com/container.") {
			b.find("kai-memory", "pool "+p.Name, "kai-gpu-sharing-modes")
		}
	}
}

// checkHeld compares the devices that pods hold with their requests and with the form that a fleet has for them.
func (b *build) checkHeld() {
	for _, w := range b.workloads {
		for _, p := range w.pods {
			object := "pod " + named(p.namespace, p.name)
			kinds := map[string]int{}
			for _, h := range p.held {
				kinds[h.kind()] += h.gpus
				if h.request > 0 && h.request < h.memory {
					b.find("limit-beyond-request", object, h.resource, h.request, h.memory)
				}
				if p.at == nil && p.running && p.node != "" && h.role == roleAmount && h.delivery == sharing.DeliveryBare {
					b.find("resource-not-understood/elsewhere", object, "resource "+h.resource, h.resource, p.node)
				}
			}
			if len(kinds) > 1 {
				var parts []string
				for _, kind := range sortedKeys(kinds) {
					parts = append(parts, fmt.Sprintf("%d x %s", kinds[kind], kind))
				}
				b.find("holdings-differ", object, p.held[0].resource, strings.Join(parts, ", "))
			}
			for _, key := range []string{"nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"} {
				if text := p.notes[key]; text != "" {
					b.find("annotation-not-read", object, "annotation "+key, key, text)
				}
			}
			if p.node == "" {
				b.checkWaiting(p, object)
			}
		}
	}
	b.checkClaims()
}

// checkClaims reports pods that only observe devices, and classes that share the device of a claim with one pod.
func (b *build) checkClaims() {
	for _, p := range b.c.users {
		for _, c := range p.claims {
			k := cmp.Or(b.c.claims[c.claim], &claim{})
			if k.observes {
				b.find("admin-access", "pod "+named(p.namespace, p.name), "ResourceClaim "+c.claim)
			}
			for _, class := range k.classes {
				if s := b.c.classes[class].strategy; s != "" && k.pods <= 1 {
					b.find("class-shares", "claim "+c.claim, "DeviceClass "+class, class, s)
				}
			}
		}
	}
}

// checkWaiting reports a pod that waits for HAMi or Volcano and for which no registered card has memory, as far as is
// known: holdings of unknown cards are not subtracted.
func (b *build) checkWaiting(p *pod, object string) {
	for _, h := range p.held {
		most, need := sharing.Bytes(0), mostMemory
		for _, n := range b.nodes {
			for _, card := range n.registered {
				left := sharing.Bytes(card.Memory) * sharing.MiB
				if n.registry != h.delivery || h.profile != "" || n.apartGPUs[card.ID] != "" {
					continue
				}
				need = min(need, h.bytes(left))
				for _, q := range n.pods {
					for m := range q.held {
						if q.held[m].device == card.ID {
							left -= q.held[m].bytes(n.memory())
						}
					}
				}
				most = max(most, left)
			}
		}
		if need > most && need < mostMemory {
			b.find("no-room", object, h.resource, need, most)
			return
		}
	}
}

func (b *build) check() {
	if len(b.c.clusters) > 1 {
		var names []string
		for _, name := range sortedKeys(b.c.clusters) {
			names = append(names, fmt.Sprintf("%s (%s)", name, b.c.clusters[name][0]))
		}
		b.find("two-clusters/labels", "cluster", "labels of nodes", len(names), names)
	}
	for _, n := range b.nodes {
		asked := 0
		for _, p := range n.pods {
			for _, h := range p.held {
				if h.resource == resourceGPU || h.resource == resourceShared {
					asked += h.gpus
				}
			}
		}
		b.checkMemory(n)
		if n.offered > 0 && asked > n.offered && n.registry == sharing.DeliveryBare {
			n.find("overcommitted", "nvidia.com/gpu", asked, n.offered)
		}
	}
}

// checkMemory reports GPUs, and nodes, of which pods were given or request more memory than there is.
func (b *build) checkMemory(n *node) {
	total := n.memory()
	of, all := map[string]sharing.Bytes{}, sharing.Bytes(0)
	for _, p := range n.pods {
		for _, h := range p.held {
			kai := h.delivery == sharing.DeliveryKAI
			if !kai && h.delivery != sharing.DeliveryHAMi && h.delivery != sharing.DeliveryVolcano || h.profile != "" {
				continue
			}
			if h.device != "" {
				of[h.device] += h.bytes(total)
			}
			if !kai {
				all += h.bytes(total) * sharing.Bytes(h.gpus)
			}
		}
	}
	exceeds := func(what string, given, has sharing.Bytes) {
		if given > has+has/12 { // as the driver may show some percent more
			n.find("memory-oversubscribed/given", "resources and annotations of pods", given, what, has)
		}
	}
	if total > 0 {
		exceeds(plaintext.Count(n.gpus, "GPU"), all, total*sharing.Bytes(n.gpus))
		for gpu, given := range of {
			exceeds("GPU "+gpu, given, total)
		}
	}
}

// leftOut finds GPUs that are no part of the fleet, and those of it that no pod holds.
func (b *build) leftOut() {
	for _, n := range b.nodes {
		if n.apart == "" || n.gpu == nil {
			continue
		}
		in := "no pool"
		pool := decision.Pool{GPU: n.gpu.Name, InstanceType: n.instanceType, GPUsPerNode: sharing.Some(n.gpus)}
		if p := b.poolOf[n]; p != nil {
			in = "pool " + p.Name
		}
		b.price(&pool)
		b.find("nodes-"+strings.ReplaceAll(n.apart, " ", "-"), "node "+n.name, "node status", n.apart,
			plaintext.Count(n.gpus, "GPU"), n.gpu.Name, in, monthly(&pool, n.gpus))
	}
	b.unheld()
}

// unheld finds GPUs that no pod holds, at the least: where replicas of a GPU are handed out, pods may sit on one.
func (b *build) unheld() {
	if len(b.c.users) == 0 {
		return
	}
	for _, p := range b.pools {
		var names []string
		free, all := 0, 0
		for _, n := range p.nodes {
			all += n.gpus
			if left := n.free(); left > 0 {
				free, names = free+left, append(names, fmt.Sprintf("%s (%d)", n.name, left))
			}
		}
		if free > 0 {
			b.find("gpus-not-held", "pool "+p.Name, "pods and nodes", free, plaintext.Count(all, "GPU"),
				some(names), monthly(p.Pool, free))
		}
	}
}

func (b *build) traps() {
	hits, names := map[string]decision.TrapHit{}, map[string][]string{}
	for _, w := range b.workloads {
		if w.Request == nil {
			continue
		}
		var at *decision.Pool
		if p := b.poolOf[w.node]; p != nil {
			at = p.Pool
		}
		here := 0 // the most on any of its nodes
		for _, p := range w.pods {
			if p.at != nil && p.running {
				here = max(here, p.at.tenantsOfOne())
			}
		}
		for _, t := range decision.TrapsToday(w.Workload, at, here) {
			key := fmt.Sprint(t.ID, t.Severity) // one that is there is worse than one to come
			if names[key] = append(names[key], w.Name); len(names[key]) == 1 {
				hits[key] = t
			}
		}
	}
	for key, t := range hits {
		source := append(slices.Clone(t.Sources), "")[0]
		b.add(Finding{"trap-" + t.ID, t.Severity, "workload " + plaintext.Some(names[key], 1, len(names[key])), t.Message,
			string(source)})
	}
}

// Resources lists the built-in resources that are read, in kubectl's syntax: kubectl get RESOURCES -A -o json.
const Resources = "nodes,pods,deploy,sts,rs,ds,jobs,hpa,pdb,quota"

// unknowns lists fields without a source, with the texts of names.yaml.
func (b *build) unknowns() {
	lacks := func(path, id, name string) {
		t := names().Unknown[id]
		b.Unknown = append(b.Unknown, Unknown{path, strings.ReplaceAll(t.Why, "NAME", name),
			strings.ReplaceAll(t.Remedy, "NAME", name)})
	}
	if len(b.nodes) == 0 {
		lacks("pools", "pools", Resources)
	}
	if len(b.workloads) == 0 {
		lacks("workloads", "workloads", Resources)
	}
	for _, n := range b.nodes {
		switch {
		case n.gpu != nil:
		case n.product != "":
			lacks("nodes."+n.name+".gpu", "gpu-not-in-table", fmt.Sprintf("%.60q", n.product))
		default:
			lacks("nodes."+n.name+".gpu", "gpu-not-named", plaintext.Count(n.gpus, "GPU"))
		}
	}
	for _, p := range b.pools {
		if _, ok := p.Price(); !ok {
			lacks(p.at+".price_per_gpu_hour", "price", p.GPU)
		}
		if p.Driver.IsZero() {
			lacks(p.at+".driver", "driver", "")
		}
	}
	for _, w := range b.workloads {
		together := map[bool]string{true: "-together"}[b.sharedSeries[w]]
		if w.Memory.IsZero() && w.Model == nil {
			lacks(w.at+".memory", "memory"+together, w.Name)
		}
		if w.GPUBusy.IsZero() && w.Load == nil {
			lacks(w.at+".gpu_busy", "busy"+together, w.Name)
		}
		if w.SLO == (profile.SLO{}) && w.Kind == decision.KindOnlineInference {
			lacks(w.at+".slo", "slo", w.Name)
		}
	}
}

// Discover makes the fleet from all inputs so far. It may be called again after more inputs.
func (c *Collector) Discover() *Discovery {
	b := &build{c: c, room: map[string]map[string]int64{}, left: map[string]map[string]int64{},
		devices: map[string][]*device{}, heldBy: map[deviceID]int{}, hamiCounts: map[string]bool{},
		others: map[string]bool{}, heldDevices: map[*device]bool{}, byName: map[string]*node{},
		poolOf: map[*node]*pool{}, byDevice: map[string]*workload{}, sharedSeries: map[*workload]bool{},
		findings: append([]Finding{}, c.findings...), Discovery: &Discovery{Pods: c.pods, Unknown: []Unknown{},
			Today: []Sharing{}, Provenance: map[string]Provenance{}}} // lists are never null in JSON
	b.Fleet.Version = "v1"
	b.claims()
	b.rooms()
	for _, name := range sortedKeys(c.nodes) {
		if n := b.readNode(c.nodes[name]); n != nil {
			b.nodes, b.byName[name] = append(b.nodes, n), n
		}
	}
	b.joinMachines()
	b.group()
	b.notUnderstood()
	b.makePools()
	for _, w := range b.workloads {
		b.makeWorkload(w)
	}
	if b.Fleet.Trust = c.opts.Hints.Trust; b.Fleet.Trust != "" {
		b.note("trust", Provenance{basisGiven, "hints"})
	}
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
