// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision/discover/internal/hami"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

func (b *build) newNode(name string) *node {
	return &node{name: name, findings: &b.findings, replicas: 1, mechanism: sharing.MechanismExclusive,
		instances: map[string]int{}, pids: map[uint32]bool{}, apartGPUs: map[string]string{},
		opaque: map[string][]string{}}
}

// find adds a finding about the node.
func (n *node) find(id, source string, args ...any) {
	n.findings.find(id, "node "+n.name, source, args...)
}

// whole is the number of GPUs that are not in MIG mode.
func (n *node) whole() int { return n.gpus - n.inMIG }

// sharers is the number of replicas of a GPU, 0 of a whole one.
func (n *node) sharers() int {
	if n.replicas > 1 {
		return n.replicas
	}
	return 0
}

// Labels of GPU Feature Discovery about the sharing of whole GPUs.
const (
	labelReplicas = "nvidia.com/gpu.replicas"
	labelStrategy = "nvidia.com/gpu.sharing-strategy"
)

// labelsOfGKE are GKE's names of labels of GPU Feature Discovery; gpuSharing of a ComputeClass sets the same ones, from
// 1.35.2.
var labelsOfGKE = map[string]string{labelReplicas: "cloud.google.com/gke-max-shared-clients-per-gpu",
	labelStrategy: "cloud.google.com/gke-gpu-sharing-strategy"}

// label is the value of a label, by GKE's name for it where the node has not the other.
func (n *node) label(key string) string {
	v, _ := n.first(key, labelsOfGKE[key])
	return v
}

// from names the label that label reads.
func (n *node) from(key string) string {
	_, has := n.first(key, labelsOfGKE[key])
	return "label " + cmp.Or(has, key)
}

// first is the value of the first of the labels that the node has, and that label.
func (n *node) first(keys ...string) (value, key string) {
	for _, key := range keys {
		if n.meta != nil && n.meta.Metadata.Labels[key] != "" {
			return n.meta.Metadata.Labels[key], key
		}
	}
	return "", ""
}

// number reads a label that must be a whole number; 0 where it is not there, or none.
func (n *node) number(key string) int {
	text := n.label(key)
	v, err := strconv.Atoi(cmp.Or(text, "0"))
	if err != nil || v < 0 || v > 1<<30 {
		n.find("label-unreadable/number", n.from(key), n.from(key), text)
		return 0
	}
	return v
}

// amountsOf returns the largest amount of each resource in some lists, those that are no part of a GPU left out.
func amountsOf(lists ...quantities) map[string]int {
	out := map[string]int{}
	for _, list := range lists {
		for key, text := range list {
			if v := amountOf(text); v > 0 && !ordinary(key) {
				out[key] = max(out[key], v)
			}
		}
	}
	return out
}

// handedOut reports whether a known component hands out the node's GPUs.
func (n *node) handedOut() bool {
	return n.offered > 0 || n.inMIG > 0 || len(n.managers) > 0 || n.mechanism != sharing.MechanismExclusive
}

// memory is that of one of the node's GPUs, 0 where it is not known.
func (n *node) memory() sharing.Bytes {
	if n.gpu == nil {
		return 0
	}
	total, _ := n.gpu.Memory.Get()
	return total
}

// model is the GPU's model in the MIG catalogue, nil where there is none.
func (n *node) model() *mig.Model {
	if n == nil {
		return nil
	}
	name := n.product
	if n.gpu != nil {
		name = n.gpu.Name
	}
	m, err := mig.Lookup(name)
	if err != nil || !m.PlacementsKnown() {
		return nil
	}
	return m
}

// profile is a MIG profile of the node's GPU, by default that of nvidia.com/gpu; nil where it is not known.
func (n *node) profile(name string) *mig.Profile {
	m := n.model()
	if m == nil {
		return nil
	}
	p, _ := m.Profile(cmp.Or(name, n.single))
	return p
}

// card is the GPU that HAMi or Volcano registered under a UUID, nil without one.
func (n *node) card(uuid string) *hami.GPU {
	for i := range cmp.Or(n, &node{}).registered {
		if n.registered[i].ID == uuid {
			return &n.registered[i]
		}
	}
	return nil
}

// profileFor returns the MIG profile of the node's GPU with memory nearest to the grant, as a driver may show
// some percent less or more than another; empty where none is near.
func (n *node) profileFor(memory sharing.Bytes) (name string) {
	m := n.model()
	if m == nil {
		return ""
	}
	best := math.Inf(1)
	for _, p := range m.Profiles {
		have, ok := p.Memory.Get()
		off := math.Abs(float64(have)/float64(memory) - 1)
		if ok && !strings.ContainsAny(p.Name, "+-") && off < min(best, 0.1) {
			name, best = p.Name, off
		}
	}
	return name
}

// vgpusOn returns the number of vGPUs of a type on one of the node's GPUs, 1 where that is not known.
func (n *node) vgpusOn(u use) int {
	if n.gpu == nil || u.memory == 0 {
		return 1
	}
	// A type's gigabytes are of the board's nominal memory, of which a driver shows some percent less.
	most := max(1, int(float64(n.memory())*1.09/float64(u.memory)))
	if v, _ := sharing.ParseVGPUType(u.profile); v.Slices > 0 && n.model() != nil {
		most = min(most, max(1, n.model().ComputeSlices/v.Slices))
	}
	return most
}

// kinds returns the names of a node's GPUs, where HAMi, Volcano or the DRA driver lists them one by one.
func (n *node) kinds() (out []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for i := range n.registered {
		add(strings.TrimPrefix(n.registered[i].Type, "NVIDIA-"))
	}
	for _, d := range n.devices {
		if d.kind != "vfio" {
			add(d.product)
		}
	}
	return out
}

// free returns the least number of a node's GPUs that no pod holds: a resource not understood may be any of them.
func (n *node) free() int {
	if len(n.opaque) > 0 {
		return 0
	}
	taken, unknown := map[string]bool{}, 0
	for gpu := range n.apartGPUs {
		taken[gpu] = true
	}
	for _, p := range n.pods {
		if len(p.held) == 0 { // a process on a machine
			unknown += p.ask.gpus
		}
		for _, h := range p.held {
			if h.device != "" {
				taken[h.device] = true
			} else {
				unknown += h.gpus
			}
		}
	}
	return max(0, n.gpus-len(taken)-unknown)
}

// tenantsOfOne returns the least number of pods that share the fullest of a node's GPUs.
func (n *node) tenantsOfOne() int {
	of, unknown := map[string]int{}, 0
	for _, p := range n.pods {
		here := map[string]bool{}
		for _, h := range p.held {
			if h.device == "" {
				unknown += min(h.gpus, n.gpus) // several shares of one GPU are one tenant's
			} else if h.profile == "" && !here[h.device] {
				here[h.device] = true
				of[h.device]++
			}
		}
	}
	most := 0
	if n.gpus > 0 {
		most = (unknown + n.gpus - 1) / n.gpus
	}
	for _, k := range of {
		most = max(most, k)
	}
	return most
}

// larger reports whether a MIG profile has more slices than another, or is the first.
func larger(profile, than string) bool {
	x, errX := mig.ParseName(profile)
	y, errY := mig.ParseName(than)
	if errX != nil || errY != nil {
		return than == ""
	}
	return cmp.Or(cmp.Compare(x.Slices, y.Slices), cmp.Compare(x.GB, y.GB)) > 0
}
