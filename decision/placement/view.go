// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math/bits"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// View is the free capacity of a node, for policies, which must not change it.
type View struct {
	CPUMilli int64
	Memory   sharing.Bytes
	Model    string // of its first GPU
	Len      int    // of GPUs
	GPUs     [MaxGPUs]GPUView
}

// GPUView is the free capacity of a GPU.
type GPUView struct {
	Mechanism sharing.Mechanism
	Tenants   int32
	// Milli is the free thousandths of compute neither booked nor expected to be used, or of memory if that is less.
	Milli  int32
	Memory sharing.Bytes // free memory; ignore it if Total is 0
	Total  sharing.Bytes // 0 = not known
	MIG    *mig.Model    // of a GPU in MIG mode
	Mask   uint32        // placement units that are taken, of a GPU in MIG mode

	idleMIG *mig.Model // the model to partition it by while it is idle; nil = never
}

// fill makes the view that of a node as it is.
func (v *View) fill(n *layout.Node) {
	v.CPUMilli, v.Memory, v.Len = n.Free().CPUMilli, n.Free().Memory, min(len(n.Devices), MaxGPUs)
	if v.Model = ""; v.Len > 0 && n.Devices[0].GPU != nil {
		v.Model = n.Devices[0].GPU.Name
	}
	for i := range v.GPUs[:v.Len] {
		v.GPUs[i].fill(&n.Devices[i])
	}
}

// ViewOf returns the free capacity of a node in the form for policies.
func ViewOf(n *layout.Node) (v View) {
	v.fill(n)
	return v
}

func (g *GPUView) fill(d *layout.Device) {
	f := d.Free()
	*g = GPUView{Mechanism: d.Mode, Tenants: f.Tenants, Milli: max(0, f.Compute-f.Busy), Memory: f.Memory}
	if d.GPU == nil {
		g.Milli = 0
		return
	}
	switch g.Total = d.GPU.Usable(); {
	case layout.Sliced(d.Mode):
		g.MIG, g.Milli = d.GPU.MIG, 1000
		if g.Mask = taken(d); g.MIG == nil {
			g.Milli = 0
		}
	case f.Faulty:
		g.Milli = 0
	case d.Mode == sharing.MechanismNone:
		g.idleMIG = partition(d)
		fallthrough
	default:
		g.bound()
	}
}

// bound lets memory bound the free thousandths.
func (g *GPUView) bound() {
	if g.Total > 0 && g.Memory < g.Total {
		g.Milli = min(g.Milli, int32(1000*max(0, g.Memory)/g.Total))
	}
}

// partition is the model by which a GPU is partitioned, or would be now; nil where it is not.
func partition(d *layout.Device) *mig.Model {
	if d.GPU != nil && (layout.Sliced(d.Mode) || d.Mode == sharing.MechanismNone && d.Dynamic) {
		return d.GPU.MIG
	}
	return nil
}

// taken has the placement units that no instance for one more tenant can have.
func taken(d *layout.Device) uint32 {
	if d.GPU.MIG == nil || d.Free().Faulty {
		return 1<<16 - 1
	}
	if d.Dynamic {
		free := d.Occupied()
		return free.Mask()
	}
	mask := uint32(1)<<d.GPU.MIG.Units - 1
	for i, in := range d.Instances {
		if d.Free().Full>>i&1 == 0 {
			mask &^= units(in.Profile, int(in.Start))
		}
	}
	return mask
}

// units are the placement units of an instance.
func units(p *mig.Profile, start int) uint32 { return (1<<p.PlacementUnits - 1) << start }

// freeMilli returns the free thousandths of all GPUs; a free unit of a MIG GPU counts as its part of 1000.
func (v *View) freeMilli() float64 {
	sum := 0.0
	for i := range v.GPUs[:v.Len] {
		sum += v.GPUs[i].free()
	}
	return sum
}

func (g *GPUView) free() float64 {
	if g.MIG == nil {
		return float64(g.Milli)
	}
	return 1000 / float64(g.MIG.Units) * float64(g.freeUnits())
}

func (g *GPUView) freeUnits() int {
	return max(0, g.MIG.Units-bits.OnesCount32(g.Mask&(1<<g.MIG.Units-1)))
}

// apply subtracts the share of a request from a GPU.
func (g *GPUView) apply(t *take, start int) {
	g.Tenants++
	if t.profile != nil {
		if g.MIG == nil {
			g.Mechanism, g.MIG, g.Milli, g.Mask = sharing.MechanismMIG, t.profile.Model(), 1000, 0
		}
		g.Mask |= units(t.profile, start)
		return
	}
	g.Mechanism = t.mechanism
	g.Milli = max(0, g.Milli-t.milli-t.busy)
	if g.Memory -= t.memory; t.mechanism == sharing.MechanismExclusive {
		g.Milli = 0
	}
	g.bound()
}

// take holds the resources that a request takes of one GPU.
type take struct {
	mechanism  sharing.Mechanism
	milli      int32
	busy, over int32         // thousandths that it is expected to use beyond milli; those that all use beyond the GPU's
	memory     sharing.Bytes // with the context of a process, where assignments do not hold it
	profile    *mig.Profile
	slowdown   float64 // the worst that is predicted for anyone; 0 = not predicted
	lost       float64 // thousandths of work that all on the GPU lose more than before
	unknown    int32   // tenants of which that is not predicted
}
