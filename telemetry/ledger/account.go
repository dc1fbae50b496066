// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// errInput is returned for an invalid window, price, total or record.
var errInput = errors.New("ledger: bad input")

// Account is the use of a GPU's time:
//
//	unattributed    time without an observation, or used by processes of no known pod
//	tenant          time in which a tenant's kernels ran
//	idle            idle time without a holder
//	held-idle       idle time of a part that a pod holds, without a program of it that keeps the power up
//	execution-idle  the same with a program of it resident that keeps the GPU's power above deep idle
//	overhead        the cost of sharing itself: switching between contexts, and the MPS server itself
type Account string

const (
	accountTenant        Account = "tenant"
	accountUnattributed  Account = "unattributed"
	accountIdle          Account = "idle"
	accountHeldIdle      Account = "held-idle"
	accountExecutionIdle Account = "execution-idle"
	accountOverhead      Account = "overhead"
)

// accounts lists the accounts in the order of rows.
var accounts = []Account{accountUnattributed, accountTenant, accountIdle, accountHeldIdle, accountExecutionIdle,
	accountOverhead}

func (a Account) compare(b Account) int {
	return cmp.Compare(slices.Index(accounts, a), slices.Index(accounts, b))
}

func (a Account) check() error {
	if !slices.Contains(accounts, a) {
		return fmt.Errorf("%w: unknown account %q", errInput, a)
	}
	return nil
}

// Key names a row: the pod, the GPU, its mechanism, and the basis of the figure.
type Key struct {
	GPU           string            `json:"gpu"`
	Account       Account           `json:"account"`
	container.Pod                   // zero where no pod is charged
	Mechanism     sharing.Mechanism `json:"mechanism"`
	Basis         sharing.Basis     `json:"basis"`
}

// TotalKey names a total.
type TotalKey struct {
	GPU       string  `json:"gpu"`
	Account   Account `json:"account"`
	Namespace string  `json:"namespace"`
}

// compare orders keys by GPU, account, pod, mechanism and basis.
func (a Key) compare(b Key) int {
	return cmp.Or(cmp.Compare(a.GPU, b.GPU), a.Account.compare(b.Account), a.Pod.Compare(b.Pod),
		cmp.Compare(a.Mechanism, b.Mechanism), cmp.Compare(a.Basis, b.Basis))
}

func (a Key) check() error { return a.Account.check() }

func (a TotalKey) check() error { return a.Account.check() }

func (a Key) total() TotalKey { return TotalKey{a.GPU, a.Account, a.Namespace} }

// compare orders keys by GPU, account and namespace.
func (a TotalKey) compare(b TotalKey) int {
	return cmp.Or(cmp.Compare(a.GPU, b.GPU), a.Account.compare(b.Account), cmp.Compare(a.Namespace, b.Namespace))
}

// Amount is the balance of an account. It never decreases.
type Amount struct {
	Time time.Duration `json:"ns"`
	// Low and High are the bounds of Time.
	Low         time.Duration `json:"low_ns"`
	High        time.Duration `json:"high_ns"`
	Microjoules int64         `json:"microjoules"`
	// Micros is money in millionths of the currency's unit.
	Micros int64 `json:"micros"`
}

func (a *Amount) fields() [5]*int64 {
	return [...]*int64{(*int64)(&a.Time), (*int64)(&a.Low), (*int64)(&a.High), &a.Microjoules, &a.Micros}
}

func (a *Amount) add(b Amount) {
	for i, v := range b.fields() {
		*a.fields()[i] += *v
	}
}

// maxAmount is more than an account comes to, and leaves room for sums: in ns, 36 years.
const maxAmount = 1 << 60

func (a Amount) check() error {
	for _, v := range a.fields() {
		if *v < 0 || *v > maxAmount {
			return fmt.Errorf("%d is below zero or more than an account can hold", *v)
		}
	}
	return nil
}

// Row is a key with its amount.
type Row struct {
	Key
	Amount
}

// Total is the sum of all rows, past ones included, of a GPU, an account and a namespace.
type Total struct {
	TotalKey
	Amount
}
