package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// ErrInput says that a posting or a record cannot be.
var ErrInput = errors.New("ledger: bad input")

// Optional holds a value that may be missing; the zero Optional is missing. Get returns the value and whether it is
// there, Or the value or a fallback, IsZero whether it is missing; Equal compares two, String writes "-" for a
// missing one, and JSON null, or nothing with omitzero:
//
//	if v, ok := o.Get(); ok { use(v) } // or use(o.Or(0))
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
	// AccountIdle is deep idle time: nobody holds the GPU and nothing is resident.
	AccountIdle
	// AccountHeldIdle is idle time of a GPU that a pod was given and does not use, or uses without drawing power.
	AccountHeldIdle
	// AccountExecutionIdle is idle time with a program resident that keeps the GPU's power above deep idle.
	AccountExecutionIdle
	// AccountOverhead is the cost of sharing itself: switching between contexts, the MPS server.
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
