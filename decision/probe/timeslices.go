// SPDX-License-Identifier: Apache-2.0

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

// timeSlices holds the time slices of several spinning processes while all of them ran.
type timeSlices struct {
	tenants int
	on, off []time.Duration // of all of them, ascending
	probe   timeslice.ProbeRun
}

// errNoSlices reports that processes that ran at once did not alternate.
var errNoSlices = errors.New("the processes did not alternate in time slices: they ran one after another, or together")

// timeSlicesOf cuts the recordings of spinning processes into times on and off the GPU, from when the last began to
// when the first ended.
func timeSlicesOf(readings []Reading) (*timeSlices, error) {
	t := &timeSlices{tenants: len(readings)}
	from, to := readings[0].Span.From, readings[0].Span.To
	for _, r := range readings {
		from, to = max(from, r.Span.From), min(to, r.Span.To)
	}
	for i, r := range readings {
		var on, off []time.Duration
		for k, gap := range r.Off {
			if gap.From < from || gap.To > to {
				continue
			}
			off = append(off, gap.length())
			if k > 0 && r.Off[k-1].From >= from {
				on = append(on, gap.From-r.Off[k-1].To)
			}
		}
		if len(on) < 20 {
			return nil, fmt.Errorf("%w (process %d of %d was off the GPU %d times in %v)", errNoSlices, i+1, len(readings),
				len(off), to-from)
		}
		t.on, t.off = append(t.on, on...), append(t.off, off...)
		t.probe.On, t.probe.Off = append(t.probe.On, middle(on)), append(t.probe.Off, middle(off))
	}
	slices.Sort(t.on)
	slices.Sort(t.off)
	return t, nil
}

// switches returns the cost of a context switch by each gap, which holds one slice
// of each other process and as many switches as there are processes.
func (t *timeSlices) switches(quantum time.Duration) []time.Duration {
	out := make([]time.Duration, len(t.off))
	for i, off := range t.off {
		out[i] = (off - time.Duration(t.tenants-1)*quantum) / time.Duration(t.tenants)
	}
	return out
}

// timeSlices runs 2 and 4 spinning processes at once, and measures how long each is on the GPU and off it.
func (r *run) timeSlices(ctx context.Context) error {
	if err := r.checkOthers(ctx, sharing.MechanismTimeSlicing); err != nil {
		return err
	}
	if r.Info.Exclusive {
		return errors.New("the GPU's compute mode admits one process only, so processes never share it")
	}
	var runs []timeslice.ProbeRun
	var on []time.Duration
	var seen []*timeSlices
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
		t, err := timeSlicesOf(readings)
		if err != nil {
			return err
		}
		runs, on, seen = append(runs, t.probe), append(on, t.on...), append(seen, t)
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
	r.measure(quantumKey, "ms", millis(c.Scheduler.Quantum), on, millis, "time on the GPU of "+spinning)
	var switches []time.Duration
	for _, t := range seen {
		switches = append(switches, t.switches(c.Scheduler.Quantum)...)
	}
	r.measure(switchKey, "ms", millis(c.Scheduler.Switch), switches, millis,
		"time off the GPU of "+spinning+", beyond the others' slices")
	return nil
}

// scheduler returns the quantum and the switch that timeSlices measured, in ms.
func (r *run) scheduler() (quantum, change float64, err error) {
	q, ok1 := r.Get(quantumKey)
	s, ok2 := r.Get(switchKey)
	if !ok1 || !ok2 {
		err = errors.New("quantum and switch were not measured")
	}
	return q.Value, s.Value, err
}

// resumed measures the time that each time slice loses to resuming: work that reads memory goes on over many slices,
// next to a process that spins.
func (r *run) resumed(ctx context.Context) error {
	quantum, change, err := r.scheduler()
	if err != nil {
		return err
	}
	long := reads(0) // one step gives its isolated time
	long.Kernels = resumedKernels
	isolated, err := r.site.Run(ctx, sharing.MechanismTimeSlicing, long)
	if err != nil {
		return err
	}
	step := middle(isolated[0].Steps)
	coLocated := long
	coLocated.Delay, coLocated.For = 50*time.Millisecond, resumedFor
	round := 2 * (quantum + change)
	// The stream task warms up with two steps before those that count: hence three.
	spin := time.Duration(float64(3*step)*round/quantum) + coLocated.For + 500*time.Millisecond
	readings, err := r.site.Run(ctx, sharing.MechanismTimeSlicing, Task{Kind: KindSpin, For: spin}, coLocated)
	if err != nil {
		return err
	}
	// One step ends at some point of a round, many in a row at one only: their mean.
	loss := func(d time.Duration) float64 { return quantum - round*float64(step)/float64(d) }
	r.measure(sliceLoss, "ms", loss(mean(readings[1].Steps)), readings[1].Steps, loss,
		fmt.Sprintf("%v of reading memory, again and again next to a spinning process", step.Round(time.Millisecond)))
	return nil
}

// resumedKernels of the reading steps take some 100 ms isolated on a large GPU.
const (
	resumedKernels = 1000
	resumedFor     = 800 * time.Millisecond
)
