package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/mig/mignvml"
	"github.com/cotenant/cotenant/mig/migtest"
)

// target are the flags that plan and apply share.
type target struct {
	gpu, have, want, device, svg    string
	allowBusy, real, dryRun, asJSON bool
}

func (t *target) register(fs *flags) {
	fs.StringVar(&t.gpu, "gpu", "", "`GPU` to plan for (not with -real)")
	fs.StringVar(&t.have, "have", "", "`LAYOUT` that is there, such as 3g.40gb@0,1g.10gb@4!busy; empty means an empty GPU (not with -real)")
	fs.StringVar(&t.want, "want", "", "`COUNTS` that are wanted, such as 2g.20gb=2,3g.40gb; with -real the balanced mix where it is left out")
	fs.BoolVar(&t.allowBusy, "allow-busy", false, "plan to destroy instances that are in use, as few as possible; a driver still refuses while their clients run")
	fs.BoolVar(&t.real, "real", false, "use a real GPU through NVML")
	fs.StringVar(&t.device, "device", "", "`UUID`, PCI bus id or index of the real GPU; the first one where it is left out")
	fs.BoolVar(&t.dryRun, "dry-run", false, "change nothing")
	fs.BoolVar(&t.asJSON, "json", false, "print JSON")
	fs.StringVar(&t.svg, "svg", "", "write a drawing of before and after to this `FILE`")
}

// resolved is what a target means: a device, and what is to become of it.
type resolved struct {
	device mig.Device
	model  *mig.Model
	have   mig.Layout
	want   []mig.Count
	off    bool // MIG mode is not on
	close  func() error
}

func (t *target) resolve(ctx context.Context, args []string, fs *flags, c *console) (*resolved, error) {
	t.register(fs)
	if _, err := fs.parse(args, 0); err != nil {
		return nil, err
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	want, err := mig.ParseCounts(t.want)
	if err != nil {
		return nil, fmt.Errorf("-want: %w", err)
	}
	if t.real {
		if given["gpu"] || given["have"] {
			return nil, errors.New("-gpu and -have describe a simulated GPU: leave them out with -real")
		}
		return t.open(ctx, want, given["want"], c)
	}
	if given["device"] {
		return nil, errors.New("-device names a real GPU: add -real")
	}
	if !given["want"] {
		return nil, errors.New("say what is wanted, for example -want 2g.20gb=2,3g.40gb (-want '' empties the GPU)")
	}
	m, err := lookup(t.gpu)
	if err != nil {
		return nil, err
	}
	r := &resolved{model: m, want: want, close: func() error { return nil }}
	if r.have, err = m.ParseLayout(t.have); err != nil {
		return nil, fmt.Errorf("-have: %w", err)
	}
	if m.PlacementsKnown() {
		if r.device, err = migtest.New(m, migtest.Options{Layout: r.have}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (t *target) open(ctx context.Context, want []mig.Count, given bool, c *console) (*resolved, error) {
	driver, err := mignvml.Open()
	if err != nil {
		return nil, &deviceError{err}
	}
	r, err := t.openDevice(ctx, driver, want, given, c)
	if err != nil {
		return nil, errors.Join(err, driver.Close())
	}
	r.close = driver.Close
	return r, nil
}

func (t *target) openDevice(ctx context.Context, driver *mignvml.Driver, want []mig.Count, given bool, c *console) (*resolved, error) {
	var gpu *mignvml.Device
	var err error
	if t.device != "" {
		gpu, err = driver.Device(ctx, t.device)
	} else {
		var all []*mignvml.Device
		if all, err = driver.Devices(ctx); err == nil && len(all) == 0 {
			err = errors.New("no GPU of this machine can do MIG")
		} else if err == nil {
			gpu = all[0]
		}
	}
	if err != nil {
		return nil, &deviceError{err}
	}
	state, err := gpu.State(ctx)
	if err != nil {
		return nil, &deviceError{err}
	}
	if !given {
		if want, err = gpu.Model().Balanced(); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(c.err, "%s %s (%s): MIG %s, holds [%s]\n", gpu.Name(), gpu.UUID(), gpu.Model().Key, state.Mode, state.Layout())
	return &resolved{device: gpu, model: gpu.Model(), have: state.Layout(), want: want, off: state.Mode == mig.ModeDisabled}, nil
}

type planJSON struct {
	Feasible      bool           `json:"feasible"`
	Keep          []mig.Instance `json:"keep"`
	Destroy       []mig.Instance `json:"destroy"`
	Create        []mig.Instance `json:"create"`
	Complete      []mig.Instance `json:"complete"` // they get the compute instances that they lack
	BusyDestroyed int            `json:"busy_destroyed"`
	Reason        string         `json:"reason,omitempty"`
}

// diff plans; an answer of no is a reason, other errors are errors.
func (t *target) diff(r *resolved) (p mig.ChangePlan, reason string, err error) {
	p, err = mig.Diff(r.model, r.have, r.want, mig.DiffOptions{AllowBusy: t.allowBusy})
	var busy *mig.BusyError
	switch {
	case errors.As(err, &busy):
		return busy.Plan, err.Error(), nil
	case errors.Is(err, mig.ErrInfeasible):
		return mig.ChangePlan{}, err.Error(), nil
	}
	return p, "", err
}

func plan(ctx context.Context, args []string, c *console) (err error) {
	var t target
	r, err := t.resolve(ctx, args, c.flags("plan", "says what has to change on a GPU, and changes nothing"), c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	p, reason, err := t.diff(r)
	if err != nil {
		return err
	}
	if t.svg != "" {
		if err := writeSVG(t.svg, []mig.Layout{{Model: r.model, Instances: r.have.Instances}, p.Want}, []string{"before", "after"}); err != nil {
			return err
		}
	}
	if t.asJSON {
		err = c.json(planJSON{reason == "", list(p.Keep), list(p.Destroy), list(p.Create), list(p.Complete), p.BusyDestroyed, reason})
	} else {
		c.plan(r, p, reason)
	}
	if err == nil && reason != "" {
		return errInfeasible
	}
	return err
}

func (c *console) plan(r *resolved, p mig.ChangePlan, reason string) {
	fmt.Fprintf(c.out, "before %s\n", mig.Layout{Model: r.model, Instances: r.have.Instances}.Bar())
	if reason != "" {
		fmt.Fprint(c.out, page.Fold("no: "+reason+"\n"))
		return
	}
	fmt.Fprintf(c.out, "after  %s\n", p.Want.Bar())
	if len(p.Steps) == 0 {
		fmt.Fprintln(c.out, "nothing to do")
	}
	for i, s := range p.Steps {
		fmt.Fprintf(c.out, "%3d. %s\n", i+1, s)
	}
	if r.off && len(p.Create) > 0 {
		fmt.Fprintln(c.out, "Before that MIG mode is switched on: no client may hold the GPU then.")
	}
	if p.Empties {
		fmt.Fprintln(c.out, "The GPU is empty on the way: no client may hold it then.")
	}
}

// apply prints each step as it ends, or with -json the journal. Ctrl-C stops
// between steps and undoes what was done.
func apply(ctx context.Context, args []string, c *console) (err error) {
	var t target
	r, err := t.resolve(ctx, args, c.flags("apply", "changes a GPU, simulated unless -real, and prints each step; with -json the journal, an entry a line"), c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	p, reason, err := t.diff(r)
	if err != nil {
		return err
	}
	if reason != "" {
		return &deviceError{errors.New(reason)}
	}
	journal, out := c.step, c.out
	if t.asJSON {
		enc := json.NewEncoder(c.out)
		journal, out = func(e mig.JournalEntry) error { return enc.Encode(e) }, c.err
	}
	report, err := mig.Apply(ctx, r.device, p, mig.ApplyOptions{DryRun: t.dryRun, Journal: journal})
	if err != nil {
		return &deviceError{err}
	}
	if !t.real {
		fmt.Fprint(out, "simulated: ")
	}
	verb := "now holds"
	if t.dryRun {
		verb = "would hold"
	}
	fmt.Fprintf(out, "%s %s [%s]\n", report.Device, verb, report.After)
	return nil
}

// step prints a journal entry for people, once the step has ended.
func (c *console) step(e mig.JournalEntry) error {
	if e.Status == "started" {
		return nil
	}
	if mode, ok := e.Mode.Get(); ok {
		e.Action, e.Instance = "set MIG", mode.String()
	}
	undo, more := "", ""
	if e.Undo {
		undo = "undo: "
	}
	if id, ok := e.ID.Get(); ok {
		more = fmt.Sprintf(" (GPU instance %d)", id)
	}
	if e.Error != "" {
		more += ": " + e.Error
	}
	_, err := io.WriteString(c.out, page.Fold(fmt.Sprintf("%s%s %s: %s%s\n", undo, e.Action, e.Instance, e.Status, more)))
	return err
}
