// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"context"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Options are those of package decision, with their defaults.
type Options struct {
	Context               context.Context // nil never ends
	Profiles              *profile.Profiles
	Predictor             *predict.Predictor
	Input                 string
	Allow                 []sharing.Mechanism
	Running               bool
	Confidence            float64
	Driver, Fragmentation float64 // of the memory's headroom
}

// Err returns the error of the context.
func (o *Options) Err() error { return cmp.Or(o.Context, context.Background()).Err() }
