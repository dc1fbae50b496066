package probe

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/timeslice"
)

// turns holds the turns of several spinning processes while all of them ran.
type turns struct {
	tenants int
	on, off []time.Duration // of all of them, ascending
	probe   timeslice.ProbeRun
	lanes   [][]Interval // when each was on the GPU
}

// errNoTurns reports that processes that ran at once never took turns.
var errNoTurns = errors.New("the processes did not take turns: they ran one after another, or at the same time")

// turnsOf cuts spinning processes' gaps into turns on and off the GPU, from when
// the last began to when the first ended.
func turnsOf(readings []Reading) (*turns, error) {
	t := &turns{tenants: len(readings)}
	from, to := readings[0].Span.From, readings[0].Span.To
	for _, r := range readings {
		from, to = max(from, r.Span.From), min(to, r.Span.To)
	}
	for i, r := range readings {
		var on, off []time.Duration
		var lane []Interval
		for k, gap := range r.Off {
			if gap.From < from || gap.To > to {
				continue
			}
			off = append(off, gap.Length())
			if k > 0 && r.Off[k-1].From >= from {
				turn := Interval{r.Off[k-1].To, gap.From}
				on, lane = append(on, turn.Length()), append(lane, turn)
			}
		}
		if len(on) < 20 {
			return nil, fmt.Errorf("%w (process %d of %d was off the GPU %d times in %v)", errNoTurns, i+1, len(readings),
				len(off), to-from)
		}
		t.on, t.off, t.lanes = append(t.on, on...), append(t.off, off...), append(t.lanes, lane)
		t.probe.On, t.probe.Off = append(t.probe.On, median(on)), append(t.probe.Off, median(off))
	}
	slices.Sort(t.on)
	slices.Sort(t.off)
	return t, nil
}

func median(d []time.Duration) time.Duration {
	return stats.NearestRank(slices.Sorted(slices.Values(d)), .5)
}

// switches returns the cost of a context switch by each gap, which holds one slice
// of each other process and as many switches as there are processes.
func (t *turns) switches(quantum time.Duration) []time.Duration {
	out := make([]time.Duration, len(t.off))
	for i, off := range t.off {
		out[i] = (off - time.Duration(t.tenants-1)*quantum) / time.Duration(t.tenants)
	}
	return out
}

// handover holds the time lost around pieces of work that end before their slice does: in is from the neighbour's
// last stamp to the work's beginning, out from its end to the neighbour's next stamp.
type handover struct{ in, out []time.Duration }

// handoversOf finds the pulses that ran within one gap of a spinning neighbour.
func handoversOf(spin, pulse Reading) handover {
	var h handover
	k := 0
	for i, p := range pulse.Pulses {
		for k < len(spin.Off) && spin.Off[k].To < p.From {
			k++
		}
		if k == len(spin.Off) {
			break
		}
		gap := spin.Off[k]
		alone := (i == 0 || pulse.Pulses[i-1].To < gap.From) && (i+1 == len(pulse.Pulses) || pulse.Pulses[i+1].From > gap.To)
		if alone && gap.From <= p.From && p.To <= gap.To {
			h.in, h.out = append(h.in, p.From-gap.From), append(h.out, gap.To-p.To)
		}
	}
	slices.Sort(h.in)
	slices.Sort(h.out)
	return h
}

// away is the share of a lone spinning process's time in which it was off the
// GPU, and how often: somebody else had it.
func away(r Reading) (share float64, times int) {
	var sum time.Duration
	for _, gap := range r.Off {
		if gap.Length() > strangersGap {
			sum += gap.Length()
			times++
		}
	}
	if r.Span.Length() <= 0 {
		return 0, 0
	}
	return float64(sum) / float64(r.Span.Length()), times
}

// strangersGap is the shortest gap of a lone process that is taken for another
// process's work: two switches alone take 300 us.
const strangersGap = 100 * time.Microsecond
