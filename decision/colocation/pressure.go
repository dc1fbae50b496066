package colocation

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/probe"
	"github.com/cotenant/cotenant/internal/webpage"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/sharing"
)

// loadPressure is the pressure of a load, alone on the GPU but for reporter and press.
type loadPressure struct {
	Load string `json:"load"`
	*profile.Pressure
}

// pressedOutput bounds the answers that a server gives beside the press, which may slow it by far: the drain would
// take long.
const pressedOutput = 16

// pressOn is the time for which a task beside a tenant goes on at a time, after its own, until the tenant has ended.
const pressOn = 300 * time.Millisecond

// press measures what a load that was run alone under MPS does to kernels beside it, and they to it. A failure is a
// note: the predictions then have only its activity.
func (f *planFlow) press(ctx context.Context, st *stand, solo *run) error {
	if st.pressed == nil || f.Spinner <= 0 {
		return nil
	}
	load := solo.loads[0]
	_, server := f.plan.serverFor(f.plan.Load(load))
	if len(st.strangers) > 0 {
		f.note("%s: not measured beside reporter and press, which would slow others: %s", load, st.strangers[0])
		return nil
	}
	f.say("%s: %s beside reporter and press, %v at most, in which a step may take %g times as long and more", solo.mode,
		load, probe.MostPressed, probe.MostSlower)
	n := 0
	play := func(ctx context.Context, d time.Duration) (time.Duration, error) {
		n++
		r := run{mode: solo.mode, name: fmt.Sprintf("pressure-%s-%d", load, n), loads: solo.loads, pressed: true}
		r.dir = filepath.Join(r.mode.String(), r.name)
		_, rows, err := f.play(ctx, st, &r, loadgen.Window{To: d}, nil)
		if err != nil {
			return 0, err
		}
		step, _ := stepOf(&rows[0])
		return milliseconds(step), nil
	}
	var p *profile.Pressure
	err := st.pressed(ctx, server, play, func(tenant probe.Pressed) (err error) {
		p, err = probe.MeasurePressure(ctx, tenant, func(what string) { f.say("%s: %s: %s", solo.mode, load, what) })
		return err
	})
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		f.note("%s: not all of its pressure was measured: %v", load, err)
	}
	if p == nil || len(p.Waits)+len(p.Presses) == 0 {
		return nil
	}
	solo.rows[0].Pressure = p
	f.pressures = append(f.pressures, loadPressure{load, p})
	return f.writeRows()
}

// stepOf is the median of a load's step, in milliseconds.
func stepOf(r *profile.Row) (float64, bool) {
	if r.Kind != profile.KindServer {
		return r.Step.P50.Get()
	}
	return r.ITL.P50.Get()
}

// pressing is a real tenant and the probe's processes beside it.
type pressing struct {
	run  func(context.Context, probe.Task) (probe.Reading, error)
	play func(context.Context, time.Duration) (time.Duration, error)
}

// Run implements probe.Pressed.
func (p *pressing) Run(ctx context.Context, t probe.Task, beside bool) (r probe.Reading, step time.Duration,
	err error) {
	switch {
	case !beside:
		r, err = p.run(ctx, t)
		return r, 0, err
	case t.Kind == probe.KindNone:
		step, err = p.play(ctx, t.For)
		return r, step, err
	}
	var failed error
	worked, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for r, failed = p.run(ctx, t); failed == nil; {
			select {
			case <-worked:
				return
			default:
			}
			on := t
			on.For = pressOn
			_, failed = p.run(ctx, on)
		}
	}()
	step, err = p.play(ctx, t.For)
	close(worked)
	<-ended
	if failed != nil {
		err = failed
	}
	return r, step, err
}

// Page shows what each load does to kernels beside it, and they to it: how long launches of the reporter wait, by their
// kernels' length, and the load's step by the length of the press's. It is for Write alone.
func (rep *Report) Page() *webpage.Page {
	page := &webpage.Page{Title: "Pressure under MPS", Answer: fmt.Sprintf("The pressure of %d loads was measured.",
		len(rep.Pressures))}
	if rep.Basis == sharing.BasisSimulated {
		page.Basis = "Simulated: no GPU was used."
	}
	for _, l := range rep.Pressures {
		series := func(names ...string) (out []webpage.Series) {
			for _, name := range names {
				out = append(out, webpage.Series{Name: name, Dots: true})
			}
			return out
		}
		waits := series("nobody beside", "one block", "a block on each SM", "each of a chain, wide")
		steps := series("nothing beside", "calculating, all SMs", "reading memory")
		put := func(s *webpage.Series, us, v float64) {
			s.Points = append(s.Points, webpage.Point{X: max(us, 1), Y: v, Low: v, High: v})
		}
		for _, w := range l.Waits {
			k := 1
			switch {
			case w.Kernels > 1:
				k = 3
			case w.Wide:
				k = 2
				put(&waits[0], w.KernelUS, w.AloneMeanUS)
			}
			put(&waits[k], w.KernelUS, w.BesideMeanUS/float64(w.Kernels))
		}
		for _, q := range l.Presses {
			k := 1
			if q.Reads {
				k = 2
			}
			put(&steps[k], q.KernelUS, q.StepMS)
			put(&steps[0], q.KernelUS, l.StepMS)
		}
		section := webpage.Section{Title: l.Load}
		for _, c := range []webpage.Chart{
			{Title: "Launches beside " + l.Load, X: webpage.Axis{Label: "length of the kernel launched (us)", Log: true},
				Y: webpage.Axis{Label: "mean time to its end (us)", Log: true}, Series: waits},
			{Title: "Step of " + l.Load + " beside kernels", X: webpage.Axis{Label: "length of the kernels back to back (us)",
				Log: true}, Y: webpage.Axis{Label: "median step (ms)", Log: true}, Series: steps},
		} {
			c.Series = slices.DeleteFunc(c.Series, func(s webpage.Series) bool { return len(s.Points) == 0 })
			if len(c.Series) > 0 {
				section.Charts = append(section.Charts, c)
			}
		}
		page.Sections = append(page.Sections, section)
	}
	return page
}

// pressures shows what the loads do to one another's kernels.
func (p printer) pressures(list []loadPressure) {
	if len(list) == 0 {
		return
	}
	p.line("Pressure under MPS, and sensitivity (microseconds)")
	p.table(func(row func(...string)) {
		row("load", "a launch waits", "a link of a chain waits", "kernels of a step that wait", "measured in")
		for _, l := range list {
			launch, chain, links := "-", "-", "-"
			for i := range l.Waits {
				if w := &l.Waits[i]; w.Kernels == 1 && !w.Wide {
					launch = short(w.LinkUS())
				}
			}
			if w := l.Chain(); w != nil {
				chain = short(w.LinkUS())
			}
			if len(l.Presses) > 0 {
				links = fmt.Sprintf("%.0f", l.Links())
			}
			row(l.Load, launch, chain, links, fmt.Sprintf("%.0f s", l.Seconds))
		}
	})
	p.line("")
}
