// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// Simulated returns a simulated GPU that can be probed: processes take time slices by a scheduler, the zero one being
// that of an H200, and are isolated under MPS. Use it to try out a probe; its figures are simulated.
func Simulated(s timeslice.Scheduler) Site {
	if s == (timeslice.Scheduler{}) {
		s = timeslice.H200()
	}
	return simulated{s}
}

type simulated struct{ scheduler timeslice.Scheduler }

const (
	simulatedSMs       = 132
	simulatedBandwidth = 3000.0 // GB/s
	simulatedExchange  = 15 * time.Microsecond
)

func (s simulated) Basis() sharing.Basis { return sharing.BasisSimulated }

func (s simulated) Info(context.Context) (Info, error) {
	return Info{GPU: "simulated GPU", SMs: simulatedSMs, Memory: 80 * sharing.GiB, Free: 79 * sharing.GiB}, nil
}

func (s simulated) Run(ctx context.Context, m sharing.Mechanism, tasks ...Task) ([]Reading, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if tasks[0].Kind == KindSpin {
		return s.takeSlices(ctx, tasks)
	}
	out := make([]Reading, len(tasks))
	for i, t := range tasks {
		step := s.step(m, t)
		for range max(5, int(t.For/step)) {
			out[i].Steps = append(out[i].Steps, step)
		}
		out[i].Bytes = t.Bytes * int64(max(1, t.Kernels))
	}
	return out, nil
}

// step returns the time of a step of an isolated task.
func (s simulated) step(m sharing.Mechanism, t Task) time.Duration {
	step := time.Duration(max(1, t.Kernels)) * t.kernel()
	if t.Exchange {
		step += simulatedExchange
		if m == sharing.MechanismMPS {
			step += simulatedExchange
		}
	}
	return step
}

// kernel returns the time of one kernel of an isolated task.
func (t Task) kernel() time.Duration {
	if t.Kind == KindStream {
		return time.Duration(float64(t.Bytes) / simulatedBandwidth)
	}
	return t.Kernel
}

// takeSlices runs spinning tasks, and a reading one next to them, on a time-sliced GPU.
func (s simulated) takeSlices(ctx context.Context, tasks []Task) ([]Reading, error) {
	engine := timeslice.Engine{Scheduler: s.scheduler, Until: time.Nanosecond}
	on := make([][]Interval, len(tasks))
	submitters := make([]*submitter, len(tasks))
	for i, t := range tasks {
		submitters[i] = &submitter{task: t, length: s.step(sharing.MechanismTimeSlicing, t)}
		engine.Tenants = append(engine.Tenants, submitters[i])
		engine.Until = max(engine.Until, t.Delay+t.For)
	}
	engine.Observe = func(slice timeslice.Slice) {
		timeline := on[slice.Tenant]
		if n := len(timeline); n > 0 && timeline[n-1].To == slice.From && tasks[slice.Tenant].Kind == KindSpin {
			timeline[n-1].To = slice.To
			return
		}
		on[slice.Tenant] = append(timeline, Interval{slice.From, slice.To})
	}
	if err := engine.Run(ctx); err != nil {
		return nil, err
	}
	out := make([]Reading, len(tasks))
	for i, t := range tasks {
		timeline := on[i]
		switch {
		case len(timeline) == 0:
			return nil, errors.New("a simulated process never had a time slice")
		case t.Kind == KindStream:
			out[i].Steps = submitters[i].steps
			continue
		}
		out[i].Span = Interval{timeline[0].From, timeline[len(timeline)-1].To}
		for k := range timeline[1:] {
			out[i].Off = append(out[i].Off, Interval{timeline[k].To, timeline[k+1].From})
		}
	}
	return out, nil
}

// submitter submits a task's work.
type submitter struct {
	task   Task
	length time.Duration // of a piece of work
	begun  bool
	last   time.Duration   // when the last one was submitted
	steps  []time.Duration // that ended
}

// Next implements timeslice.Submitter.
func (p *submitter) Next(now time.Duration) (timeslice.Work, bool) {
	t := &p.task
	at, length := max(now, t.Delay), p.length
	if t.Kind == KindSpin {
		length = 100 * time.Microsecond // it reads the clock all the time
	}
	first := !p.begun
	if p.begun {
		p.steps = append(p.steps, now-p.last)
		at += t.Pause
	}
	p.last, p.begun = at, true
	return timeslice.Work{At: at, GPU: length}, first || at < t.Delay+t.For
}
