// SPDX-License-Identifier: Apache-2.0

package canary_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/canary"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

func some(v float64) sharing.Optional[float64] { return sharing.Some(v) }

// play observes a world until the verdict, or until done where that is set.
func play(t testing.TB, w world, seed uint64, done bool) (canary.Result, world) {
	c := must.Get(canary.New(w.plan()))(t)
	g := w.start(rand.New(rand.NewPCG(seed, 31)))
	for c.Observe(g.snapshot()) == canary.KeepObserving || done && !c.Result().Done {
	}
	return c.Result(), w
}

// playAll plays n canaries of a world.
func playAll(t testing.TB, w world, n int, done bool, take func(r canary.Result, w world)) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for part := range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := part; i < n; i += runtime.GOMAXPROCS(0) {
				r, w := play(t, w, uint64(i), done)
				mu.Lock()
				take(r, w)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// canaries is the number that a bound is checked with: 10,000 a night.
func canaries(quick int) int { return nightly.Cases(race.Fewer(quick), 10000) }

const room = 1 / 1.3

// TestWrongPromotions: where a tenant is at its limit, at most 1% of canaries are promoted.
func TestWrongPromotions(t *testing.T) {
	race.Long(t)
	for _, tau := range []float64{10, 60} {
		for name, harm := range map[string][4]float64{
			"newcomer": {1, 0.5, 0.5, 0.5}, "neighbour": {room, room, room, 1}, "all": {1, 1, 1, 1},
		} {
			t.Run(fmt.Sprintf("%s at %v s", name, tau), func(t *testing.T) {
				n, wrong := canaries(60), 0
				playAll(t, world{tau: tau, harm: harm, q: 0.5}, n, false, func(r canary.Result, _ world) {
					if r.Verdict == canary.Promote {
						wrong++
					}
				})
				t.Logf("%d of %d promoted: %.2f%%", wrong, n, 100*float64(wrong)/float64(n))
				if bound := 0.01*float64(n) + map[bool]float64{false: 3}[nightly.Enabled]; float64(wrong) > bound {
					t.Errorf("%d of %d promoted", wrong, n)
				}
			})
		}
	}
}

// TestPromotions: where all keep their limits with room, few are taken back and most soon promoted.
func TestPromotions(t *testing.T) {
	race.Long(t)
	for tau, bound := range map[float64]time.Duration{10: 5 * time.Minute, 60: 20 * time.Minute} {
		for _, h := range []float64{room, 0.5} {
			t.Run(fmt.Sprintf("%v s, %.2f", tau, h), func(t *testing.T) {
				var times []time.Duration
				n, back := canaries(40), 0
				playAll(t, world{tau: tau, harm: [4]float64{h, h, h, h}, q: 0.5}, n, false, func(r canary.Result, _ world) {
					switch r.Verdict {
					case canary.Promote:
						times = append(times, r.At)
					case canary.TakeBack:
						back++
						fallthrough
					default:
						times = append(times, time.Hour)
					}
				})
				slices.Sort(times)
				t.Logf("median %v, 9 of 10 within %v; %d of %d taken back", times[n/2], times[n*9/10], back, n)
				if times[n/2] > bound {
					t.Errorf("median %v, more than %v", times[n/2], bound)
				}
				if 20*back > n/20 { // in each day of 20
					t.Errorf("%d of %d taken back", back, n)
				}
			})
		}
	}
}

// TestSlowDown: a sixfold slow-down of anybody is taken back within a minute of the first slowed request's end.
func TestSlowDown(t *testing.T) {
	race.Long(t)
	for _, h := range []float64{room, 0.5} {
		var times []time.Duration
		n := nightly.Cases(60, 2000)
		w := world{tau: 60, harm: [4]float64{h, h, h, h}, q: 0.5, slowAt: 65, slowBy: 6, slow: 2}
		playAll(t, w, n, false, func(r canary.Result, w world) {
			took := time.Hour
			if r.Verdict == canary.TakeBack {
				took = r.At - time.Duration(w.ended*float64(time.Second))
			}
			times = append(times, took)
		})
		slices.Sort(times)
		t.Logf("harm %.2f: median %v, 9 of 10 within %v", h, times[n/2], times[n*9/10])
		if times[n/2] > time.Minute {
			t.Errorf("median %v", times[n/2])
		}
	}
}

// TestTails: objectives that are watched after promotion come to a verdict some time, which is reported and not bounded.
func TestTails(t *testing.T) {
	race.Long(t)
	for _, q := range []float64{0.9, 0.99} {
		for _, tau := range []float64{10, 60} {
			if !nightly.Enabled && (q > 0.9 || tau > 10) {
				continue
			}
			var times []time.Duration
			n, back := nightly.Cases(20, 200), 0
			w := world{tau: tau, harm: [4]float64{room, room, room, room}, q: q, late: true}
			playAll(t, w, n, true, func(r canary.Result, _ world) {
				took := r.At
				for _, o := range r.Objectives {
					if o.Sufficed == 0 {
						took = 24 * time.Hour
					}
				}
				if times = append(times, took); r.Verdict == canary.TakeBack {
					back++
				}
			})
			slices.Sort(times)
			t.Logf("P%.0f, noise of %v s: all kept after a median of %v, 9 of 10 within %v (24h: not yet); %d taken back", 100*q, tau,
				times[n/2], times[n*9/10], back)
			if back > 0 || q < 0.95 && times[n/2] == 24*time.Hour {
				t.Errorf("%d of %d taken back, median %v", back, n, times[n/2])
			}
		}
	}
}
