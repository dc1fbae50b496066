package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// ErrInput says that a posting or a record cannot be.
var ErrInput = errors.New("ledger: bad input")

// Optional holds a value that may be missing, as the zero one's is: if v, ok := o.Get(); ok { use(v) } or use(o.Or(0)).
// IsZero reports a missing value, Equal compares two; String writes "-" for it, JSON null, or omitzero nothing.
type Optional[T any] = optional.Value[T]

// Some returns an Optional that holds v.
func Some[T any](v T) Optional[T] { return optional.Of(v) }

// Account says what a GPU's time went to. The zero Account is AccountUnattributed.
type Account uint8

// The accounts.
const (
	// AccountUnattributed is time that cannot be told: nobody looked, or what used the GPU belongs to no pod.
	AccountUnattributed Account = iota
	// AccountTenant is time in which a tenant's kernels ran.
	AccountTenant
	// AccountIdle is idle time without a holder.
	AccountIdle
	// AccountHeldIdle is idle time of what a pod was given, without a program of it that keeps the power up.
	AccountHeldIdle
	// AccountExecutionIdle is the same with a program of it resident that keeps the GPU's power above deep idle.
	AccountExecutionIdle
	// AccountOverhead is the cost of sharing itself: switching between contexts, what the MPS server takes for itself.
	AccountOverhead
)

var accountNames = enum.Of[Account](ErrInput, "account", "unattributed", "tenant", "idle", "held-idle",
	"execution-idle", "overhead")

// Key names a row: whose time on which GPU, by which mechanism, and what saying so rests on.
type Key struct {
	GPU           string            `json:"gpu"`
	Account       Account           `json:"account"`
	container.Pod                   // zero for what is no pod's
	Mechanism     sharing.Mechanism `json:"mechanism"`
	Basis         sharing.Basis     `json:"basis"`
}

// TotalKey names a total.
type TotalKey struct {
	GPU       string  `json:"gpu"`
	Account   Account `json:"account"`
	Namespace string  `json:"namespace"`
}

// Amount is the balance of an account. It only ever grows.
type Amount struct {
	Time time.Duration `json:"ns"`
	// Low and High are the bounds of Time.
	Low         time.Duration `json:"low_ns"`
	High        time.Duration `json:"high_ns"`
	Microjoules int64         `json:"microjoules"`
	// Micros is money in millionths of the currency's unit.
	Micros int64 `json:"micros"`
}

func (a *Amount) add(b Amount) {
	a.Time, a.Low, a.High = a.Time+b.Time, a.Low+b.Low, a.High+b.High
	a.Microjoules, a.Micros = a.Microjoules+b.Microjoules, a.Micros+b.Micros
}

// sum adds an amount to that of a key.
func sum[K comparable](sums map[K]Amount, k K, a Amount) {
	have := sums[k]
	have.add(a)
	sums[k] = have
}

// maxAmount is more than an account comes to, and leaves room for sums: in ns, 36 years.
const maxAmount = 1 << 60

func (a Amount) check() error {
	for _, v := range []int64{int64(a.Time), int64(a.Low), int64(a.High), a.Microjoules, a.Micros} {
		if v < 0 || v > maxAmount {
			return fmt.Errorf("%d is below zero or more than an account can hold", v)
		}
	}
	return nil
}

// Row is a key with its amount.
type Row struct {
	Key
	Amount
}

// Total is the sum of all rows of a GPU, an account and a namespace that there are and were.
type Total struct {
	TotalKey
	Amount
}

// Rows returns the rows there are, in the order of their keys.
func (l *book) listRows() []Row {
	out := make([]Row, 0, len(l.rows))
	for _, k := range slices.SortedFunc(maps.Keys(l.rows), compareKeys) {
		out = append(out, Row{k, l.rows[k].Amount})
	}
	return out
}

// Totals returns the totals, in the order of their keys.
func (l *book) listTotals() []Total {
	out := make([]Total, 0, len(l.totals))
	for k, t := range l.totals {
		out = append(out, Total{k, *t})
	}
	slices.SortFunc(out, func(a, b Total) int { return a.TotalKey.Compare(b.TotalKey) })
	return out
}

// Compare orders keys by GPU, account and namespace.
func (a TotalKey) Compare(b TotalKey) int {
	return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Namespace, b.Namespace))
}

// GPUs returns the time that each GPU was observed, which its totals add up to.
func (l *book) observed() map[string]time.Duration {
	out := make(map[string]time.Duration, len(l.gpus))
	for name, g := range l.gpus {
		out[name] = g.Observed
	}
	return out
}

// expire ends the rows of pods without a posting for bookOptions.Retain, in time of their GPU,
// and returns their keys. The totals keep what they had.
func (l *book) expire() []Key {
	var out []Key
	for k, r := range l.rows {
		if g := l.gpus[k.GPU]; k.Pod != (container.Pod{}) && g.Observed-r.Last >= l.opts.retain {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, compareKeys)
	for _, k := range out {
		// The fraction of a millionth that the row was owed stays the GPU's.
		l.changed[k.GPU] = l.gpus[k.GPU]
		l.changed[k] = nil
		delete(l.rows, k)
		if l.pods[k.Pod]--; l.pods[k.Pod] == 0 {
			delete(l.pods, k.Pod)
		}
	}
	return out
}

// perTotal returns the sums of the rows that there are.
func (l *book) perTotal() map[TotalKey]Amount {
	sums := map[TotalKey]Amount{}
	for k, r := range l.rows {
		sum(sums, TotalKey{k.GPU, k.Account, k.Namespace}, r.Amount)
	}
	return sums
}

// audit holds the books against each other.
func (l *book) audit() error {
	var probs problem.List
	sums := map[string]Amount{}
	for k, t := range l.totals {
		sum(sums, k.GPU, *t)
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
