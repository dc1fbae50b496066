// SPDX-License-Identifier: Apache-2.0

package migtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Options describe a simulated GPU. The zero value is the documented default.
type Options struct {
	UUID string // the GPU's; empty means "GPU-simulated-" and the model's key
	// Disabled starts the GPU with MIG mode off.
	Disabled bool
	// Seed selects the ids that the driver gives to instances, which differ from GPU to GPU.
	Seed   uint64
	Layout mig.Layout // the GPU's instances at first, busy ones marked
}

// Fault makes one call fail.
type Fault struct {
	Call int   // which call fails: 1 is the next one
	Err  error // the error of the failing call; nil means ErrInjected
	// After makes the call take effect before it fails.
	After bool
}

// ErrInjected is the error of a Fault without Err.
var ErrInjected = errors.New("migtest: injected failure")

// GPU is a simulated GPU. It implements mig.Device. It is safe for concurrent use.
type GPU struct {
	mu            sync.Mutex
	model         *mig.Model
	uuid          string
	mode, pending bool
	held          bool
	order         map[int][]int // of each size class, the driver's order of spans
	instances     []*instance
	faults        []Fault
	log           []string
	serial        int
	lock          chan struct{}
}

type instance struct {
	mig.DeviceInstance
	nextCompute int
}

var (
	_ mig.Device = (*GPU)(nil)
	_ mig.Locker = (*GPU)(nil)
)

// New returns a simulated GPU of a model. It fails when the model's placements
// are not known or the layout is not valid.
func New(m *mig.Model, opts Options) (*GPU, error) {
	if m == nil || !m.PlacementsKnown() {
		return nil, fmt.Errorf("migtest: %w of %s", mig.ErrPlacementsUnknown, m)
	}
	g := &GPU{model: m, uuid: cmp.Or(opts.UUID, "GPU-simulated-"+m.Key), mode: !opts.Disabled,
		pending: !opts.Disabled, order: map[int][]int{}, lock: make(chan struct{}, 1)}
	rng := rand.New(rand.NewPCG(opts.Seed, 0))
	for class := 1; class <= 8; class *= 2 {
		g.order[class] = rng.Perm(class)
	}
	if len(opts.Layout.Instances) == 0 {
		return g, nil
	}
	if opts.Disabled {
		return nil, errors.New("migtest: a GPU with MIG mode off holds no instances")
	}
	for _, in := range opts.Layout.Instances {
		if err := g.hold(in); err != nil {
			return nil, fmt.Errorf("migtest: %s: %w", in, err)
		}
	}
	return g, nil
}

func (g *GPU) hold(in mig.Instance) error {
	if in.Profile == nil {
		return errors.New("no profile")
	}
	d, err := g.create(in.Profile, in.Placement)
	if err != nil {
		return err
	}
	compute := in.Compute
	if compute == nil {
		compute = []int{in.Profile.ComputeSlices}
	}
	for _, c := range compute {
		best, ok := mig.BestComputeProfile(g.profilesOf(d), c)
		if !ok {
			return fmt.Errorf("no compute instance of %d slices", c)
		}
		if _, err := g.createCompute(d, best.ID); err != nil {
			return err
		}
	}
	d.Busy = in.Busy
	return nil
}

// Fail adds a fault. It counts the calls after this one.
func (g *GPU) Fail(f Fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = append(g.faults, f)
}

// Calls returns the calls that were made, in words, in order.
func (g *GPU) Calls() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.log)
}

// Lock implements mig.Locker among the callers of this GPU. It counts as no call.
func (g *GPU) Lock(ctx context.Context) (unlock func(), err error) {
	select {
	case g.lock <- struct{}{}:
		return func() { <-g.lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Hold lets a client hold the whole GPU, as a process that has its device node open does: until release, the first
// instance can't be created, the last one can't be destroyed, and the mode can't be changed.
func (g *GPU) Hold() (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = true
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.held = false
	}
}

// Use makes a client use the instance at a start until release. The error is mig.ErrNotFound if there is none.
func (g *GPU) Use(start int) (release func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.instances, func(d *instance) bool { return d.Start == start })
	if i < 0 {
		return nil, fmt.Errorf("migtest: %w: an instance at %d", mig.ErrNotFound, start)
	}
	d := g.instances[i]
	d.Busy = true
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		d.Busy = false
	}, nil
}

// Reset resets the GPU: a pending mode takes effect and all instances are gone. It fails while a client uses the GPU.
func (g *GPU) Reset() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held || slices.ContainsFunc(g.instances, func(d *instance) bool { return d.Busy }) {
		return fmt.Errorf("migtest: reset: %w", mig.ErrInUse)
	}
	g.mode, g.instances = g.pending, nil
	return nil
}

// Layout returns the GPU's instances. It counts as no call.
func (g *GPU) Layout() mig.Layout {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state().Layout()
}

// Leaks compares the GPU with the layout that a test should leave: it lists instances that are unexpected, missing or
// without compute instance. It is empty if there is no difference.
func (g *GPU) Leaks(want mig.Layout) []string {
	now := g.Layout()
	var out []string
	in := func(l mig.Layout, x mig.Instance) bool {
		return slices.ContainsFunc(l.Instances,
			func(y mig.Instance) bool { return x.Profile == y.Profile && x.Placement == y.Placement })
	}
	for _, x := range now.Instances {
		if x.Compute != nil && len(x.Compute) == 0 {
			out = append(out, x.String()+" has no compute instance")
		}
		if !in(want, x) {
			out = append(out, x.String()+" is left")
		}
	}
	for _, x := range want.Instances {
		if !in(now, x) {
			out = append(out, x.String()+" is missing")
		}
	}
	return out
}

func (g *GPU) state() mig.DeviceState {
	s := mig.DeviceState{UUID: g.uuid, Model: g.model, Mode: g.mode, Pending: g.pending,
		Resetless: sharing.AnswerOf(g.model.Resetless)}
	for _, d := range g.instances {
		c := d.DeviceInstance
		c.Compute = slices.Clone(c.Compute)
		s.Instances = append(s.Instances, c)
	}
	// The driver lists instances by id, and ids are not in the order of starts.
	slices.SortFunc(s.Instances, func(a, b mig.DeviceInstance) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

// call runs one call of the interface that returns something.
func call[T any](ctx context.Context, g *GPU, name string, get func() (T, error)) (v T, err error) {
	err = do(ctx, g, name, func() error {
		v, err = get()
		return err
	})
	if err != nil {
		var zero T
		v = zero
	}
	return v, err
}

// do runs one call of the interface under the lock, with faults.
func do(ctx context.Context, g *GPU, name string, effect func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	g.log = append(g.log, name)
	var fault *Fault
	for i := range g.faults {
		g.faults[i].Call--
	}
	if i := slices.IndexFunc(g.faults, func(f Fault) bool { return f.Call <= 0 }); i >= 0 {
		f := g.faults[i]
		fault, g.faults = &f, slices.Delete(g.faults, i, i+1)
	}
	if fault != nil && !fault.After {
		return cmp.Or(fault.Err, ErrInjected)
	}
	err := effect()
	if fault != nil && err == nil {
		return cmp.Or(fault.Err, ErrInjected)
	}
	return err
}

// create checks the rules on its own, apart from the planner's.
func (g *GPU) create(p *mig.Profile, at mig.Placement) (*instance, error) {
	if p == nil || p.Model() != g.model {
		return nil, fmt.Errorf("%w: %v is no profile of %s", mig.ErrNotSupported, p, g.model)
	}
	if !slices.Contains(p.Placements, at) {
		return nil, fmt.Errorf("%w: %s can't start at %s", mig.ErrInsufficient, p, at)
	}
	same, used := 1, engines(p.Engines)
	for _, d := range g.instances {
		if at.Start < d.End() && d.Start < at.End() {
			return nil, fmt.Errorf("%w: %s at %s is taken", mig.ErrInsufficient, p, at)
		}
		if d.Profile == p {
			same++
		}
		for e, n := range engines(d.Profile.Engines) {
			used[e].Value += n.Value
		}
	}
	if same > p.MaxInstances {
		return nil, fmt.Errorf("%w: at most %d of %s", mig.ErrInsufficient, p.MaxInstances, p)
	}
	for e, total := range engines(g.model.Engines) {
		if total.Known && used[e].Value > total.Value {
			return nil, fmt.Errorf("%w: engines", mig.ErrInsufficient)
		}
	}
	d := &instance{DeviceInstance: mig.DeviceInstance{ID: g.idOf(at), Profile: p, Placement: at}}
	g.instances = append(g.instances, d)
	return d, nil
}

func engines(e mig.Engines) []sharing.Cell[int] {
	return []sharing.Cell[int]{e.Copy, e.NVDEC, e.NVENC, e.JPEG, e.OFA}
}

// idOf numbers spans as the driver does: a class of ids for each size (whole 0, halves 1 and 2, quarters 3 to 6,
// eighths 7 to 14), in an order that differs from GPU to GPU.
func (g *GPU) idOf(at mig.Placement) int {
	class := 1
	for class*at.Size < g.model.Units && class < 8 {
		class *= 2
	}
	return class - 1 + g.order[class][at.Start/at.Size%class]
}

func (g *GPU) find(id int) (*instance, error) {
	for _, d := range g.instances {
		if d.ID == id {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%w: GPU instance %d", mig.ErrNotFound, id)
}

func (g *GPU) createCompute(d *instance, profile int) (mig.DeviceCompute, error) {
	profiles := g.profilesOf(d)
	i := slices.IndexFunc(profiles, func(p mig.ComputeProfile) bool { return p.ID == profile })
	if i < 0 {
		return mig.DeviceCompute{}, fmt.Errorf("%w: compute profile %d in %s", mig.ErrNotSupported, profile, d.Profile)
	}
	sum, slots := profiles[i].Slices, slotsOf(profiles[i].Slices)
	for _, c := range d.Compute {
		sum += c.Slices
		slots += slotsOf(c.Slices)
	}
	if sum > d.Profile.ComputeSlices || g.model.CIRule == "cts-aligned" && slots > slotsOf(d.Profile.ComputeSlices) ||
		g.model.CIRule == "single-CI" && len(d.Compute) > 0 {
		return mig.DeviceCompute{}, mig.ErrInsufficient
	}
	g.serial++
	c := mig.DeviceCompute{ID: d.nextCompute, Profile: profile, Slices: profiles[i].Slices,
		UUID: fmt.Sprintf("MIG-simulated-%s-%d", g.uuid, g.serial)}
	d.nextCompute++
	d.Compute = append(d.Compute, c)
	return c, nil
}

func (g *GPU) profilesOf(d *instance) []mig.ComputeProfile {
	slice := 0
	for _, p := range g.model.Profiles {
		if p.ComputeSlices == 1 && (slice == 0 || p.SMs.Value < slice) {
			slice = p.SMs.Value
		}
	}
	var out []mig.ComputeProfile
	for c := 1; c <= d.Profile.ComputeSlices; c++ {
		id, ok := computeIDs[c]
		if !ok || g.model.CIRule == "single-CI" && c < d.Profile.ComputeSlices {
			continue
		}
		sms := c * slice
		if c == d.Profile.ComputeSlices && d.Profile.DefaultCI.Value != rev1 {
			sms = d.Profile.SMs.Value
		}
		out = append(out, mig.ComputeProfile{ID: id, Slices: c, SMs: sms})
	}
	if d.Profile.DefaultCI.Value == rev1 {
		out = append(out, mig.ComputeProfile{ID: rev1, Slices: 1, SMs: d.Profile.SMs.Value})
	}
	return out
}

// slotsOf is the span of an aligned compute instance: the next power of two.
func slotsOf(slices int) int { return 1 << bits.Len(uint(slices-1)) }

// computeIDs are the NVML constants of compute-instance profiles by slices.
var computeIDs = map[int]int{1: 0, 2: 1, 3: 2, 4: 3, 7: 4}

const rev1 = 7 // the constant of the one-slice compute profile that has all SMs of a double-memory instance
