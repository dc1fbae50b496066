// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// Kind is the unit in which a tenant makes progress.
type Kind uint8

// The kinds.
const (
	KindServer  Kind = iota // serves tokens to clients
	KindStepper             // does step after step: training, batches, simulations
	KindBurster             // does a step now and then: a notebook
)

var kinds = enum.Of[Kind](sharing.ErrUnknownName, "kind of tenant", "server", "stepper", "burster")
