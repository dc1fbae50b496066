// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
)

// The policies for the cost of a GPU's time without a holder.
const (
	idleOwnRow    = "own-row"
	idleByHolding = "by-holding"
	idleByUse     = "by-use"
)

// Names of a bill's rows that are no namespace's. They are not valid names in Kubernetes.
const (
	billIdle         = "(idle)"
	billSystem       = "(system)" // accountOverhead
	billUnattributed = "(unattributed)"
)

// Bill divides the cost of GPUs by namespace. Its rows add up exactly to the totals, in time, energy and money.
type Bill struct {
	Idle string    `json:"idle_policy"`
	Rows []BillRow `json:"rows"` // namespaces by name, then the others
}

// BillRow is the amount charged to one namespace, or to "(idle)", "(system)" or "(unattributed)".
type BillRow struct {
	Name string `json:"name"`
	Amount
}

// NewBill makes the bill of an Accountant's totals (Accountant.View), or of TotalsOf. Each namespace pays for its use
// and for its idle share; the policy idle assigns the rest of the idle time of GPUs that any namespace had. Negative
// amounts and a total over 290 years of GPU time are errors.
func NewBill(totals []Total, idle string) (Bill, error) {
	idle = cmp.Or(idle, idleOwnRow)
	if idle != idleOwnRow && idle != idleByHolding && idle != idleByUse {
		return Bill{}, fmt.Errorf("%w: unknown policy for idle time %q (use own-row, by-holding or by-use)", errInput, idle)
	}
	rows, times, all := map[string]Amount{}, map[string]int64{}, Amount{}
	for i, t := range totals {
		all.add(t.Amount)
		sums := all.fields()
		if err := t.Amount.check(); err != nil {
			return Bill{}, fmt.Errorf("%w: totals[%d]: %w", errInput, i, err)
		} else if slices.ContainsFunc(sums[:], func(v *int64) bool { return *v < 0 }) {
			return Bill{}, fmt.Errorf("%w: totals[%d]: together more than a bill can hold (make one for a shorter time)",
				errInput, i)
		}
		name := map[Account]string{accountIdle: billIdle, accountOverhead: billSystem}[t.Account]
		name = cmp.Or(name, t.Namespace, billUnattributed)
		row := rows[name]
		row.add(t.Amount)
		rows[name] = row
		if !isSpecial(name) && (idle == idleByHolding || idle == idleByUse && t.Account == accountTenant) {
			times[name] += int64(t.Time)
		}
	}
	b := Bill{Idle: idle}
	for _, special := range []bool{false, true} {
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			if isSpecial(name) == special {
				b.Rows = append(b.Rows, BillRow{name, rows[name]})
			}
		}
	}
	at := slices.IndexFunc(b.Rows, func(r BillRow) bool { return r.Name == billIdle })
	weights := make([]int64, len(b.Rows))
	for i, r := range b.Rows {
		weights[i] = times[r.Name]
	}
	if at < 0 || slices.Max(weights) == 0 {
		return b, nil
	}
	for k, v := range b.Rows[at].fields() {
		for i, part := range cost.Apportion(*v, weights) {
			*b.Rows[i].fields()[k] += part
		}
	}
	b.Rows = slices.Delete(b.Rows, at, at+1)
	return b, nil
}

// isSpecial reports that a row is no namespace's.
func isSpecial(name string) bool { return strings.HasPrefix(name, "(") && name != Other }

// String writes the bill as a table, with its policy, and money in the currency's unit.
func (b Bill) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "idle time: %v\n%-24s %12s %10s %12s\n", b.Idle, "namespace", "GPU hours", "kWh", "cost")
	for _, r := range b.Rows {
		fmt.Fprintf(&text, "%-24s %12.3f %10.3f %12.4f\n", r.Name, r.Time.Hours(), float64(r.Microjoules)/3.6e12,
			float64(r.Micros)/1e6)
	}
	return text.String()
}

// TotalsOf divides one window of a GPU, for a bill without an Accountant, from other measurements or a plan. price is
// the GPU's price per hour.
func TotalsOf(gpu string, w Window, price cost.Money) ([]Total, error) {
	parts, err := Divide(w)
	if err = cmp.Or(err, checkPrice(price)); err != nil {
		return nil, err
	}
	l := newBook(bookOptions{})
	l.post(posting{GPU: gpu})
	l.post(posting{GPU: gpu, To: w.Length, Mechanism: w.Mechanism, Parts: parts, Price: price})
	return l.listTotals(), nil
}
