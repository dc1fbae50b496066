// SPDX-License-Identifier: Apache-2.0

package migtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// Seed chooses how the driver numbers instances, which differs from GPU to GPU.
	Seed   uint64
	Layout mig.Layout // the GPU's instances at first, busy ones marked
}

// Fault makes one call fail.
type Fault struct {
	Call int   // which call fails: 1 is the next one
	Err  error // the error of the failing call; nil means ErrInjected
	// After lets the call have its effect first.
	After bool
}

// ErrInjected is the error of a fault that names none.
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

// Model returns the GPU's model.
func (g *GPU) Model() *mig.Model { return g.model }

// Fail adds a fault. Faults count calls from now on.
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
// instance can't be created, the last one not destroyed, and the mode not changed.
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

// Use makes a client use the instance at a start until release. The error is mig.ErrNotFound where there is none.
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

// Leaks compares the GPU with the layout that a test was to leave: instances that should not be there, are
// missing, or have no compute instance. It is empty when all is well.
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
