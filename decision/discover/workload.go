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

func (b *build) makeWorkload(w *workload) {
	p, o := w.first, w.key
	note := func(key string, from Provenance) { b.note(w.at+"."+key, from) }
	w.Kind, w.GPUs = p.guess.kind, p.ask.gpus
	note("name", declared("%s %s", o.kind, strings.TrimPrefix(o.namespace+"/"+o.name, "/")))
	note("kind", guessed("rule %s", p.guess.rule))
	if text := p.notes["cotenant.dev/kind"]; text != "" && w.Kind.UnmarshalText([]byte(text)) == nil {
		note("kind", declared("annotation cotenant.dev/kind"))
	}
	note("gpus", declared("%s", p.ask.resource))
	if p.namespace != "" {
		w.Tenant = workloadName("", p.namespace)
		note("tenant", guessed("the namespace"))
	}
	if text := p.notes["cotenant.dev/tenant"]; text != "" {
		w.Tenant = workloadName("", text)
		note("tenant", declared("annotation cotenant.dev/tenant"))
	}
	for _, m := range latencies { // the objectives that this repository's scheduler takes
		d, err := time.ParseDuration(p.notes["cotenant.dev/"+strings.ToLower(m.name)+"-p99"])
		if err == nil && d > 0 {
			*w.SLO.At(m.Metric) = sharing.Some(profile.Duration(d))
			note("slo", declared("annotations cotenant.dev/*-p99"))
		}
	}
	w.Replicas = decision.Replicas{Max: min(w.all, mostPods)}
	note("replicas", declared("%s of %s", plaintext.Count(w.all, "pod"), o.kind))
	if len(w.pods) == 0 {
		note("replicas", declared("spec.replicas of %s", o.kind))
	}
	b.findHome(w)
	if w.node != nil {
		b.askedOf(w)
	} else if p.ask.profile != "" {
		w.Request = &fleet.Asked{Mechanism: sharing.MechanismMIG, Profile: p.ask.profile}
		note("request", declared("%s", p.ask.resource))
	}
	if m, ok := w.held.Get(); ok {
		w.Memory = w.held
		note("memory", Provenance{basisMeasured, fmt.Sprintf("nvidia-smi, one moment, the most of %s: %v",
			plaintext.Count(w.all, "process"), m)})
	}
	if p.framework.Name != "" {
		w.Framework = &p.framework
		source := "image or command"
		if !p.framework.MemoryFraction.IsZero() {
			source += ", memory fraction by its flag"
		}
		note("framework", declared("%s", source))
	}
	if w.UID = p.uid; !w.UID.IsZero() {
		note("uid", declared("securityContext.runAsUser"))
	}
	if pool := b.poolOf[w.node]; pool != nil && !w.several && w.GPUs <= pool.Count {
		if p.selects != "" {
			w.Pool = pool.Name
			note("pool", declared("nodeSelector %s; it runs there today", p.selects))
		} else if w.Memory.IsZero() {
			w.Pool = pool.Name
			note("pool", derived("it runs there today, and whether its memory fits elsewhere is not known"))
		}
	}
	b.hintWorkload(w)
}

// findHome finds a node that the workload runs on, and whether it is in several pools.
func (b *build) findHome(w *workload) {
	for _, p := range w.pods {
		if p.at == nil {
			if p.node != "" && len(b.c.nodes) > 0 && b.c.nodes[p.node] == nil {
				b.find("node-missing", "pod "+p.namespace+"/"+p.name, "spec.nodeName", p.node)
			}
			continue
		}
		w.node = cmp.Or(w.node, p.at)
		w.several = w.several || b.poolOf[w.node] != b.poolOf[p.at]
	}
}

// askedOf writes a workload's request and today, and its memory where either bounds it.
func (b *build) askedOf(w *workload) {
	p, n := w.first, w.node
	m, total := b.mechanisms(p, n)[0], n.memory()
	if m == sharing.MechanismExclusive {
		return
	}
	ask := &fleet.Asked{Mechanism: m}
	w.Request = ask
	from := n.mechanismFrom
	if from.Source == "" || m == sharing.MechanismMIG {
		from = declared("%s", p.ask.resource)
	}
	memory := func(v sharing.Bytes, from Provenance) {
		if v > 0 && v <= mostMemory {
			w.Memory = sharing.Some(v)
			b.note(w.at+".memory", from)
		}
	}
	switch m {
	case sharing.MechanismMIG, sharing.MechanismMIGWithMPS:
		if ask.Profile = p.ask.profile; ask.Profile == "" && n.single != "INVALID" {
			ask.Profile = n.single
		}
		in := slices.IndexFunc(n.inside, func(x Inside) bool { return x.Profile == ask.Profile })
		if in >= 0 {
			ask.Replicas = n.inside[in].Pods
		} else if prof := n.profile(ask.Profile); prof != nil {
			v, _ := prof.Memory.Get()
			memory(v, derived("a %s has no more (%s)", prof.Name, p.ask.resource))
		}
	case sharing.MechanismMPS:
		ask.Replicas = n.sharers()
		if n.replicas > 1 && total > 0 {
			memory(total/sharing.Bytes(n.replicas), derived("the device plugin limits each of %d MPS clients to that",
				n.replicas))
		}
	case sharing.MechanismTimeSlicing:
		ask.Replicas = n.sharers()
	case sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		ask.Cores = p.ask.cores
	}
	if p.ask.delivery == sharing.DeliveryKAI {
		from, ask.Replicas = declared("%s", p.ask.resource), 0
	}
	most, by := sharing.Bytes(0), (*holding)(nil)
	for _, k := range w.pods {
		if v, h := k.mostOf(total); v > most {
			most, by = v, h
		}
	}
	if by != nil && (m != sharing.MechanismMPS || w.Memory.IsZero()) {
		memory(most, by.memorySource(n))
	}
	if (m == sharing.MechanismTimeSlicing || m == sharing.MechanismMPS) && w.GPUs > 1 &&
		p.ask.delivery != sharing.DeliveryKAI && p.ask.resource != "ResourceClaim" {
		ask.SharedGPUs, w.GPUs = w.GPUs, 1
	}
	b.note(w.at+".request", from)
	w.Today = &fleet.Today{Mechanism: m, Profile: ask.Profile}
	b.note(w.at+".today", from)
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

func (b *build) hintWorkload(w *workload) {
	h := b.c.opts.Hints
	keys := matching(h.Workloads, w.Name)
	for _, k := range keys { // first: latencies depend on whether it serves requests
		w.Kind = cmp.Or(h.Workloads[k].Kind, w.Kind)
	}
	serves := w.Kind.Serves()
	for _, k := range keys {
		v := h.Workloads[k]
		hint, into := reflect.ValueOf(v), reflect.ValueOf(w.Workload).Elem()
		for i := range hint.NumField() {
			field := hint.Type().Field(i)
			key := field.Tag.Get("yaml")
			takes := serves || k == w.Name || key != "slo" && key != "solo"
			if takes && !hint.Field(i).IsZero() {
				into.FieldByName(field.Name).Set(hint.Field(i))
				b.note(w.at+"."+key, Provenance{basisGiven, "hints, workloads." + k})
			}
		}
		if v.Model != nil {
			w.Memory = sharing.Optional[sharing.Bytes]{}
			delete(b.Provenance, w.at+".memory")
		} else if !v.Memory.IsZero() {
			w.Model = nil
		}
	}
	if !w.Memory.IsZero() || w.Model != nil {
		b.unpin(w)
	}
	w.Kind = cmp.Or(w.Kind, decision.KindBatch)
}

// unpin lets a workload go to other pools that was in the present one only as its memory was not known.
func (b *build) unpin(w *workload) {
	if b.Provenance[w.at+".pool"].Basis == basisDerived {
		w.Pool = ""
		delete(b.Provenance, w.at+".pool")
	}
}
