// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/nightly"
)

// TestDeadlines: work with a deadline gets the place where it costs least to finish in time, its co-located rate and the
// transfer to another GPU included; where none does, the answer names the deadline.
func TestDeadlines(t *testing.T) {
	const pools = `
trust: all
pools: [{name: t4, gpu: T4, count: 8, price_per_gpu_hour: "0.35 USD"}, {name: a100, gpu: A100-SXM4-80GB, count: 4, price_per_gpu_hour: "1.80 USD"}, {name: h, gpu: H100-80GB, count: 4, price_per_gpu_hour: "9.90 USD"}]
workloads: [{name: fit, kind: training, memory: 12GiB, gpu_busy: 0.6, job: {duration: 40h, on: H100-80GB, deadline: 60h}}]`
	const shared = `
trust: all
pools: [{name: h, gpu: H100-80GB, count: 3, mechanisms: [MECHANISM], price_per_gpu_hour: "9.90 USD"}]
workloads: [{name: fit, kind: batch, memory: 12GiB, gpu_busy: 0.4, replicas: 4, job: {duration: 40h, deadline: 60h}}]`
	slices, mps := strings.Replace(shared, "MECHANISM", "time-slicing", 1), strings.Replace(shared, "MECHANISM", "mps", 1)
	for _, c := range []struct {
		fleet, deadline, where string
		status                 Status
		placed                 int
		why                    string
	}{
		{pools, "30h", "none on ", StatusNone, 0, "exclusive on h: the predicted time to finish is 40 h (36.41 to 43.94), the deadline 30 h"},
		{pools, "42h", "exclusive on h", StatusProvisional, 1, "may be late: finishes in 40 h (36.41 to 43.94) of 42"},
		{pools, "100h", "exclusive on h", StatusDecided, 1, "finishes in 40 h (36.41 to 43.94) of 100"}, // 92 h on an A100, not surely
		{pools, "300h", "exclusive on a100", StatusDecided, 1, "finishes in 92.14 h"},
		{pools, "900h", "exclusive on t4", StatusDecided, 1, "finishes in 380.6 h"},
		{strings.Replace(pools, "on: H100-80GB, ", "", 1), "900h", "exclusive on t4", StatusProvisional, 1, "finishes in 40 h"},
		{slices, "45h", "exclusive on h", StatusPartlyPlaced, 3, "finishes in 40 h"},
		{slices, "70h", "time-slicing on h", StatusDecided, 4, "finishes in 48.88 h"},
		{mps, "45h", "exclusive on h", StatusPartlyPlaced, 3, "finishes in 40 h"},
		{mps, "60h", "mps on h", StatusDecided, 4, "finishes in 44"},
	} {
		d := decideText(t, strings.Replace(c.fleet, "deadline: 60h", "deadline: "+c.deadline, 1)).Decision("fit")
		if d.Where() != c.where || d.Status != c.status || d.Placed != c.placed || !strings.Contains(d.Why, c.why) {
			t.Errorf("%s: %s, %d placed (%s): %s; want %+v", c.deadline, d.Where(), d.Placed, d.Status, d.Why, c)
		}
	}
}

// TestTighterDeadlines: a tighter deadline never places more or costs less, and so a looser one never places less.
func TestTighterDeadlines(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(61, 62))
	tighter, changed := "a deadline, or a tighter one", map[string]int{}
	for i := range nightly.Cases(15, 300) {
		f := smallFleet(rng)
		if i%2 == 1 {
			runShort(rng, f)
		}
		for k := range f.Workloads {
			if w := &f.Workloads[k]; w.Kind != KindOnlineInference && w.Kind != KindNotebook {
				w.Job = &fleet.Job{Duration: profile.Duration(40 * 3600e9), On: f.Pools[0].GPU, Deadline: profile.Duration(float64(20+rng.IntN(200)) * 3600e9)}
			}
		}
		for range 3 {
			tryWorse(t, rng, f, []string{tighter}, changed)
			worsen[tighter](rng, f)
		}
	}
	if changed[tighter] < nightly.Cases(20, 400) {
		t.Errorf("%d deadlines were tried", changed[tighter])
	}
}
