package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// turns has 2 and 4 processes spin at once: how long each has the GPU, and how long it is off it.
func (r *run) turns(ctx context.Context) error {
	if r.Info.Exclusive {
		return errors.New("the GPU's compute mode admits one process only, so processes never take turns on it")
	}
	if err := r.lookAround(ctx, sharing.MechanismTimeSlicing); err != nil {
		return err
	}
	var runs []timeslice.ProbeRun
	var on []time.Duration
	var seen []*turns
	for _, n := range []int{2, 4} {
		d := time.Duration(n) * 600 * time.Millisecond
		readings, err := r.site.Run(ctx, sharing.MechanismTimeSlicing, slices.Repeat([]Task{{Kind: KindSpin, For: d}}, n)...)
		if err != nil && len(runs) > 0 && ctx.Err() == nil {
			r.Warnings = append(r.Warnings, fmt.Sprintf("quantum and switch are those of fewer processes: %d at once: %s", n,
				reasons(err)))
			break
		}
		if err != nil {
			return fmt.Errorf("%d processes at once: %w", n, err)
		}
		t, err := turnsOf(readings)
		if err != nil {
			return err
		}
		runs, on, seen = append(runs, t.probe), append(on, t.on...), append(seen, t)
		r.lanes(t)
	}
	c, err := timeslice.CalibrateProbe(runs...)
	if err != nil {
		return err
	}
	if c.WorstErrorFraction > suspiciousMisfit {
		return fmt.Errorf("%w, as it seems: 2 and 4 processes do not give the same quantum and switch (they differ by "+
			"%.0f%%)", ErrStranger, 100*c.WorstErrorFraction)
	}
	spinning := "2 spinning processes"
	if len(runs) > 1 {
		spinning = "2 and 4 spinning processes"
	}
	r.measureAs(Quantum, "ms", millis(c.Scheduler.Quantum), on, millis, "time on the GPU of "+spinning)
	var switches []time.Duration
	for _, t := range seen {
		switches = append(switches, t.switches(c.Scheduler.Quantum)...)
	}
	r.measureAs(Switch, "ms", millis(c.Scheduler.Switch), switches, millis,
		"time off the GPU of "+spinning+", beyond the others' slices")
	return nil
}

// shownLanes bounds the turns that a result keeps for drawing.
const shownLanes = 40 * time.Millisecond

func (r *run) lanes(t *turns) {
	var first time.Duration
	for i, lane := range t.lanes {
		if i == 0 || lane[0].From < first {
			first = lane[0].From
		}
	}
	for i, lane := range t.lanes {
		l := Lane{Processes: t.tenants, Process: i + 1}
		for _, on := range lane {
			if on.From-first > shownLanes {
				break
			}
			l.On = append(l.On, [2]float64{millis(on.From - first), millis(on.To - first)})
		}
		r.Lanes = append(r.Lanes, l)
	}
}

// resumed has work that reads memory go on over many slices, beside a process
// that spins: what its slices get less done than their length is lost to it.
func (r *run) resumed(ctx context.Context) error {
	quantum, ok1 := r.Get(Quantum)
	change, ok2 := r.Get(Switch)
	if !ok1 || !ok2 {
		return errors.New("quantum and switch were not measured")
	}
	long := reads(0) // one step tells what it takes alone
	long.Kernels = resumedKernels
	alone, err := r.site.Run(ctx, sharing.MechanismTimeSlicing, long)
	if err != nil {
		return err
	}
	lone := middle(alone[0].Steps)
	beside := long
	beside.Delay, beside.For = 50*time.Millisecond, resumedFor
	round := 2 * (quantum.Value + change.Value)
	// The stream task warms up with two steps before those that count: hence three.
	spin := time.Duration(float64(3*lone)*round/quantum.Value) + beside.For + 500*time.Millisecond
	readings, err := r.site.Run(ctx, sharing.MechanismTimeSlicing, Task{Kind: KindSpin, For: spin}, beside)
	if err != nil {
		return err
	}
	// One step ends at some point of a round, many in a row at one only: their mean.
	loss := func(d time.Duration) float64 { return quantum.Value - round*float64(lone)/float64(d) }
	r.measureAs(SliceLoss, "ms", loss(mean(readings[1].Steps)), readings[1].Steps, loss,
		fmt.Sprintf("%v of reading memory, again and again beside a spinning process", lone.Round(time.Millisecond)))
	return nil
}

// resumedKernels of the reading steps take some 100 ms alone on a large GPU.
const (
	resumedKernels = 1000
	resumedFor     = 800 * time.Millisecond
)

// early has work end within its slice, beside a process that spins.
func (r *run) early(ctx context.Context) error {
	quantum, ok1 := r.Get(Quantum)
	change, ok2 := r.Get(Switch)
	if !ok1 || !ok2 {
		return errors.New("quantum and switch were not measured")
	}
	var lost []time.Duration
	for _, part := range []float64{0.1, 0.3, 0.6} {
		pulse := time.Duration(part * quantum.Value * float64(time.Millisecond))
		readings, err := r.site.Run(ctx, sharing.MechanismTimeSlicing,
			Task{Kind: KindSpin, For: 700 * time.Millisecond}, Task{Kind: KindPulse, Kernel: pulse, Pause: time.Millisecond,
				Delay: 50 * time.Millisecond, For: 600 * time.Millisecond})
		if err != nil {
			return err
		}
		h := handoversOf(readings[0], readings[1])
		for i := range h.in {
			lost = append(lost, h.in[i]+h.out[i]-time.Duration(2*change.Value*float64(time.Millisecond)))
		}
	}
	if len(lost) < 20 {
		return fmt.Errorf("only %d pieces of work ran within one slice", len(lost))
	}
	slices.Sort(lost)
	r.measure(EarlyEnd, "ms", lost, millis, "work of a tenth, a third and two thirds of a slice, beside a spinning "+
		"process")
	return nil
}
