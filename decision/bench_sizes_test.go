// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// BenchmarkDecide decides fleets of several sizes, the experts' workloads over and over, each free to go to any pool.
func BenchmarkDecide(b *testing.B) {
	for _, size := range []struct{ pools, workloads int }{
		{1, 5}, {3, 20}, {5, 50}, {5, 60}, {5, 100}, {10, 200}, {20, 1000}, {20, 2000},
	} {
		b.Run(fmt.Sprintf("%d-on-%d", size.workloads, size.pools), func(b *testing.B) {
			f := corpusFleet(b, size.pools, size.workloads)
			b.ReportAllocs()
			for b.Loop() {
				for i := range f.Workloads { // otherwise the simulations of the last round would be cached
					for m := range profile.Metric(profile.MetricCount) {
						if at := f.Workloads[i].SLO.At(m); at != nil && !at.IsZero() {
							*at = sharing.Some(at.Or(0) + 1)
						}
					}
				}
				if _, err := Decide(b.Context(), f, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
