package cost

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"unicode"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/internal/problem"
)

// SplitBy says by what a shared GPU's price is divided. The zero value is
// SplitByAllocation: a tenant pays for what it keeps others from having.
type SplitBy uint8

// The ways to divide.
const (
	SplitByAllocation SplitBy = iota // by what is set aside for each tenant
	SplitByUse                       // by what each was measured to use
	SplitByBlend                     // a weighted mean of both
)

var splitByNames = enum.Of[SplitBy](ErrInput, "basis", "allocation", "use", "blend")

// Optional holds a value that may be missing, as the zero one's is: if v, ok := o.Get(); ok { use(v) } or use(o.Or(0)).
// IsZero says that it is, and Equal compares two; String writes "-" for a missing one, JSON null, or omitzero nothing.
type Optional[T any] = optional.Value[T]

// Some returns an Optional that holds v.
func Some[T any](v T) Optional[T] { return optional.Of(v) }

// SharedGPU is a GPU over the time that is charged: its price and what each tenant had of it.
type SharedGPU struct {
	Price Money
	// Capacity is the whole GPU in the units of TenantUse.Allocated: 4 replicas,
	// 7 slices, 100%. 0 stands for 1, allocations being fractions.
	Capacity float64
	// UseCapacity is the whole GPU in the units of TenantUse.Used: 3600 s for an hour. 0 stands for 1.
	UseCapacity float64
	Tenants     []TenantUse
}

// TenantUse is one tenant's part of a shared GPU.
type TenantUse struct {
	Tenant string // unique, without control characters
	// Allocated is the part set aside for the tenant: replicas of a time-sliced GPU, active thread percentage under
	// MPS, MIG slices (memory slices where memory is what runs out first: four 1g.20gb fill an A100-80GB by 2 of 8
	// each, though 3 of its 7 compute slices are left), HAMi cores in percent.
	Allocated float64
	// Used is the tenant's measured use: busy GPU-seconds, SM-seconds.
	// Missing is not measured, which is not 0: a split that needs it refuses.
	Used Optional[float64]
}

// SplitOptions say how a price is divided. The zero value divides by allocation.
type SplitOptions struct {
	By SplitBy
	// UseWeight is the weight of use with SplitByBlend, from 0 to Whole;
	// allocation counts for the rest. It must be 0 for the other ways.
	UseWeight PPM
}

// Charge is the amount that one tenant pays.
type Charge struct {
	Tenant string `json:"tenant"`
	Amount Money  `json:"charge"`
	Share  PPM    `json:"share"` // of the price, before rounding to micro-units; for display
}

// Split is a price divided among tenants. The amounts of Charges and Idle add up to Price exactly.
type Split struct {
	Price   Money    `json:"price"`
	By      SplitBy  `json:"basis"`
	Charges []Charge `json:"charges"` // in the order of the tenants given
	Idle    Money    `json:"idle"`    // what no tenant had
	// IdleShare is the part of the price that Idle is, for display.
	IdleShare PPM `json:"idle_share"`
	// Oversubscribed says that the parts came to more than the GPU, by allocation (replicas beyond the capacity) or
	// in the measurement (kernels at the same time under MPS); they were scaled down to fit.
	Oversubscribed bool `json:"oversubscribed"`
}

// Split divides the GPU's price among its tenants. Each pays for its part of the capacity; what is left is the idle
// row. The amounts add up to the price to the last micro-unit for any valid weights: each part is computed exactly
// and rounded down, and the micro-units left over go to the largest remainders; ties go to the tenant whose name
// sorts first, the idle row last. A tenant's amount does not depend on the order of the tenants.
//
// It returns ErrInput, naming every problem, for an empty or repeated name, a weight that is negative, NaN or
// infinite, use that is needed and not measured, and options out of range. g is not modified.
func (g SharedGPU) Split(opts SplitOptions) (Split, error) {
	if err := g.check(opts); err != nil {
		return Split{}, err
	}
	weights, over := g.parts(opts)
	sum := new(big.Rat)
	for _, w := range weights {
		sum.Add(sum, w)
	}
	idle := new(big.Rat).Sub(big.NewRat(1, 1), sum)
	n, currency := len(g.Tenants), g.Price.currency
	s := Split{Price: g.Price, By: opts.By, Oversubscribed: over, Charges: make([]Charge, n)}
	amounts := largestRemainder(g.Price.micros, append(weights, idle), func(i, j int) int {
		if i == n || j == n { // the idle row
			return i - j
		}
		return strings.Compare(g.Tenants[i].Tenant, g.Tenants[j].Tenant)
	})
	for i, t := range g.Tenants {
		s.Charges[i] = Charge{Tenant: t.Tenant, Amount: Money{amounts[i], currency}, Share: ratPPM(weights[i])}
	}
	s.Idle, s.IdleShare = Money{amounts[n], currency}, ratPPM(idle)
	return s, nil
}

func (g SharedGPU) check(opts SplitOptions) error {
	var l problem.List
	notNegative(&l, "price", g.Price)
	l.If(!splitByNames.Has(opts.By), "basis", "use allocation, use or blend", "%v", opts.By)
	inRange(&l, "use_weight", opts.UseWeight, Whole)
	l.If(opts.UseWeight != 0 && opts.By != SplitByBlend, "use_weight", "leave it out or use the basis blend",
		"the basis %s has no weight", opts.By)
	for _, c := range []struct {
		path string
		v    float64
	}{{"capacity", g.Capacity}, {"use_capacity", g.UseCapacity}} {
		l.If(!isWeight(c.v), c.path, "give a finite number above 0, or 0 for fractions of the GPU", "%v is no capacity",
			c.v)
	}
	seen := make(map[string]bool, len(g.Tenants))
	for i, t := range g.Tenants {
		at := fmt.Sprintf("tenants[%d]", i)
		switch {
		case t.Tenant == "":
			l.Addf(at+".tenant", "name the tenant", "it is empty")
		case seen[t.Tenant]:
			l.Addf(at+".tenant", "add up what one tenant had", "%q is there twice", problem.Clip(t.Tenant))
		case strings.ContainsFunc(t.Tenant, unicode.IsControl):
			l.Addf(at+".tenant", "use letters, digits and signs", "%q holds control characters", problem.Clip(t.Tenant))
		}
		seen[t.Tenant] = true
		l.If(!isWeight(t.Allocated), at+".allocated", "give a finite number, 0 or more", "%v is no amount", t.Allocated)
		switch used, measured := t.Used.Get(); {
		case measured && !isWeight(used):
			l.Addf(at+".used", "give a finite number, 0 or more", "%v is no amount", used)
		case !measured && opts.By != SplitByAllocation:
			l.Addf(at+".used", "measure it, or divide by allocation", "it is not measured")
		}
	}
	return inputErr(&l)
}

func isWeight(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }

// parts returns each tenant's part of the GPU, together at most 1, and whether the parts were scaled down to that.
func (g SharedGPU) parts(opts SplitOptions) ([]*big.Rat, bool) {
	allocated, used := make([]*big.Rat, len(g.Tenants)), make([]*big.Rat, len(g.Tenants))
	for i, t := range g.Tenants {
		allocated[i] = new(big.Rat).SetFloat64(t.Allocated)
		used[i] = new(big.Rat).SetFloat64(t.Used.Or(0)) // check saw to it where it counts
	}
	switch opts.By {
	case SplitByUse:
		return used, toParts(used, g.UseCapacity)
	case SplitByBlend:
		overAllocated, overUsed := toParts(allocated, g.Capacity), toParts(used, g.UseCapacity)
		w := big.NewRat(int64(opts.UseWeight), int64(Whole))
		for i, a := range allocated {
			diff := new(big.Rat).Sub(used[i], a)
			a.Add(a, diff.Mul(diff, w))
		}
		return allocated, overAllocated || overUsed
	}
	return allocated, toParts(allocated, g.Capacity)
}

// toParts divides the weights by the capacity or, if that is less, by their sum, and reports the latter.
func toParts(weights []*big.Rat, capacity float64) bool {
	capacity = cmp.Or(capacity, 1)
	whole, sum := new(big.Rat).SetFloat64(capacity), new(big.Rat)
	for _, w := range weights {
		sum.Add(sum, w)
	}
	// Ten times 0.1 is a little more than 1 in binary.
	over := sum.Cmp(new(big.Rat).Mul(whole, big.NewRat(1e9+1, 1e9))) > 0
	if sum.Cmp(whole) > 0 {
		whole = sum
	}
	for _, w := range weights {
		w.Quo(w, whole)
	}
	return over
}

// largestRemainder divides total, 0 or more, by parts that add up to 1, by Hamilton's method of largest remainders
// (Balinski and Young, Fair Representation, 1982). Equal remainders are ordered by tie.
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
