package mig

import (
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/internal/enum"
)

// Policy chooses where an instance goes when several places are free. The zero
// value is PolicyFragmentation.
type PlacementPolicy uint8

// The policies.
const (
	// PolicyFragmentation takes the place where the units that the expected
	// demand can't use grow least, with a mild preference for full GPUs.
	PolicyFragmentation PlacementPolicy = iota
	// PolicyBestFit takes the GPU with the fewest free units, lowest start.
	PolicyBestFit
	// PolicyFirstFit takes the first GPU and the lowest start.
	PolicyFirstFit
)

var policyNames = enum.Of[PlacementPolicy](ErrInvalid, "placement policy", "fragmentation", "best-fit", "first-fit")

// String returns fragmentation, best-fit or first-fit.
func (p PlacementPolicy) String() string { return policyNames.String(p) }

// MarshalText returns the policy's text.
func (p PlacementPolicy) MarshalText() ([]byte, error) { return policyNames.Text(p) }

// UnmarshalText reads a policy's text.
func (p *PlacementPolicy) UnmarshalText(b []byte) error { return policyNames.Parse(p, b) }

// FleetOptions tune a Fleet. The zero value is the documented default.
type ClusterOptions struct {
	Policy PlacementPolicy
	// Mix is the expected demand: how often each profile is asked for,
	// relative to the others. It weighs fragmentation. Empty means every
	// profile without attributes alike.
	Mix []Count
}

// Fleet places instances on a number of GPUs of one model one at a time, as
// they come, without moving what is there. It is a plan in memory and touches
// no device. It is not safe for concurrent use.
type Cluster struct {
	model  *Model
	policy PlacementPolicy
	frag   []float64 // unusable units by mask
	gpus   []state
	layout []Layout
}

// spreadWeight is what a free unit of the chosen GPU counts against a unit that
// the demand can't use. Without it small instances spread over the fleet. Our
// experiment (see TestOnline) is flat between 0.15 and 0.3.
const spreadWeight = 0.2

// NewCluster returns a fleet of empty GPUs.
func NewCluster(m *Model, gpus int, opts ClusterOptions) (*Cluster, error) {
	if err := m.needGrid(); err != nil {
		return nil, err
	}
	if gpus < 1 || gpus > MaxCount {
		return nil, invalid(fmt.Errorf("a fleet of %d GPUs: use 1 to %d", gpus, MaxCount))
	}
	if _, err := policyNames.Text(opts.Policy); err != nil {
		return nil, err
	}
	weights, err := m.mix(opts.Mix)
	if err != nil {
		return nil, err
	}
	f := &Cluster{model: m, policy: opts.Policy, frag: m.fragmentation(weights), gpus: make([]state, gpus), layout: make([]Layout, gpus)}
	for i := range f.layout {
		f.layout[i].Model = m
	}
	return f, nil
}

// mix returns the weight of each profile, with sum 1.
func (m *Model) mix(counts []Count) ([maxProfiles]float64, error) {
	var w [maxProfiles]float64
	d, err := m.resolve(counts)
	if err != nil {
		return w, err
	}
	sum := 0.0
	for i, n := range d.instances() {
		w[i] = float64(n)
		sum += w[i]
	}
	if sum == 0 {
		for i, p := range m.Profiles {
			if len(p.parsed.Attributes) == 0 && len(p.parsed.Without) == 0 {
				w[i] = 1
				sum++
			}
		}
	}
	for i := range w {
		w[i] /= sum
	}
	return w, nil
}

// fragmentation returns, for each mask of taken units, the free units that a
// request drawn from the mix can't use, in expectation.
func (m *Model) fragmentation(weights [maxProfiles]float64) []float64 {
	g := m.grid
	frag := make([]float64, 1<<g.units)
	for mask := range frag {
		free := g.units - popcount(uint32(mask))
		for p, w := range weights {
			if w == 0 {
				continue
			}
			usable := 0
			for _, s := range g.of[p] {
				if g.slots[s].mask&uint32(mask) == 0 {
					usable += g.slots[s].Size
				}
			}
			frag[mask] += w * float64(free-min(usable, free))
		}
	}
	return frag
}

// Fragmentation returns how many free units a request drawn from the mix can't
// use, in expectation. An empty mix means every profile without attributes
// alike. The layout must be valid.
func (l Layout) Fragmentation(mix []Count) (float64, error) {
	if l.Model == nil {
		return 0, nil
	}
	st, err := l.Model.stateOf(l)
	if err != nil {
		return 0, err
	}
	w, err := l.Model.mix(mix)
	if err != nil {
		return 0, err
	}
	return l.Model.fragmentation(w)[st.mask], nil
}

// Len returns the number of GPUs.
func (f *Cluster) Len() int { return len(f.gpus) }

// Layout returns what stands on a GPU. The caller may keep it.
func (f *Cluster) Layout(gpu int) Layout {
	l := f.layout[gpu]
	l.Instances = slices.Clone(l.Instances)
	return l
}

// Set makes a GPU hold a layout, in place of what it held.
func (f *Cluster) Set(gpu int, l Layout) error {
	if gpu < 0 || gpu >= len(f.gpus) {
		return invalid(fmt.Errorf("the fleet has no GPU %d", gpu))
	}
	st, err := f.model.stateOf(l)
	if err != nil {
		return err
	}
	f.gpus[gpu] = st
	f.layout[gpu] = NewLayout(f.model, slices.Clone(l.Instances)...)
	return nil
}

// Place puts an instance of the profile on one of the GPUs and says where. ok
// is false, and nothing changes, when no GPU has room for it.
func (f *Cluster) Place(p *Profile) (gpu int, at Placement, ok bool, err error) {
	if p == nil || p.model != f.model {
		return 0, Placement{}, false, invalid(fmt.Errorf("%v is no profile of %s", p, f.model.Key))
	}
	gpu, s := f.choose(p.index)
	if gpu < 0 {
		return 0, Placement{}, false, nil
	}
	at = f.model.grid.slots[s].Placement
	f.add(gpu, Instance{Profile: p, Placement: at})
	return gpu, at, true, nil
}

func (f *Cluster) add(gpu int, in Instance) {
	f.model.grid.add(&f.gpus[gpu], f.model.grid.slotOf(in.Profile.index, in.Placement))
	f.layout[gpu].Instances = append(f.layout[gpu].Instances, in)
	f.layout[gpu].sort()
}

// take removes instance i of a GPU.
func (f *Cluster) take(gpu, i int) {
	l := &f.layout[gpu]
	in := l.Instances[i]
	f.model.grid.remove(&f.gpus[gpu], f.model.grid.slotOf(in.Profile.index, in.Placement))
	l.Instances = slices.Delete(l.Instances, i, i+1)
}

// choose returns the GPU and slot for a profile, or -1. Ties go to the GPU with
// fewer free units, then the lower index, then the lower start.
func (f *Cluster) choose(p int) (gpu, slot int) {
	g := f.model.grid
	gpu = -1
	best, bestFree := 0.0, 0
	for i := range f.gpus {
		st := &f.gpus[i]
		free := g.units - popcount(st.mask)
		for _, s := range g.of[p] {
			if !g.fits(st, s) {
				continue
			}
			score := 0.0
			switch f.policy {
			case PolicyFirstFit:
				return i, s
			case PolicyBestFit:
				score = float64(free)
			default:
				score = f.frag[st.mask|g.slots[s].mask] - f.frag[st.mask] + spreadWeight*float64(free)
			}
			if gpu < 0 || score < best-1e-12 || score <= best+1e-12 && free < bestFree {
				gpu, slot, best, bestFree = i, s, score, free
			}
		}
	}
	return gpu, slot
}

// Release removes the instance of a profile that starts at start from a GPU.
func (f *Cluster) Release(gpu, start int) error {
	if gpu < 0 || gpu >= len(f.gpus) {
		return invalid(fmt.Errorf("the fleet has no GPU %d", gpu))
	}
	i := slices.IndexFunc(f.layout[gpu].Instances, func(in Instance) bool { return in.Start == start })
	if i < 0 {
		return invalid(fmt.Errorf("GPU %d has no instance at %d", gpu, start))
	}
	f.take(gpu, i)
	return nil
}
