package cost

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// SplitBy says by what a shared GPU's price is divided. The zero value is
// ByAllocation: a tenant pays for what it keeps others from having.
type SplitBy uint8

// The bases.
const (
	SplitByAllocation SplitBy = iota // by what is set aside for each tenant
	SplitByUse                       // by what each was measured to use
	SplitByBlend                     // a weighted mean of both
)

var basisNames = [...]string{"allocation", "use", "blend"}

// String returns "allocation", "use" or "blend".
func (b SplitBy) String() string { return enumName(basisNames[:], int(b), "Basis") }

// MarshalText returns the text of b; a value that is no Basis is an error.
func (b SplitBy) MarshalText() ([]byte, error) { return enumText(basisNames[:], int(b), "basis") }

// UnmarshalText reads what String writes.
func (b *SplitBy) UnmarshalText(t []byte) error {
	i, err := enumParse(basisNames[:], t, "basis")
	if err == nil {
		*b = SplitBy(i)
	}
	return err
}

// TenantUse is what one tenant had of a shared GPU over the time that is
// charged.
type TenantUse struct {
	Tenant string // unique
	// Allocated is what was set aside for the tenant, in the units of
	// AttributeOptions.Capacity: replicas of a time-sliced GPU, active thread
	// percentage under MPS, MIG slices (memory slices where memory is what runs
	// out first: four 1g.20gb fill an A100-80GB by 2 of 8 each, though 3 of its 7
	// compute slices are left), HAMi cores in percent.
	Allocated float64
	// Used is what the tenant was measured to use, in the units of
	// AttributeOptions.UseCapacity: busy GPU-seconds, SM-seconds. nil is not
	// measured, which is not 0: a basis that needs it refuses.
	Used *float64
}

// SplitOptions says how Attribute divides. The zero value divides by
// allocation in fractions of the GPU and leaves idle capacity in its own row.
type SplitOptions struct {
	Basis SplitBy
	// UseWeight is how much use counts in a Blend, from 0 to Whole; allocation
	// counts for the rest. It must be 0 for the other bases.
	UseWeight PPM
	// Capacity is the whole GPU in the units of Allocated: 4 replicas, 7 slices,
	// 100 %. 0 stands for 1, allocations being fractions.
	Capacity float64
	// UseCapacity is the whole GPU in the units of Used: 3600 s for an hour. 0
	// stands for 1.
	UseCapacity float64
	// SpreadIdle charges idle capacity to the tenants in proportion to their
	// parts. With no part to go by it stays in the idle row.
	SpreadIdle bool
}

// Charge is what one tenant pays.
type Charge struct {
	Tenant string `json:"tenant"`
	Amount Money  `json:"charge"`
	Share  PPM    `json:"share"` // of the price, before rounding to micro-units; for display
}

// Split is a price divided among tenants. The amounts of Charges and Idle
// add up to Price exactly.
type Split struct {
	Price   Money    `json:"price"`
	Basis   SplitBy  `json:"basis"`
	Charges []Charge `json:"charges"` // in the order of the tenants given
	Idle    Money    `json:"idle"`    // what no tenant had
	// IdleShare is the part of the price that Idle is, for display.
	IdleShare PPM `json:"idle_share"`
	// Oversubscribed says that the parts came to more than the GPU, by
	// allocation (replicas beyond the capacity) or in the measurement (kernels
	// at the same time under MPS); they were scaled down to fit.
	Oversubscribed bool `json:"oversubscribed"`
}

// Attribute divides the price of a shared GPU for some time among its tenants.
// Each pays for its part of the capacity; what is left is the idle row. The
// amounts add up to the price to the last micro-unit for any valid weights:
// each part is computed exactly and rounded down, and the micro-units left over
// go to the largest remainders; ties go to the tenant whose name sorts first,
// the idle row last. A tenant's amount does not depend on the order of the
// tenants.
//
// It returns ErrInput, naming every problem, for an empty or repeated name, a
// weight that is negative, NaN or infinite, use that is needed and not
// measured, and options out of range. tenants is not modified.
func Attribute(price Money, tenants []TenantUse, opts SplitOptions) (Split, error) {
	if err := attributeErr(price, tenants, opts); err != nil {
		return Split{}, err
	}
	weights, over := blendedParts(tenants, opts)
	sum := new(big.Rat)
	for _, w := range weights {
		sum.Add(sum, w)
	}
	if opts.SpreadIdle && sum.Sign() > 0 {
		for _, w := range weights {
			w.Quo(w, sum)
		}
		sum.SetInt64(1)
	}
	idle := new(big.Rat).Sub(big.NewRat(1, 1), sum)
	a := Split{Price: price, Basis: opts.Basis, Oversubscribed: over, Charges: make([]Charge, len(tenants))}
	amounts := largestRemainder(price.micros, append(weights, idle), func(i, j int) int {
		switch n := len(tenants); { // index n is the idle row
		case i == n || j == n:
			return i - j
		default:
			return strings.Compare(tenants[i].Tenant, tenants[j].Tenant)
		}
	})
	for i, t := range tenants {
		a.Charges[i] = Charge{Tenant: t.Tenant, Amount: Money{amounts[i], price.currency}, Share: ratPPM(weights[i])}
	}
	a.Idle, a.IdleShare = Money{amounts[len(tenants)], price.currency}, ratPPM(idle)
	return a, nil
}

func attributeErr(price Money, tenants []TenantUse, opts SplitOptions) error {
	var l problem.List
	if price.micros < 0 {
		l.Addf("price", "give 0 or more", "%s is below zero", price)
	}
	if _, err := opts.Basis.MarshalText(); err != nil {
		l.Addf("basis", "use allocation, use or blend", "%v", opts.Basis)
	}
	switch {
	case opts.UseWeight < 0 || opts.UseWeight > Whole:
		l.Addf("use_weight", "give 0% to 100%", "%s is out of range", opts.UseWeight)
	case opts.UseWeight != 0 && opts.Basis != SplitByBlend:
		l.Addf("use_weight", "leave it out or use the basis blend", "the basis %s has no weight", opts.Basis)
	}
	for _, c := range []struct {
		path string
		v    float64
	}{{"capacity", opts.Capacity}, {"use_capacity", opts.UseCapacity}} {
		if !isWeight(c.v) {
			l.Addf(c.path, "give a finite number above 0, or 0 for fractions of the GPU", "%v is no capacity", c.v)
		}
	}
	seen := make(map[string]bool, len(tenants))
	for i, t := range tenants {
		at := fmt.Sprintf("tenants[%d]", i)
		switch {
		case t.Tenant == "":
			l.Addf(at+".tenant", "name the tenant", "it is empty")
		case seen[t.Tenant]:
			l.Addf(at+".tenant", "add up what one tenant had", "%q is there twice", problem.Clip(t.Tenant))
		}
		seen[t.Tenant] = true
		if !isWeight(t.Allocated) {
			l.Addf(at+".allocated", "give a finite number, 0 or more", "%v is no amount", t.Allocated)
		}
		switch {
		case t.Used != nil && !isWeight(*t.Used):
			l.Addf(at+".used", "give a finite number, 0 or more", "%v is no amount", *t.Used)
		case t.Used == nil && opts.Basis != SplitByAllocation:
			l.Addf(at+".used", "measure it, or divide by allocation", "it is not measured")
		}
	}
	return inputErr(&l)
}

func isWeight(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }

// blendedParts returns each tenant's part of the GPU, together at most 1, and
// whether the parts were scaled down to that.
func blendedParts(tenants []TenantUse, opts SplitOptions) ([]*big.Rat, bool) {
	var allocated, used []*big.Rat
	for _, t := range tenants {
		allocated = append(allocated, new(big.Rat).SetFloat64(t.Allocated))
		if t.Used != nil {
			used = append(used, new(big.Rat).SetFloat64(*t.Used))
		}
	}
	switch opts.Basis {
	case SplitByUse:
		return used, toParts(used, opts.UseCapacity)
	case SplitByBlend:
		overAllocated, overUsed := toParts(allocated, opts.Capacity), toParts(used, opts.UseCapacity)
		w := big.NewRat(int64(opts.UseWeight), int64(Whole))
		for i, a := range allocated {
			diff := new(big.Rat).Sub(used[i], a)
			a.Add(a, diff.Mul(diff, w))
		}
		return allocated, overAllocated || overUsed
	}
	return allocated, toParts(allocated, opts.Capacity)
}

// toParts divides the weights by the capacity or, if that is less, by their
// sum, and reports the latter.
func toParts(weights []*big.Rat, capacity float64) bool {
	if capacity == 0 {
		capacity = 1
	}
	whole, sum := new(big.Rat).SetFloat64(capacity), new(big.Rat)
	for _, w := range weights {
		sum.Add(sum, w)
	}
	over := sum.Cmp(whole) > 0
	if over {
		whole = sum
	}
	for _, w := range weights {
		w.Quo(w, whole)
	}
	return over
}

// largestRemainder divides total, 0 or more, by parts that add up to 1. Equal
// remainders are ordered by tie.
func largestRemainder(total int64, parts []*big.Rat, tie func(i, j int) int) []int64 {
	amounts, rest, left := make([]int64, len(parts)), make([]*big.Rat, len(parts)), total
	order := make([]int, len(parts))
	for i, p := range parts {
		exact := new(big.Rat).Mul(p, new(big.Rat).SetInt64(total))
		floor := new(big.Int).Quo(exact.Num(), exact.Denom())
		amounts[i], order[i] = floor.Int64(), i
		rest[i] = exact.Sub(exact, new(big.Rat).SetInt(floor))
		left -= amounts[i]
	}
	slices.SortFunc(order, func(i, j int) int {
		if c := rest[j].Cmp(rest[i]); c != 0 {
			return c
		}
		return tie(i, j)
	})
	for _, i := range order[:left] {
		amounts[i]++
	}
	return amounts
}

func ratPPM(r *big.Rat) PPM {
	return PPM(roundRat(new(big.Rat).Mul(r, new(big.Rat).SetInt64(int64(Whole)))).Int64())
}
