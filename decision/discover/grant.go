// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision/discover/internal/hami"
	"github.com/cotenant/cotenant/sharing"
)

// Annotations of pods in which schedulers record allocated devices: HAMi (protocol.md and dynamic-mig-migration.md at
// 4707fb02), the scheduler that became HAMi, and Volcano (65f4653d).
const (
	grantHAMi    = "hami.io/vgpu-devices-allocated"
	grantHAMiMIG = "hami.io/vgpu-mig-allocations" // from 2.10
	grantOld     = "4pd.io/vgpu-ids-new"
	grantVolcano = "volcano.sh/vgpu-ids-new"
)

// migAllocation is an entry of HAMi's annotation of MIG instances.
type migAllocation struct {
	Container int    `json:"containerIndex"`
	Device    int    `json:"deviceIndex"`
	GPU       string `json:"gpuUUID"`
	Profile   string `json:"profile"`
	Placement struct {
		Start int `json:"start"`
		Size  int `json:"size"`
	} `json:"placement"`
}

// granted returns the devices that a pod was given, nil where no annotation or status records them.
func (b *build) granted(p *pod, n *node, asked []holding) (all []holding) {
	if i, ok := p.notes["ALIYUN_COM_GPU_MEM_IDX"]; ok && len(asked) == 1 {
		one := asked[0]
		one.device, one.gpus, one.granted = "index "+i, 1, true
		return []holding{one}
	}
	for _, key := range []string{grantHAMi, grantOld, grantVolcano} {
		text := p.notes[key]
		if text == "" {
			continue
		}
		containers, err := hami.ParseGrants(text)
		if err != nil {
			b.find("annotation-unreadable/request", "pod "+p.namespace+"/"+p.name, "annotation "+key, key, err)
			return nil
		}
		u := use{role: roleCount, delivery: sharing.DeliveryHAMi}
		if key == grantVolcano {
			u.delivery = sharing.DeliveryVolcano
		}
		instances := b.instances(p)
		names := p.containers(len(containers))
		for i, devices := range containers {
			for k, g := range devices {
				h := holding{use: u, gpus: 1, device: g.UUID, resource: "annotation " + key, cores: g.Cores,
					memory: sharing.Bytes(g.MiB) * sharing.MiB, granted: true}
				if i < len(names) {
					h.container = names[i]
				}
				inMIG := g.Template
				if n != nil && n.card(g.UUID) != nil {
					inMIG = inMIG || n.card(g.UUID).Mode == "mig"
				}
				if in := instances[[2]int{i, k}]; in != nil {
					h.profile, h.start, h.size = in.Profile, in.Placement.Start, in.Placement.Size
				} else if inMIG {
					h.profile = n.profileFor(h.memory)
				}
				if inMIG || h.profile != "" {
					h.mechanism, h.cores = sharing.MechanismMIG, 0
				}
				all = append(all, h)
			}
		}
		return all
	}
	return nil
}

// containers are the names of a pod's containers, with those that end before the others start where n counts them.
func (p *pod) containers(n int) (names []string) {
	for _, w := range p.wants {
		if !w.init || n == len(p.wants) {
			names = append(names, w.container)
		}
	}
	return names
}

// instances are the MIG instances that HAMi gave a pod, by the places of its container and device.
func (b *build) instances(p *pod) map[[2]int]*migAllocation {
	var all []migAllocation
	out := map[[2]int]*migAllocation{}
	text := p.notes[grantHAMiMIG]
	if err := json.Unmarshal([]byte(cmp.Or(text, "[]")), &all); err != nil {
		b.find("annotation-unreadable/instances", "pod "+p.namespace+"/"+p.name, "annotation "+grantHAMiMIG, grantHAMiMIG)
	}
	for i := range all {
		out[[2]int{all[i].Container, all[i].Device}] = &all[i]
	}
	return out
}

// kaiHoldings reads the annotations of the KAI scheduler: a part of each of some GPUs. The mode NvFractions (0.18)
// has them by container: a request, by which KAI places, and a limit, which the driver holds.
func (b *build) kaiHoldings(p *pod) (all []holding) {
	a := p.notes
	base := holding{use: use{role: roleAmount, delivery: sharing.DeliveryKAI, mechanism: sharing.MechanismTimeSlicing},
		gpus: 1}
	var groups []string
	for _, key := range sortedKeys(p.labels) {
		if kaiGroups.MatchString(key) && p.labels[key] != "" && !slices.Contains(groups, p.labels[key]) {
			groups = append(groups, p.labels[key])
		}
	}
	if g := a["gpu-group"]; g != "" && len(groups) == 0 {
		groups = []string{g}
	}
	containers := map[string]holding{}
	for _, key := range sortedKeys(a) { // a limit comes before its request
		m := kaiAnnotation.FindStringSubmatch(key)
		if m == nil {
			continue
		}
		h, ok := containers[m[1]]
		if !ok {
			h = base
			h.container = m[1]
		}
		switch v := sharing.Bytes(quantity(a[key])); {
		case m[2] == "gpu-compute.mode" && a[key] == "sm-sharing":
			h.mechanism = sharing.MechanismMPS
		case m[2] == "gpus.devices" && len(groups) == 0:
			for d := range strings.SplitSeq(a[key], ",") {
				groups = append(groups, "GPU "+strings.TrimSpace(d))
			}
		case m[2] == "gpu-memory.request":
			h.request = v
			fallthrough
		case m[2] == "gpu-memory.limit" && h.memory == 0:
			if h.memory == 0 && v > 0 {
				h.memory, h.resource = v, "annotation "+key
			}
		}
		containers[m[1]] = h
	}
	for _, name := range sortedKeys(containers) {
		if h := containers[name]; h.memory > 0 {
			all = append(all, h)
		}
	}
	fraction, _ := strconv.ParseFloat(a["gpu-fraction"], 64)
	mib, _ := strconv.ParseInt(a["gpu-memory"], 10, 64)
	if len(all) == 0 && (a["gpu-fraction"] != "" || a["gpu-memory"] != "") {
		base.resource = "annotation gpu-fraction"
		switch {
		case fraction > 0 && fraction < 1:
			base.fraction = fraction
		case mib > 0 && mib <= int64(mostMemory/sharing.MiB):
			base.memory, base.resource = sharing.Bytes(mib)*sharing.MiB, "annotation gpu-memory"
		}
		all = append(all, base)
	}
	// Each of so many GPUs; without a group they are its own, as far as is known.
	devices := max(1, count(a["gpu-fraction-num-devices"]), len(groups))
	for len(groups) < devices && len(groups) < mostPerNode {
		groups = append(groups, fmt.Sprintf("%s/%s %d", p.namespace, p.name, len(groups)))
	}
	var out []holding
	for _, h := range all {
		for _, g := range groups {
			h.device = "KAI's " + g
			out = append(out, h)
		}
	}
	return out
}
