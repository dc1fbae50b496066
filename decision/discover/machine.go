// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// AddInventory adds NVML's inventory of the GPUs of a machine, by the name of its Kubernetes node if it is one.
func (c *Collector) AddInventory(name string, inv telemetry.Inventory) {
	c.machines = append(c.machines, &machine{name, inv})
}

// joinMachines adds inventories of drivers to their nodes, and makes nodes of machines without one.
func (b *build) joinMachines() {
	taken := map[string]bool{}
	for name := range b.byName {
		taken[name] = true
	}
	for _, m := range b.c.machines {
		n := b.nodeOf(m)
		if n == nil {
			n = b.newNode(unique(taken, m.name))
			if len(b.c.nodes) > 0 {
				b.find("machine-in-no-node", "machine "+n.name, "nvidia-smi")
			}
			b.nodes, b.byName[n.name] = append(b.nodes, n), n
		}
		n.readInventory(b, &m.inventory)
	}
}

// nodeOf finds a machine's node: by a GPU's UUID, or by its name.
func (b *build) nodeOf(m *machine) *node {
	for _, n := range b.nodes {
		for i := range m.inventory.GPUs {
			if slices.Contains(n.uuids, m.inventory.GPUs[i].UUID) {
				return n
			}
		}
	}
	return b.byName[m.name]
}

// readInventory takes the driver's figures, which override labels.
func (n *node) readInventory(b *build, inv *telemetry.Inventory) {
	from := Provenance{basisMeasured, "nvidia-smi or NVML"}
	if len(inv.GPUs) == 0 {
		return
	}
	if n.meta != nil && n.gpus > 0 && n.gpus != len(inv.GPUs) {
		n.find("label-lies/driver-count", "nvidia-smi", plaintext.Count(n.gpus, "GPU"), len(inv.GPUs))
	}
	n.gpus, n.gpusFrom, n.layouts, n.uuids, n.inMIG = len(inv.GPUs), from, nil, nil, 0
	if d, err := sharing.ParseDriver(inv.Driver); err == nil {
		n.driver, n.driverFrom = d, from
	}
	var byMPS, sliced, denied []string // the GPUs that are shared so, or report nothing of the whole
	instances := map[string]int{}
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		if g.Lost {
			n.find("gpu-lost", "nvidia-smi", i)
			n.gpus--
			continue
		}
		n.uuids = append(n.uuids, g.UUID)
		if model, err := g.Model(); err == nil {
			if n.gpu != nil && n.gpu != model {
				n.find("label-lies/driver-model", "nvidia-smi", i, model.Name, n.productFrom.Source, n.gpu.Name)
			}
			n.gpu, n.product, n.productFrom = model, g.Name, from
		} else if n.gpu == nil {
			n.product = g.Name
		}
		b.checkGuest("machine "+n.name, g.Name, "nvidia-smi", false)
		if g.MIG == sharing.AnswerYes || g.Denied && g.MIG == sharing.AnswerUnknown {
			n.inMIG++
		}
		if g.Denied {
			denied = append(denied, strconv.Itoa(i))
		}
		for _, in := range g.Instances {
			if in.Profile != "" {
				instances[in.Profile]++
			}
		}
		if g.MPS == sharing.AnswerYes {
			byMPS = append(byMPS, strconv.Itoa(i))
		} else if len(g.Processes) > 1 {
			sliced = append(sliced, strconv.Itoa(i))
		}
	}
	if len(instances) > 0 {
		n.instances = instances
	}
	if len(denied) > 0 {
		b.find("gpu-seen-in-part", "machine "+n.name, "nvidia-smi", strings.Join(denied, ", "))
	}
	if n.meta == nil {
		n.sharedBy(b, byMPS, sliced, len(denied) > 0)
		b.processes(n, inv)
	}
}

// sharedBy sets the mechanism of a machine without Kubernetes by its GPUs with several processes: those under MPS, and
// those that share by time-slicing. denied is set where the driver hides the whole of a GPU.
func (n *node) sharedBy(b *build, byMPS, sliced []string, denied bool) {
	n.mechanismFrom = derived("processes on its GPUs")
	if denied {
		n.mechanism, n.mechanismFrom = sharing.MechanismMIG, guessed("nvidia-smi: Insufficient Permissions")
	}
	switch {
	case len(byMPS) > 0 && len(byMPS) >= len(sliced):
		n.mechanism = sharing.MechanismMPS
	case len(sliced) > 0:
		n.mechanism = sharing.MechanismTimeSlicing
	}
	if len(byMPS) > 0 && len(sliced) > 0 {
		b.find("sharing-differs", "machine "+n.name, "nvidia-smi", strings.Join(byMPS, ", "), strings.Join(sliced, ", "),
			n.mechanism)
	}
}

// processes makes workloads of the processes of a machine without Kubernetes: those of one name on the same number of
// GPUs are replicas. A process on several GPUs is one.
func (b *build) processes(n *node, inv *telemetry.Inventory) {
	type process struct {
		base, command string
		gpus          int
		held          sharing.Bytes // of each GPU, the most
	}
	all := map[uint32]*process{}
	for i := range inv.GPUs {
		for _, p := range inv.GPUs[i].Processes {
			base := path.Base(strings.Fields(p.Name + " unnamed")[0])
			if strings.HasPrefix(base, "nvidia-cuda-mps") || n.pids[p.PID] {
				continue
			}
			if all[p.PID] == nil {
				all[p.PID] = &process{base: base, command: p.Name}
			}
			all[p.PID].gpus++
			all[p.PID].held = max(all[p.PID].held, p.Memory.Or(0))
		}
	}
	by := map[workloadKey]*workload{}
	for _, pid := range slices.Sorted(maps.Keys(all)) {
		p := all[pid]
		n.pids[pid] = true
		key := workloadKey{owner{"process", n.name, p.base}, strconv.Itoa(p.gpus)}
		w := by[key]
		if w == nil {
			one := &pod{namespace: n.name, name: p.base, node: n.name, owner: key.owner, running: true,
				ask: ask{gpus: p.gpus, resource: "process"}}
			one.guess = guessKind(&metadata{}, []container{{Image: p.base, Command: []string{p.command}}}, one.owner)
			w = &workload{key: key, first: one}
			by[key] = w
			b.workloads = append(b.workloads, w)
		}
		one := *w.first
		one.name = fmt.Sprintf("%s-%d", p.base, pid)
		w.pods = append(w.pods, &one)
		w.all++
		if p.held > 0 {
			w.held = sharing.Some(max(p.held, w.held.Or(0)))
		}
	}
}
