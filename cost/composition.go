// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cotenant/cotenant/internal/problem"
)

// NodeGroup is a number of nodes of one kind.
type NodeGroup struct {
	Name         string // unique in its composition, for example an instance type
	Count        int
	PricePerHour Money // of one node
	// Auxiliary marks nodes that do not run the GPU workload, such as CPU
	// nodes for system pods. Counting decides which side pays for them.
	Auxiliary bool
}

// Composition is the nodes of a fleet. It is not modified by this package.
type Composition []NodeGroup

func (c Composition) total() (Money, error) {
	var sum Money
	for i, g := range c {
		part, err := g.PricePerHour.Mul(int64(g.Count))
		if err == nil {
			sum, err = sum.Add(part)
		}
		if err != nil {
			return Money{}, fmt.Errorf("[%d] %s: %w", i, problem.Clip(g.Name), err)
		}
	}
	return sum, nil
}

func (c Composition) validate(l *problem.List, path string) {
	seen := map[string]bool{}
	for i, g := range c {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case g.Name == "":
			l.Addf(at+".name", "name the kind of node", "it is empty")
		case seen[g.Name]:
			l.Addf(at+".name", "put all nodes of a kind into one group", "%q is there twice", problem.Clip(g.Name))
		}
		seen[g.Name] = true
		l.If(g.Count < 0, at+".count", "give 0 or more", "%d is below zero", g.Count)
		notNegative(l, at+".price_per_hour", g.PricePerHour)
	}
}

// Counting selects the side of a comparison that pays for auxiliary nodes; "" is as-given.
type Counting string

// The ways to count.
const (
	countingAsGiven            Counting = "as-given"             // each side has the nodes that it lists
	CountingAuxiliaryOnBoth    Counting = "auxiliary-on-both"    // each side has the auxiliary nodes of either
	countingAuxiliaryOnNeither Counting = "auxiliary-on-neither" // only the nodes that run the workload
)

// Countings lists the ways to count.
func Countings() []Counting {
	return []Counting{countingAsGiven, CountingAuxiliaryOnBoth, countingAuxiliaryOnNeither}
}

// CompareCompositions returns the saving of replacing one composition by another. A comparison is like for like
// when both sides run the same system pods: the latency article charges its two CPU nodes to the shared side only
// and prints 46%, where auxiliary-on-both gives 48.3% and auxiliary-on-neither 50%.
func CompareCompositions(before, after Composition, counting Counting) (Saving, error) {
	var l problem.List
	before.validate(&l, "before")
	after.validate(&l, "after")
	l.If(counting != "" && !slices.Contains(Countings(), counting), "counting",
		fmt.Sprintf("use one of %v", Countings()), "unknown way of counting %q", problem.Clip(string(counting)))
	if err := inputErr(&l); err != nil {
		return Saving{}, err
	}
	switch counting {
	case CountingAuxiliaryOnBoth:
		before, after = before.withAuxiliary(after), after.withAuxiliary(before)
	case countingAuxiliaryOnNeither:
		before, after = before.workers(), after.workers()
	}
	b, err := before.total()
	if err != nil {
		return Saving{}, fmt.Errorf("before: %w", err)
	}
	a, err := after.total()
	if err != nil {
		return Saving{}, fmt.Errorf("after: %w", err)
	}
	return newSaving(b, a)
}

// withAuxiliary returns c with the auxiliary nodes that other has and c lacks, matched by name.
func (c Composition) withAuxiliary(other Composition) Composition {
	have := map[string]int{}
	for _, g := range c {
		have[g.Name] = g.Count
	}
	out := append(Composition(nil), c...)
	for _, g := range other {
		if g.Auxiliary && g.Count > have[g.Name] {
			g.Count -= have[g.Name]
			out = append(out, g)
		}
	}
	return out
}

func (c Composition) workers() Composition {
	var out Composition
	for _, g := range c {
		if !g.Auxiliary {
			out = append(out, g)
		}
	}
	return out
}

func fleetErr(gpus, tenants int, u float64) error {
	var l problem.List
	l.If(gpus < 0 || gpus > 1_000_000_000, "gpus", "give 0 to 1000000000", "%d is no number of GPUs", gpus)
	l.If(tenants < 1, "tenants", "give 1 or more", "a GPU is not shared by %d", tenants)
	l.If(!(u >= 0 && u <= 1), "utilisation", "give a fraction from 0 to 1", "%v is out of range", u)
	return inputErr(&l)
}

// SharedFleet is a number of GPUs of one kind, each shared by the same number of similar workloads: the inputs of the
// economics article's calculator.
type SharedFleet struct {
	GPUs            int
	PricePerGPUHour Money
	Tenants         int     // workloads on each GPU
	Utilisation     float64 // fraction of a GPU that one workload keeps busy, 0 to 1
	Overhead        PPM     // of the mechanism; see OverheadRange
}

// FleetFigures holds the effects of sharing on a SharedFleet.
type FleetFigures struct {
	PerWorkloadHour Money `json:"cost_per_workload_hour"`
	// Saving compares one workload's cost with that of a GPU of its own.
	Saving Saving `json:"saving_per_workload"`
	// CapacityHours are the GPU-hours a day that need not be bought, used or not: 24 * GPUs * (1 - 1/Tenants).
	CapacityHours float64 `json:"capacity_gpu_hours_per_day"`
	// UtilisationHours are the GPU-hours a day of work that sharing adds: 24 * GPUs * (min(1, Tenants*Utilisation) -
	// Utilisation). A GPU that is already full gains nothing.
	UtilisationHours float64 `json:"utilisation_gpu_hours_per_day"`
	// Needed is the part of a GPU that its workloads keep busy together. Above 1 they slow one another down, and the
	// saving for the same work is smaller.
	Needed float64 `json:"needed_of_a_gpu"`
}

// Figures computes the figures. The error lists every problem of f.
func (f SharedFleet) Figures() (FleetFigures, error) {
	var l problem.List
	l.If(f.PricePerGPUHour.micros == 0, "price", "give the price of a GPU", "0 leaves nothing to save")
	each, err := PerWorkloadHour(f.PricePerGPUHour, f.Tenants, f.Overhead)
	if errors.Is(err, errInput) {
		l.AddErr("", err)
	}
	l.AddErr("", fleetErr(f.GPUs, f.Tenants, f.Utilisation))
	if lerr := inputErr(&l); lerr != nil {
		return FleetFigures{}, lerr
	}
	if err != nil {
		return FleetFigures{}, err
	}
	saving, err := newSaving(f.PricePerGPUHour, each)
	if err != nil {
		return FleetFigures{}, err
	}
	const hoursPerDay = 24
	hours, needed := hoursPerDay*float64(f.GPUs), float64(f.Tenants)*f.Utilisation
	return FleetFigures{each, saving, hours * float64(f.Tenants-1) / float64(f.Tenants),
		// The conversion forbids a fused multiply-add, which rounds differently.
		hours * (math.Min(1, float64(needed)) - f.Utilisation), needed}, nil
}

// HoursPerMonth is the length of a month in cloud price lists and in the articles.
const HoursPerMonth = 730

// Monthly returns an hourly amount times 730 hours.
func Monthly(hourly Money) (Money, error) { return hourly.Mul(HoursPerMonth) }

// Saving compares the cost of a fleet before and after a change.
type Saving struct {
	Before  Money `json:"before_per_month"` // of 730 hours
	After   Money `json:"after_per_month"`  // of 730 hours
	Monthly Money `json:"saving_per_month"` // Before - After; below zero where the change costs more
	Annual  Money `json:"saving_per_year"`  // 12 * Monthly
	// Fraction is Monthly / Before, rounded half away from zero.
	Fraction PPM `json:"saving_fraction"`
}

// newSaving returns the saving of a change between two hourly costs of one
// currency. Before must be above zero, since no part of nothing can be saved.
func newSaving(beforePerHour, afterPerHour Money) (Saving, error) {
	var l problem.List
	l.If(beforePerHour.Sign() <= 0, "before", "give the present cost", "%s leaves nothing to save", beforePerHour)
	notNegative(&l, "after", afterPerHour)
	if err := inputErr(&l); err != nil {
		return Saving{}, err
	}
	diff, err := beforePerHour.Sub(afterPerHour)
	if err != nil {
		return Saving{}, err
	}
	var s Saving
	for _, part := range []struct {
		to     *Money
		hourly Money
		hours  int64
	}{
		{&s.Before, beforePerHour, HoursPerMonth}, {&s.After, afterPerHour, HoursPerMonth},
		{&s.Monthly, diff, HoursPerMonth}, {&s.Annual, diff, 12 * HoursPerMonth},
	} {
		if *part.to, err = part.hourly.Mul(part.hours); err != nil {
			return Saving{}, fmt.Errorf("a month of %s: %w", part.hourly, err)
		}
	}
	if s.Fraction, err = ratio(diff.micros, beforePerHour.micros); err != nil {
		return Saving{}, err
	}
	return s, nil
}
