// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"path"
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
			b.find("resource-not-understood/held", "node "+n.name, "resource "+key, offers,
				plaintext.Some(pods, mostNames, len(pods)))
		}
		for _, key := range n.others {
			if n.opaque[key] == nil && !n.handedOut() {
				b.find("resource-not-understood/unheld", "node "+n.name, "resource "+key, n.offers[key], key)
			}
		}
	}
}

// unusedHints finds hints that fit nothing, which change nothing: most are misspelt.
func (b *build) unusedHints() {
	var workloads, nodes []string
	for i := range b.Fleet.Workloads {
		workloads = append(workloads, b.Fleet.Workloads[i].Name)
	}
	for _, n := range b.nodes {
		nodes = append(nodes, n.name)
	}
	unused := func(kind, pattern string, names []string) {
		if slices.ContainsFunc(names, func(name string) bool {
			ok, _ := path.Match(pattern, name)
			return ok || name == pattern
		}) {
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
		n, _ := b.home(w)
		if p := b.poolOf[n]; p != nil && w.first.ask.delivery == sharing.DeliveryKAI &&
			!strings.HasPrefix(w.first.ask.resource, "annotation nvidia.com/container.") {
			b.find("kai-memory", "pool "+p.name, "kai-gpu-sharing-modes")
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

// check reports contradictions between nodes and pods.
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
			b.find("overcommitted", "node "+n.name, "nvidia.com/gpu", asked, n.offered)
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
			b.find("memory-oversubscribed/given", "node "+n.name, "resources and annotations of pods", given, what, has)
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
		pool := decision.Pool{GPU: n.gpu.Name, InstanceType: n.instanceType, GPUsPerNode: decision.Some(n.gpus)}
		if p := b.poolOf[n]; p != nil {
			in = "pool " + p.name
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
			b.find("gpus-not-held", "pool "+p.name, "pods and nodes", free, plaintext.Count(all, "GPU"),
				plaintext.Some(names, mostNames, len(names)), monthly(&b.Fleet.Pools[p.index], free))
		}
	}
}

// traps finds the traps that workloads walk into as they run today.
func (b *build) traps() {
	hits, names := map[string]decision.TrapHit{}, map[string][]string{}
	for _, w := range b.workloads {
		v := &b.Fleet.Workloads[w.index]
		if v.Request == nil {
			continue
		}
		n, _ := b.home(w)
		var at *decision.Pool
		if p := b.poolOf[n]; p != nil {
			at = &b.Fleet.Pools[p.index]
		}
		here := 0 // the most on any of its nodes
		for _, p := range w.pods {
			if p.at != nil && p.running {
				here = max(here, p.at.tenantsOfOne())
			}
		}
		for _, t := range decision.TrapsToday(v, at, here) {
			key := fmt.Sprint(t.ID, t.Severity) // one that is there is worse than one to come
			if names[key] = append(names[key], w.name); len(names[key]) == 1 {
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

// unknowns lists fields without a source.
func (b *build) unknowns() {
	add := func(path, why, remedy string) { b.Unknown = append(b.Unknown, Unknown{path, why, remedy}) }
	if len(b.nodes) == 0 {
		add("pools", "no node with GPUs is among the input",
			"kubectl get "+Resources+" -A -o json, or `nvidia-smi -q -x` of each machine")
	}
	if len(b.workloads) == 0 {
		add("workloads", "no pod that asks for GPUs is among the input", "kubectl get "+Resources+" -A -o json")
	}
	for _, n := range b.nodes {
		if n.gpu != nil {
			continue
		}
		why := fmt.Sprintf("no label names the model of its %s", plaintext.Count(n.gpus, "GPU"))
		if n.product != "" {
			why = fmt.Sprintf("%.60q is not in the GPU table", n.product)
		}
		add("nodes."+n.name+".gpu", why+": it is in no pool",
			"run GPU Feature Discovery, give `nvidia-smi -q -x` of the node, or name the GPU with -hints, for example "+
				"gpu: GeForce RTX 4080 (16376MiB, 8.9)")
	}
	for i := range b.Fleet.Pools {
		p := &b.Fleet.Pools[i]
		at := fmt.Sprintf("pools[%d]", i)
		if _, ok := p.Price(); !ok {
			add(at+".price_per_gpu_hour", "no price was given: the cost is not known",
				fmt.Sprintf("-prices FILE with %q or its instance type", p.GPU))
		}
		if p.Driver.IsZero() {
			add(at+".driver", "no label gives it: which mechanisms the driver has is not known",
				"run GPU Feature Discovery, or give `nvidia-smi -q -x` of a node")
		}
	}
	for _, w := range b.workloads {
		v := &b.Fleet.Workloads[w.index]
		at := fmt.Sprintf("workloads[%d]", w.index)
		remedy, together := remedyOfGPUs, ""
		if b.sharedSeries[w] {
			remedy, together = remedyOfPods, ": its samples are its whole GPU's, which others use too"
		}
		if v.Memory.IsZero() && v.Model == nil {
			add(at+".memory", "the GPU memory that "+v.Name+" uses is not known"+together, remedy)
		}
		if v.GPUBusy.IsZero() && v.Load == nil {
			add(at+".gpu_busy", "how busy "+v.Name+" keeps its GPU is not known"+together, remedy)
		}
		if v.SLO == (profile.SLO{}) && v.Kind == decision.KindOnlineInference {
			add(at+".slo", "the latencies that "+v.Name+" must meet are stated nowhere",
				fmt.Sprintf("write slo with -hints under workloads.%s", v.Name))
		}
	}
}

const remedyOfPods = "dcgm-exporter 4.5.3-4.8.2 or later with KUBERNETES_VIRTUAL_GPUS and hostPID, which gives each " +
	"pod's own"

const remedyOfGPUs = "-prometheus URL of the Prometheus that scrapes dcgm-exporter (DCGM_FI_DEV_FB_USED, " +
	"DCGM_FI_PROF_SM_ACTIVE)"

// Discover makes the fleet from all inputs so far. It may be called again after more inputs.
func (c *Collector) Discover() *Discovery {
	b := &build{c: c, devices: map[string][]*device{}, heldBy: map[deviceID]int{}, hamiCounts: map[string]bool{},
		others: map[string]bool{}, heldDevices: map[*device]bool{}, byName: map[string]*node{},
		poolOf: map[*node]*pool{}, byDevice: map[string]*workload{}, sharedSeries: map[*workload]bool{},
		Discovery: &Discovery{Pods: c.pods, Provenance: map[string]Provenance{}}, findings: slices.Clone(c.findings)}
	b.Fleet.Version = "v1"
	b.claims()
	for _, name := range sortedKeys(c.nodes) {
		if n := b.readNode(c.nodes[name]); n != nil {
			b.nodes, b.byName[name] = append(b.nodes, n), n
		}
	}
	b.joinMachines()
	b.group()
	b.notUnderstood()
	b.makePools()
	for i, w := range b.workloads {
		w.index = i
		b.Fleet.Workloads = append(b.Fleet.Workloads, b.makeWorkload(w, fmt.Sprintf("workloads[%d]", i)))
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
