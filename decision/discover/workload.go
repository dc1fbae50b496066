package discover

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// makeWorkloads writes the workloads of the fleet.
func (b *build) makeWorkloads() {
	for i, w := range b.workloads {
		w.index = i
		b.Fleet.Workloads = append(b.Fleet.Workloads, b.makeWorkload(w, fmt.Sprintf("workloads[%d]", i)))
	}
}

func (b *build) makeWorkload(w *workload, at string) decision.Workload {
	p, o := w.first, w.key.owner
	out := decision.Workload{Name: w.name, Kind: p.guess.kind, GPUs: p.ask.gpus, Tenant: workloadName("", p.namespace)}
	b.note(at+".name", declared("%s %s", o.kind, strings.TrimPrefix(w.key.namespace+"/"+o.name, "/")))
	b.note(at+".kind", guessed("rule %s", p.guess.rule))
	if text := p.annotated["cotenant.dev/kind"]; text != "" && out.Kind.UnmarshalText([]byte(text)) == nil {
		b.note(at+".kind", declared("annotation cotenant.dev/kind"))
	}
	b.note(at+".gpus", declared("%s", p.ask.resource))
	b.note(at+".tenant", guessed("the namespace"))
	if p.namespace == "" {
		out.Tenant = ""
		delete(b.Provenance, at+".tenant")
	}
	if text := p.annotated["cotenant.dev/tenant"]; text != "" {
		out.Tenant = workloadName("", text)
		b.note(at+".tenant", declared("annotation cotenant.dev/tenant"))
	}
	for key, into := range map[string]*decision.Optional[profile.Duration]{"ttft": &out.SLO.TTFTP99,
		"tpot": &out.SLO.TPOTP99, "e2e": &out.SLO.E2EP99} { // the objectives that this repository's scheduler takes
		if d, err := time.ParseDuration(p.annotated["cotenant.dev/"+key+"-p99"]); err == nil && d > 0 {
			*into = decision.Some(profile.Duration(d))
			b.note(at+".slo", declared("annotations cotenant.dev/*-p99"))
		}
	}
	out.Replicas = decision.Replicas{Max: min(w.all, mostPods)}
	b.note(at+".replicas", declared("%s of %s", plaintext.Count(w.all, "pod"), o.kind))
	if len(w.pods) == 0 {
		b.note(at+".replicas", declared("spec.replicas of %s", o.kind))
	}
	node, several := b.home(w)
	if node != nil {
		b.askedOf(w, node, at, &out)
	} else if p.ask.profile != "" {
		out.Request = &decision.Asked{Mechanism: sharing.MechanismMIG, Profile: p.ask.profile}
		b.note(at+".request", declared("%s", p.ask.resource))
	}
	if m, ok := w.held.Get(); ok {
		out.Memory = w.held
		b.note(at+".memory", Provenance{BasisMeasured, fmt.Sprintf("nvidia-smi, one moment, the most of %s: %v",
			plaintext.Count(w.all, "process"), m)})
	}
	if f := p.framework; f.name != "" {
		out.Framework = &decision.Framework{Name: f.name, MemoryFraction: f.memoryFraction, Privileged: f.privileged}
		source := "image or command"
		if !f.memoryFraction.IsZero() {
			source += ", memory fraction by its flag"
		}
		b.note(at+".framework", declared("%s", source))
	}
	if u, ok := p.uid.Get(); ok {
		out.UID = decision.Some(u)
		b.note(at+".uid", declared("securityContext.runAsUser"))
	}
	if node != nil && !several && b.poolOf[node] != nil {
		pool := b.poolOf[node]
		switch {
		case out.GPUs > b.Fleet.Pools[pool.index].Count:
		case p.selects != "":
			out.Pool = pool.name
			b.note(at+".pool", declared("nodeSelector %s; it runs there today", p.selects))
		case out.Memory.IsZero():
			out.Pool = pool.name
			b.note(at+".pool", derived("it runs there today, and whether its memory fits elsewhere is not known"))
		}
	}
	b.hintWorkload(at, &out)
	return out
}

// home is a node that the workload runs on, and whether it is in several pools.
func (b *build) home(w *workload) (at *node, several bool) {
	for _, p := range w.pods {
		if p.at == nil {
			if p.node != "" && len(b.c.nodes) > 0 && b.c.nodes[p.node] == nil {
				b.find("node-missing", sharing.SeverityMedium, "pod "+p.namespace+"/"+p.name, "spec.nodeName",
					"runs on node %s, which is not among the input: another cluster's, or a node that is gone", p.node)
			}
			continue
		}
		at = cmp.Or(at, p.at)
		several = several || b.poolOf[at] != b.poolOf[p.at]
	}
	return at, several
}

// sharedBy is the mechanism by which a pod has its GPUs on a node.
func (b *build) sharedBy(p *pod, n *node) sharing.Mechanism {
	_, _, drawn, _ := b.drawn(p)
	switch {
	case p.ask.resource == "ResourceClaim":
		return drawn
	case p.ask.profile != "" || n.single != "" && n.inMIG > 0:
		return sharing.MechanismMIG
	case p.ask.delivery == sharing.DeliveryKAI:
		return sharing.MechanismTimeSlicing
	}
	return n.mechanism
}

// askedOf writes what a workload has today, and how much memory that bounds it to.
func (b *build) askedOf(w *workload, n *node, at string, out *decision.Workload) {
	p := w.first
	m := b.sharedBy(p, n)
	var total sharing.Bytes
	if n.gpu != nil {
		total, _ = n.gpu.Memory.Get()
	}
	if m == sharing.MechanismExclusive {
		return
	}
	out.Request = &decision.Asked{Mechanism: m}
	from := n.mechanismFrom
	if from.Source == "" || m == sharing.MechanismMIG {
		from = declared("%s", p.ask.resource)
	}
	memory := func(v sharing.Bytes, from Provenance) {
		if v > 0 && v <= mostMemory {
			out.Memory = decision.Some(v)
			b.note(at+".memory", from)
		}
	}
	switch m {
	case sharing.MechanismMIG, sharing.MechanismMIGWithMPS:
		profile := p.ask.profile
		if profile == "" && n.single != "INVALID" {
			profile = n.single
		}
		out.Request.Profile = profile
		if prof := n.profile(profile); prof != nil {
			v, _ := prof.Memory.Get()
			memory(v, derived("a %s has no more (%s)", prof.Name, p.ask.resource))
		}
	case sharing.MechanismMPS:
		out.Request.Replicas = n.sharers()
		if n.replicas > 1 && total > 0 {
			memory(total/sharing.Bytes(n.replicas), derived("the device plugin limits each of %d MPS clients to that",
				n.replicas))
		}
	case sharing.MechanismTimeSlicing:
		out.Request.Replicas = n.sharers()
		if p.ask.delivery == sharing.DeliveryKAI {
			from = declared("%s", p.ask.resource)
			if f, err := strconv.ParseFloat(p.ask.fraction, 64); err == nil && f > 0 && f < 1 && total > 0 {
				memory(sharing.Bytes(f*float64(total)), derived("annotation gpu-fraction of a %s", n.gpu.Name))
			}
		}
	case sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		out.Request.Cores = p.ask.cores
		if p.ask.percent > 0 && p.ask.percent < 100 && total > 0 {
			memory(total*sharing.Bytes(p.ask.percent)/100, derived("percent of the memory that it asks for, of a %s",
				n.gpu.Name))
		}
	}
	if p.ask.memory > 0 {
		memory(p.ask.memory, declared("%s", memoryResource(p)))
	}
	if (m == sharing.MechanismTimeSlicing || m == sharing.MechanismMPS) && out.GPUs > 1 &&
		p.ask.delivery != sharing.DeliveryKAI && p.ask.resource != "ResourceClaim" {
		out.Request.SharedGPUs, out.GPUs = out.GPUs, 1
	}
	b.note(at+".request", from)
	out.Today = &decision.Today{Mechanism: m, Profile: out.Request.Profile}
	b.note(at+".today", from)
}

func memoryResource(p *pod) string {
	switch {
	case p.ask.delivery == sharing.DeliveryKAI:
		return p.ask.resource
	case p.ask.delivery == sharing.DeliveryVolcano:
		return "volcano.sh/vgpu-memory"
	case p.ask.resource == "ResourceClaim":
		return "ResourceClaim, its capacity memory"
	}
	return "nvidia.com/gpumem"
}

// today counts what shares what.
func (b *build) today() {
	type key struct {
		pool      int
		mechanism sharing.Mechanism
	}
	rows := map[key]*Sharing{}
	add := func(n *node, m sharing.Mechanism, gpus, tenants int) {
		p := b.poolOf[n]
		if p == nil || gpus == 0 && tenants == 0 {
			return
		}
		k := key{p.index, m}
		if rows[k] == nil {
			rows[k] = &Sharing{Pool: p.name, Mechanism: m}
		}
		rows[k].GPUs += gpus
		rows[k].Tenants += tenants
	}
	for _, n := range b.nodes {
		tenants := map[sharing.Mechanism]int{}
		groups, held := map[string]bool{}, map[sharing.Mechanism]map[string]bool{}
		for _, p := range n.pods {
			m := b.sharedBy(p, n)
			tenants[m]++
			if p.ask.delivery == sharing.DeliveryKAI {
				groups[cmp.Or(p.ask.group, p.name)] = true // without a group a GPU of its own, as far as is known
			}
			if p.ask.resource != "ResourceClaim" {
				continue
			}
			for a := range b.allocations(p) {
				if d := b.device(a); d != nil && d.kind != "mig" {
					if held[m] == nil {
						held[m] = map[string]bool{}
					}
					held[m][a.device] = true
				}
			}
		}
		whole := n.whole
		share := func(m sharing.Mechanism, gpus int) {
			gpus = min(gpus, whole)
			add(n, m, gpus, tenants[m])
			delete(tenants, m)
			whole -= gpus
		}
		add(n, sharing.MechanismMIG, max(0, n.inMIG), tenants[sharing.MechanismMIG])
		delete(tenants, sharing.MechanismMIG)
		if len(groups) > 0 && n.mechanism == sharing.MechanismExclusive {
			share(sharing.MechanismTimeSlicing, len(groups))
		}
		for _, m := range []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS} {
			if len(held[m]) > 0 {
				share(m, len(held[m]))
			}
		}
		add(n, n.mechanism, whole, tenants[n.mechanism])
		delete(tenants, n.mechanism)
		for _, m := range sharing.Mechanisms() {
			if tenants[m] > 0 {
				add(n, m, 0, tenants[m])
			}
		}
	}
	for _, p := range b.pools {
		for _, m := range sharing.Mechanisms() {
			if r := rows[key{p.index, m}]; r != nil {
				b.Today = append(b.Today, *r)
			}
		}
	}
	b.Today = slices.Clip(b.Today)
}
