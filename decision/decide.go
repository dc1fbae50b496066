// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
)

// Decide answers for the whole fleet. The fleet is validated first; its error names every problem. A workload that
// fits nowhere is not an error: it gets mechanism none and all its reasons. The result depends on the fleet's
// content only, not on its order. When ctx ends it returns its error.
func Decide(ctx context.Context, f *Fleet, opt Options) (*Result, error) {
	f, chosen, err := ResolveReplicas(ctx, f, opt)
	if err != nil {
		return nil, err
	}
	r, err := decideStated(ctx, f, opt)
	if err == nil {
		r.Replicas = chosen
	}
	return r, err
}
