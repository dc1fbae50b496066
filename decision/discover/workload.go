// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

func (b *build) makeWorkload(w *workload, at string) decision.Workload {
	p, o := w.first, w.key.owner
	out := decision.Workload{Name: w.name, Kind: p.guess.kind, GPUs: p.ask.gpus, Tenant: workloadName("", p.namespace)}
	b.note(at+".name", declared("%s %s", o.kind, strings.TrimPrefix(w.key.namespace+"/"+o.name, "/")))
	b.note(at+".kind", guessed("rule %s", p.guess.rule))
	if text := p.notes["cotenant.dev/kind"]; text != "" && out.Kind.UnmarshalText([]byte(text)) == nil {
		b.note(at+".kind", declared("annotation cotenant.dev/kind"))
	}
	b.note(at+".gpus", declared("%s", p.ask.resource))
	b.note(at+".tenant", guessed("the namespace"))
	if p.namespace == "" {
		out.Tenant = ""
		delete(b.Provenance, at+".tenant")
	}
	if text := p.notes["cotenant.dev/tenant"]; text != "" {
		out.Tenant = workloadName("", text)
		b.note(at+".tenant", declared("annotation cotenant.dev/tenant"))
	}
	for key, into := range map[string]*decision.Optional[profile.Duration]{"ttft": &out.SLO.TTFTP99,
		"tpot": &out.SLO.TPOTP99, "e2e": &out.SLO.E2EP99} { // the objectives that this repository's scheduler takes
		if d, err := time.ParseDuration(p.notes["cotenant.dev/"+key+"-p99"]); err == nil && d > 0 {
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
		out.Request = &fleet.Asked{Mechanism: sharing.MechanismMIG, Profile: p.ask.profile}
		b.note(at+".request", declared("%s", p.ask.resource))
	}
	if m, ok := w.held.Get(); ok {
		out.Memory = w.held
		b.note(at+".memory", Provenance{basisMeasured, fmt.Sprintf("nvidia-smi, one moment, the most of %s: %v",
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
				b.find("node-missing", "pod "+p.namespace+"/"+p.name, "spec.nodeName", p.node)
			}
			continue
		}
		at = cmp.Or(at, p.at)
		several = several || b.poolOf[at] != b.poolOf[p.at]
	}
	return at, several
}

// askedOf writes a workload's request and today, and its memory where either bounds it.
func (b *build) askedOf(w *workload, n *node, at string, out *decision.Workload) {
	p := w.first
	m := b.mechanisms(p, n)[0]
	total := n.memory()
	if m == sharing.MechanismExclusive {
		return
	}
	out.Request = &fleet.Asked{Mechanism: m}
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
		in := slices.IndexFunc(n.inside, func(x Inside) bool { return x.Profile == profile })
		if in >= 0 {
			out.Request.Replicas = n.inside[in].Pods
		} else if prof := n.profile(profile); prof != nil {
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
	case sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		out.Request.Cores = p.ask.cores
	}
	if p.ask.delivery == sharing.DeliveryKAI {
		from, out.Request.Replicas = declared("%s", p.ask.resource), 0
	}
	most, by := sharing.Bytes(0), (*holding)(nil)
	for _, k := range w.pods {
		if v, h := k.mostOf(total); v > most {
			most, by = v, h
		}
	}
	if by != nil && m != sharing.MechanismMPS || by != nil && out.Memory.IsZero() {
		memory(most, by.memorySource(n))
	}
	if (m == sharing.MechanismTimeSlicing || m == sharing.MechanismMPS) && out.GPUs > 1 &&
		p.ask.delivery != sharing.DeliveryKAI && p.ask.resource != "ResourceClaim" {
		out.Request.SharedGPUs, out.GPUs = out.GPUs, 1
	}
	b.note(at+".request", from)
	out.Today = &fleet.Today{Mechanism: m, Profile: out.Request.Profile}
	b.note(at+".today", from)
}

// memorySource returns the provenance of a holding's memory.
func (h *holding) memorySource(n *node) Provenance {
	board := "card"
	if n.gpu != nil {
		board = n.gpu.Name
	}
	switch {
	case h.granted && h.resource != "ResourceClaim":
		return declared("%s: what it was given", h.resource)
	case h.memory > 0 && h.delivery == sharing.DeliveryVolcano:
		return declared("volcano.sh/vgpu-memory")
	case h.memory > 0 && h.delivery == sharing.DeliveryHAMi:
		return declared("nvidia.com/gpumem")
	case h.memory > 0 && h.delivery == sharing.DeliveryDRA:
		return declared("ResourceClaim, its capacity memory")
	case h.memory > 0 && h.role == roleAmount && h.delivery != sharing.DeliveryKAI:
		return derived("resource %s, by what the node offers of it", h.resource)
	case h.memory > 0:
		return declared("%s", h.resource)
	case h.percent >= 100:
		return derived("it requests no memory, so that it is given all of a %s", board)
	case h.percent > 0:
		return derived("percent of the memory that it requests, of a %s", board)
	}
	return derived("annotation gpu-fraction of a %s", board)
}

// hintWorkload lets the user's hints override a workload's fields.
func (b *build) hintWorkload(at string, out *decision.Workload) {
	h := b.c.opts.Hints
	b.Fleet.Trust = h.Trust
	if h.Trust != "" {
		b.note("trust", Provenance{basisGiven, "hints"})
	}
	keys := matching(h.Workloads, out.Name)
	for _, k := range keys { // first: latencies depend on whether it serves requests
		out.Kind = cmp.Or(h.Workloads[k].Kind, out.Kind)
	}
	serves := out.Kind.Serves()
	for _, k := range keys {
		v, from := h.Workloads[k], Provenance{basisGiven, "hints, workloads." + k}
		hint, into := reflect.ValueOf(v), reflect.ValueOf(out).Elem()
		for i := range hint.NumField() {
			field := hint.Type().Field(i)
			key := field.Tag.Get("yaml")
			takes := serves || k == out.Name || key != "slo" && key != "solo"
			if takes && !hint.Field(i).IsZero() {
				into.FieldByName(field.Name).Set(hint.Field(i))
				b.note(at+"."+key, from)
			}
		}
		if v.Model != nil {
			out.Memory = decision.Optional[sharing.Bytes]{}
			delete(b.Provenance, at+".memory")
		} else if !v.Memory.IsZero() {
			out.Model = nil
		}
	}
	if !out.Memory.IsZero() || out.Model != nil {
		if p := b.Provenance[at+".pool"]; p.Basis == basisDerived {
			out.Pool = ""
			delete(b.Provenance, at+".pool")
		}
	}
	out.Kind = cmp.Or(out.Kind, decision.KindBatch)
}
