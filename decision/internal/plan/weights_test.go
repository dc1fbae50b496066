// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
)

// TestWeightsRead: DRAM traffic tells the size of servers that were measured, and never more than it is.
func TestWeightsRead(t *testing.T) {
	ps := must.Get(profile.LoadProfiles("../../predict/testdata/h200-colocation.json"))(t)
	for model, size := range map[string]float64{"1b": 2.47e9, "8b": 16.06e9} {
		s := must.Get(ps.Solo(profile.Server{Model: model}, profile.Load{Concurrency: 1, Prompt: 128, Output: 64}))(t)
		if got := weightsRead(&s, 4.8e12); got < 0.75*size || got > size {
			t.Errorf("%s: %.3g bytes, it has %.3g", model, got, size)
		}
	}
}
