// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// sevenTenants share one A100. A seventh is probably, but not surely, enough for each.
func sevenTenants(busy float64) *Fleet {
	f := &Fleet{Version: "v1", Pools: []Pool{{Name: "a100", GPU: "A100-SXM4-80GB", Count: 1}}}
	for i := range 7 {
		f.Workloads = append(f.Workloads, Workload{Name: fmt.Sprintf("t%d", i), Kind: KindOnlineInference, Replicas: Replicas{Max: 1},
			Memory: sharing.Some(7 * sharing.GiB), GPUBusy: sharing.Some(busy), Tenant: fmt.Sprintf("t%d", i), Isolation: hard})
	}
	return f
}

// TestMoreConfidenceNeverPlacesMore, in fleets that run short of GPUs.
func TestMoreConfidenceNeverPlacesMore(t *testing.T) {
	t.Parallel()
	race.Long(t)
	fleets := []*Fleet{sevenTenants(0.12), sevenTenants(0.17), sevenTenants(0.3)}
	for _, size := range [][2]int{{1, 8}, {2, 14}} {
		f := corpusFleet(t, size[0], size[1])
		for p := range f.Pools {
			f.Pools[p].Count, f.Pools[p].Layouts = 2, nil
		}
		fleets = append(fleets, f)
	}
	short := 0
	for k, f := range fleets {
		before := 1 << 30
		for _, confidence := range []float64{0.5, 0.8, 0.9, 0.95, 0.97, 0.99} {
			r, err := Decide(t.Context(), f, Options{Confidence: confidence})
			if err != nil {
				t.Fatal(err)
			}
			n := r.tally()
			if n.Placed > before {
				t.Errorf("fleet %d: %d replicas placed at %v, %d at less confidence", k, n.Placed, confidence, before)
			}
			before = n.Placed
			short += min(1, n.Wanted-n.Placed)
		}
	}
	if short < 6 {
		t.Errorf("GPUs run short in %d answers only", short)
	}
}

// endingContext is a context that has ended once it was asked so often whether it has.
type endingContext struct {
	context.Context
	left atomic.Int64
}

func (c *endingContext) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestDecideEndsWithItsContext, with the context's error, whatever it is at, and soon.
func TestDecideEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := corpusFleet(t, 5, 50)
	for _, asked := range []int64{0, 1, 300, 3000} {
		ctx := &endingContext{Context: t.Context()}
		ctx.left.Store(asked)
		if r, err := Decide(ctx, f, Options{}); r != nil || !errors.Is(err, context.Canceled) || ctx.left.Load() < -200 {
			t.Errorf("ended after %d: a result is %t, %v, asked %d times more", asked, r != nil, err, -ctx.left.Load())
		}
	}
}
