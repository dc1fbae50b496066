package profile

import (
	"github.com/cotenant/cotenant/internal/enum"
)

// Kind says how a tenant makes progress.
type Kind uint8

// The kinds.
const (
	KindServer  Kind = iota // serves tokens to clients
	KindStepper             // does step after step: training, batches, simulations
	KindBurster             // does a step now and then: a notebook
)

var kinds = enum.Of[Kind](ErrUnknownName, "kind of tenant", "server", "stepper", "burster")

// Class groups predictions whose errors are alike, by how the tenants' work reaches the
// GPU and by what their kernels fill. Each has half-widths of its own.
type Class uint8

// The classes. A tenant is of the last one that applies to it.
const (
	// ClassGraphs: servers of an engine that the predictor was calibrated on, which launches a step as a whole.
	ClassGraphs Class = iota
	// ClassLaunched: one of the servers launches kernels one by one, or is of an engine that no row has.
	ClassLaunched
	// ClassMixed: a tenant of the group serves no tokens.
	ClassMixed
	// ClassFilled: beside kernels that fill the GPU, or of which that is not known.
	ClassFilled
)

var classes = enum.Of[Class](ErrUnknownName, "class of predictions", "graphs", "launched", "mixed", "filled")
