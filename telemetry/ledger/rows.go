package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/telemetry/container"
)

// Rows returns the rows there are, in the order of their keys.
func (l *Ledger) Rows() []Row {
	out := make([]Row, 0, len(l.rows))
	for _, k := range slices.SortedFunc(maps.Keys(l.rows), compareKeys) {
		out = append(out, Row{k, l.rows[k].Amount})
	}
	return out
}

// Totals returns the totals, in the order of their keys.
func (l *Ledger) Totals() []Total {
	out := make([]Total, 0, len(l.totals))
	for k, t := range l.totals {
		out = append(out, Total{k, t.Amount})
	}
	slices.SortFunc(out, func(a, b Total) int { return a.TotalKey.Compare(b.TotalKey) })
	return out
}

// Compare orders keys by GPU, account and namespace.
func (a TotalKey) Compare(b TotalKey) int {
	return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Namespace, b.Namespace))
}

// GPUs returns the time that each GPU was observed, which its totals add up to.
func (l *Ledger) GPUs() map[string]time.Duration {
	out := make(map[string]time.Duration, len(l.gpus))
	for name, g := range l.gpus {
		out[name] = g.Observed
	}
	return out
}

// Expire ends the rows of pods that were not posted to for as long as Options.Retain says, in time of their GPU,
// and returns their keys. The totals keep what they had.
func (l *Ledger) Expire() []Key {
	var out []Key
	for k, r := range l.rows {
		if g := l.gpus[k.GPU]; k.Pod != (container.Pod{}) && g.Observed-r.Last >= l.opts.Retain {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, compareKeys)
	for _, k := range out {
		// The fraction of a millionth that the row was owed stays the GPU's.
		l.gpus[k.GPU].dirty = true
		delete(l.rows, k)
		if l.pods[k.Pod]--; l.pods[k.Pod] == 0 {
			delete(l.pods, k.Pod)
		}
		l.gone = append(l.gone, rowName(k))
	}
	return out
}

// perTotal returns the sums of the rows that there are.
func (l *Ledger) perTotal() map[TotalKey]Amount {
	sums := map[TotalKey]Amount{}
	for k, r := range l.rows {
		t := TotalKey{k.GPU, k.Account, k.Namespace}
		a := sums[t]
		a.add(r.Amount)
		sums[t] = a
	}
	return sums
}

// audit holds the books against each other.
func (l *Ledger) audit() error {
	var probs problem.List
	sums := map[string]Amount{}
	for k, t := range l.totals {
		a := sums[k.GPU]
		a.add(t.Amount)
		sums[k.GPU] = a
		probs.If(l.gpus[k.GPU] == nil, k.GPU, "", "totals of a GPU that has no record")
	}
	for name, g := range l.gpus {
		probs.If(sums[name].Time != g.Observed, name, "", "its totals come to %v, it was observed for %v", sums[name].Time,
			g.Observed)
	}
	for k, a := range l.perTotal() {
		t := l.totals[k]
		probs.If(t == nil || a.Time > t.Time || a.Micros > t.Micros || a.Microjoules > t.Microjoules, k.GPU, "",
			"the rows of %v of namespace %q are more than their total", k.Account, problem.Clip(k.Namespace))
	}
	if err := probs.Err(); err != nil {
		return fmt.Errorf("%w: the records contradict each other: %w", ErrInput, err)
	}
	return nil
}
