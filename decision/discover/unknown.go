// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// check reports contradictions between nodes and pods.
func (b *build) check() {
	if len(b.c.clusters) > 1 {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(b.c.clusters)) {
			names = append(names, fmt.Sprintf("%s (%s)", name, b.c.clusters[name][0]))
		}
		b.find("two-clusters", sharing.SeverityHigh, "cluster", "labels of nodes",
			"nodes name %d clusters: %v: give the files of one cluster at a time", len(names), names)
	}
	for _, n := range b.nodes {
		asked := 0
		for _, p := range n.pods {
			for i := range p.held {
				if h := &p.held[i]; h.resource == resourceGPU || h.resource == resourceShared {
					asked += h.gpus
				}
			}
		}
		b.checkMemory(n)
		if n.offered > 0 && asked > n.offered && n.registry == sharing.DeliveryBare {
			b.find("overcommitted", sharing.SeverityHigh, "node "+n.name, "nvidia.com/gpu",
				"pods hold %d of nvidia.com/gpu and it offers %d: the files are of two moments, or a second scheduler places",
				asked, n.offered)
		}
	}
}

// tenantsOfOne returns the least number of pods that share the fullest of a node's GPUs.
func (n *node) tenantsOfOne() int {
	of, unknown := map[string]int{}, 0
	for _, p := range n.pods {
		here := map[string]bool{}
		for i := range p.held {
			if h := &p.held[i]; h.device == "" {
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

// checkMemory reports GPUs, and nodes, of which pods were given or request more memory than there is.
func (b *build) checkMemory(n *node) {
	total := n.memory()
	of, all := map[string]sharing.Bytes{}, sharing.Bytes(0)
	for _, p := range n.pods {
		for i := range p.held {
			h := &p.held[i]
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
			b.find("memory-oversubscribed", sharing.SeverityHigh, "node "+n.name, "resources and annotations of pods",
				"pods are given %v of the memory of %s, and there are %v", given, what, has)
		}
	}
	if total > 0 {
		exceeds(plaintext.Count(n.gpus, "GPU"), all, total*sharing.Bytes(n.gpus))
		for gpu, given := range of {
			exceeds("GPU "+gpu, given, total)
		}
	}
}

// atStake returns the cost of a workload's GPUs in a month: its parts of shared ones.
func (b *build) atStake(w *workload) (cost.Money, bool) {
	var total cost.Money
	known := false
	for _, p := range w.pods {
		n := p.at
		if !p.running || b.poolOf[n] == nil {
			continue
		}
		parts := n.replicas
		switch b.mechanisms(p, n)[0] {
		case sharing.MechanismMIG, sharing.MechanismMIGWithMPS:
			parts = 1
			if profile := n.profile(p.ask.profile); profile != nil {
				parts = profile.MaxInstances
			}
		case sharing.MechanismExclusive:
			parts = 1
		}
		price, ok := b.Fleet.Pools[b.poolOf[n].index].Price()
		if !ok {
			continue
		}
		m, err := price.MulFrac(int64(p.ask.gpus)*cost.HoursPerMonth, int64(max(1, parts)))
		if err == nil && known {
			m, err = total.Add(m)
		}
		if err == nil {
			total, known = m, true
		}
	}
	return total, known
}

// unknowns lists fields without a source, by the cost of the GPUs concerned.
func (b *build) unknowns() {
	add := func(path, why, settle string, stake ...cost.Money) {
		u := Unknown{Path: path, Why: why, SettleBy: settle}
		for _, m := range stake {
			u.stake, u.MonthlyAtStake = m.Micros(), m.Round(2).Decimal()
		}
		b.Unknown = append(b.Unknown, u)
	}
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
		var stake []cost.Money
		if m, priced := b.atStake(w); priced {
			stake = append(stake, m)
		}
		remedy, together := remedyOfGPUs, ""
		if b.sharedSeries[w] {
			remedy, together = remedyOfPods, ": its samples are its whole GPU's, which others use too"
		}
		if v.Memory.IsZero() && v.Model == nil {
			add(at+".memory", "the GPU memory that "+v.Name+" uses is not known"+together, remedy, stake...)
		}
		if v.GPUBusy.IsZero() && v.Load == nil {
			add(at+".gpu_busy", "how busy "+v.Name+" keeps its GPU is not known"+together, remedy, stake...)
		}
		if v.SLO == (profile.SLO{}) && v.Kind == decision.KindOnlineInference {
			add(at+".slo", "the latencies that "+v.Name+" must meet are stated nowhere",
				fmt.Sprintf("write slo with -hints under workloads.%s", v.Name), stake...)
		}
	}
	slices.SortStableFunc(b.Unknown, func(x, y Unknown) int { return cmp.Compare(y.stake, x.stake) })
}

const remedyOfPods = "dcgm-exporter 4.5.3-4.8.2 or later with KUBERNETES_VIRTUAL_GPUS and hostPID, which gives each " +
	"pod's own"

const remedyOfGPUs = "-prometheus URL of the Prometheus that scrapes dcgm-exporter (DCGM_FI_DEV_FB_USED, " +
	"DCGM_FI_PROF_SM_ACTIVE)"
