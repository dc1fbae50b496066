package cost

import (
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/internal/enum"
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

func (c Composition) validate() error {
	var l problem.List
	seen := map[string]bool{}
	for i, g := range c {
		at := fmt.Sprintf("[%d]", i)
		switch {
		case g.Name == "":
			l.Addf(at+".name", "name the kind of node", "it is empty")
		case seen[g.Name]:
			l.Addf(at+".name", "put all nodes of a kind into one group", "%q is there twice", problem.Clip(g.Name))
		}
		seen[g.Name] = true
		l.If(g.Count < 0, at+".count", "give 0 or more", "%d is below zero", g.Count)
		notNegative(&l, at+".price_per_hour", g.PricePerHour)
	}
	return inputErr(&l)
}

// Counting says which side of a comparison pays for auxiliary nodes. The zero value is CountingAsGiven.
type Counting uint8

// The ways to count.
const (
	CountingAsGiven            Counting = iota // each side has what it lists
	CountingAuxiliaryOnBoth                    // each side has the auxiliary nodes of either
	CountingAuxiliaryOnNeither                 // the nodes that run the workload alone
)

var countingNames = enum.Of[Counting](ErrInput, "way of counting", "as-given", "auxiliary-on-both",
	"auxiliary-on-neither")

// Countings lists the ways to count.
func Countings() []Counting { return countingNames.Values() }

// CompareCompositions returns what it saves to replace one composition by another. A comparison is like for like
// when both sides run the same system pods: the latency article charges its two CPU nodes to the shared side alone
// and prints 46%, where CountingAuxiliaryOnBoth gives 48.3% and CountingAuxiliaryOnNeither 50%.
func CompareCompositions(before, after Composition, counting Counting) (Saving, error) {
	if _, err := counting.MarshalText(); err != nil {
		return Saving{}, err
	}
	var l problem.List
	addInput(&l, "before", before.validate())
	addInput(&l, "after", after.validate())
	if err := inputErr(&l); err != nil {
		return Saving{}, err
	}
	switch counting {
	case CountingAuxiliaryOnBoth:
		before, after = before.withAuxiliary(after), after.withAuxiliary(before)
	case CountingAuxiliaryOnNeither:
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
	return NewSaving(b, a)
}

// addInput adds the problems of an input error to l under path.
func addInput(l *problem.List, path string, err error) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			if e != ErrInput {
				l.AddErr(path, e)
			}
		}
	}
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
