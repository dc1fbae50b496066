// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Typical is a kind of request with its relative frequency. The name of the request is ignored.
type Typical struct {
	Request Request
	Weight  float64
}

// mix is the expected distribution of requests.
type mix struct {
	kinds  []kind
	models map[string]uint64 // bit of a GPU model that some kind asks for
	// profiles is set when some kind asks for a MIG profile, shares when some asks for something else of a GPU.
	profiles, shares bool
	tables           map[*mig.Model][]sliceTable
}

// kind is a typical request, prepared.
type kind struct {
	weight      float64 // sum 1
	cpu, memory int64
	gpus, milli int32
	gpuMemory   sharing.Bytes
	models      uint64 // bits of Mix.models; all = any
	mechanisms  uint32 // bits by mechanism of the GPUs that will do
	profile     string
}

// sliceTable is, for one kind and GPU model, the free units that the kind can't
// use, by mask; nil where the GPU has no such profile.
type sliceTable []float64

// newMix prepares a mix. Requests that differ only in their names are put together, in an order of their own.
func newMix(typical []Typical) (*mix, error) {
	var l problem.List
	m := &mix{models: map[string]uint64{}, tables: map[*mig.Model][]sliceTable{}}
	total := 0.0
	for i := range typical {
		t := &typical[i]
		path := fmt.Sprintf("Typical[%d]", i)
		t.Request.check(problem.Join(path, "Request"), &l)
		l.If(!(t.Weight > 0) || math.IsInf(t.Weight, 0), problem.Join(path, "Weight"),
			"leave it out or use a positive number", "%v is no weight", t.Weight)
		total += t.Weight
		for _, name := range t.Request.Models {
			if _, ok := m.models[name]; !ok && len(m.models) < 64 {
				m.models[name] = 1 << len(m.models)
			} else if !ok {
				l.Addf("Typical", "", "more than 64 GPU models are asked for")
			}
		}
	}
	l.If(len(typical) == 0, "Typical", "give the requests of a typical day", "the mix is empty")
	if err := l.Err(); err != nil {
		return nil, invalid(err)
	}
	// Sorted by their fields, so that the order of the input does not matter.
	type keyed struct {
		key string
		kind
	}
	all := make([]keyed, len(typical))
	for i := range typical {
		r := &typical[i].Request
		k := m.kind(r)
		k.weight = typical[i].Weight / total
		all[i] = keyed{fmt.Sprintf("%012d %016d %016d %02d %04d %s %d %d", k.cpu, k.memory, int64(k.gpuMemory), k.gpus,
			k.milli, k.profile, k.models, k.mechanisms), k}
		m.profiles = m.profiles || k.profile != ""
		m.shares = m.shares || k.gpus > 0 && k.profile == ""
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
	for i, k := range all {
		if i > 0 && k.key == all[i-1].key {
			m.kinds[len(m.kinds)-1].weight += k.weight
		} else {
			m.kinds = append(m.kinds, k.kind)
		}
	}
	m.prepare()
	return m, nil
}

func (m *mix) kind(r *Request) kind {
	k := kind{cpu: r.CPUMilli, memory: int64(r.Memory), gpus: int32(r.GPUs), milli: int32(max(r.Milli, r.Busy)),
		gpuMemory: r.GPUMemory, models: math.MaxUint64, mechanisms: math.MaxUint32, profile: r.Profile}
	if len(r.Mechanisms) > 0 { // a typical request that names none goes with whatever there is
		k.mechanisms = r.mechanisms()
	}
	if r.GPUs > 0 && len(r.Models) > 0 {
		k.models = 0
		for _, name := range r.Models {
			k.models |= m.models[name]
		}
	}
	return k
}

// model returns the bit of a node's GPU model.
func (m *mix) model(v *View) uint64 {
	if len(m.models) == 0 {
		return math.MaxUint64
	}
	return m.models[v.Model]
}

// accepts reports whether a kind can run on a node's GPUs by model. A model
// that nobody asks for still does for kinds that take any.
func (k *kind) accepts(bit uint64) bool { return k.models == math.MaxUint64 || k.models&bit != 0 }

// need is the thousandths that the kind takes of a GPU with so much memory.
func (k *kind) need(total sharing.Bytes) int32 {
	switch {
	case k.milli > 0 || total == 0:
		return k.milli
	case k.gpuMemory > total:
		return 1001
	}
	return int32((1000*k.gpuMemory + total - 1) / total) // rounded up
}

// prepare computes the tables of the catalogue's MIG GPUs for the mix.
func (m *mix) prepare() {
	if !m.profiles {
		return
	}
	for _, model := range mig.Models() {
		if !model.PlacementsKnown() {
			continue
		}
		tables := make([]sliceTable, len(m.kinds))
		any := false
		for i := range m.kinds {
			if name := m.kinds[i].profile; name != "" {
				if p := profileOf(model, name); p != nil {
					// The error can only be of the name, which the model has.
					tables[i], _ = model.FragmentationTable([]mig.Count{{Profile: p.Name, N: 1}})
					any = any || tables[i] != nil
				}
			}
		}
		if any {
			m.tables[model] = tables
		}
	}
}

// strandedSlices is the expected free part of a node's MIG GPUs, in thousandths of a GPU, that a request drawn from
// the mix can't use. Kinds that ask for no instance of the GPU leave it out; where all do, nothing is expected.
func (m *mix) strandedSlices(v *View) float64 {
	if !m.profiles {
		return 0
	}
	sum := 0.0
	for i := range v.GPUs[:v.Len] {
		g := &v.GPUs[i]
		if g.MIG == nil {
			continue
		}
		tables := m.tables[g.MIG]
		mask := g.Mask & (1<<g.MIG.Units - 1)
		free := float64(g.freeUnits())
		stranded, weight := 0.0, 0.0
		for j := range tables {
			if tables[j] == nil {
				continue
			}
			k := &m.kinds[j]
			weight += k.weight
			if k.cpu > v.CPUMilli || k.memory > int64(v.Memory) {
				stranded += float64(k.weight * free)
			} else {
				stranded += float64(k.weight * tables[j][mask])
			}
		}
		if weight > 0 {
			sum += stranded / weight * 1000 / float64(g.MIG.Units)
		}
	}
	return sum
}

// packMIG weighs a free unit of the chosen MIG GPU against a unit that
// the mix can't use. What BenchmarkMIGOnline accepts is flat between 0.15 and 0.3.
const packMIG = 0.2

// packing is the mild preference for full MIG GPUs.
func packing(o *Option) float64 {
	if o.Start < 0 || len(o.GPUs) == 0 {
		return 0
	}
	return packMIG * o.Before.GPUs[o.GPUs[0]].free()
}
