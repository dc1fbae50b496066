// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
)

// price is an odd one, in millionths an hour.
const price = 3_257_413

// world is a node's GPUs, the store, and the values that a scraper has seen, while exporters come and go.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	now    time.Duration
	boot   int
	begun  map[string]time.Duration // wall time of a GPU under all clocks so far
	wall   time.Duration
	store  map[string][]byte
	l      *book
	seen   map[Key]Amount
	totals map[TotalKey]Amount
	joules map[string]int64
	stored map[string]int64 // joules that were stored
	opts   bookOptions
}

func (w *world) restart() {
	w.opts.clock = fmt.Sprint("boot ", w.boot)
	l, unread := restoreBook(w.opts, func(yield func(Record) bool) {
		for k, v := range w.store {
			if !yield(Record{k, v}) {
				return
			}
		}
	})
	if len(unread) != 0 {
		w.t.Fatal(unread)
	}
	w.l = l
	w.joules = maps.Clone(w.stored)
}

// commit stores and then exposes: no value that a scraper sees goes back.
func (w *world) commit(crash bool) {
	records, err := w.l.takeChanges()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range records {
		if r.Value == nil {
			delete(w.store, r.Name)
		} else {
			w.store[r.Name] = r.Value
		}
	}
	w.stored = maps.Clone(w.joules)
	if crash {
		return // stored, and never shown by this exporter
	}
	for _, r := range w.l.listRows() {
		if before, ok := w.seen[r.Key]; ok && back(r.Amount, before) {
			w.t.Fatalf("%+v went back: %+v after %+v", r.Key, r.Amount, before)
		}
		w.seen[r.Key] = r.Amount
	}
	for _, r := range w.l.listTotals() {
		if before, ok := w.totals[r.TotalKey]; ok && back(r.Amount, before) {
			w.t.Fatalf("%+v went back: %+v after %+v", r.TotalKey, r.Amount, before)
		}
		w.totals[r.TotalKey] = r.Amount
	}
}

func back(now, before Amount) bool {
	return now.Time < before.Time || now.Low < before.Low || now.High < before.High || now.Micros < before.Micros || now.Microjoules < before.Microjoules
}

// post looks at a GPU.
func (w *world) post(gpu string) {
	through, seen := w.l.through(gpu)
	in := posting{GPU: gpu, To: w.now, Mechanism: []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG, sharing.MechanismExclusive}[w.rng.IntN(4)]}
	if !seen {
		w.begun[gpu] = w.wall
		w.l.post(in)
		return
	}
	length := w.now - through
	if w.rng.IntN(5) > 0 { // else nobody could look
		in.Parts = w.divide(in.Mechanism, length)
	}
	e := w.rng.Int64N(1e9)
	in.Microjoules, in.IdleMicrojoules = sharing.Some(e), w.rng.Int64N(1e9)
	in.Price, _ = cost.FromMicros(price, "USD")
	w.l.post(in)
	if length > 0 {
		w.joules[gpu] += e
	}
}

func (w *world) divide(m sharing.Mechanism, length time.Duration) []Part {
	win := Window{Length: length, Mechanism: m, Slots: w.rng.IntN(5), SwitchShare: 0.07, Powered: sharing.Answer(w.rng.IntN(3))}
	if w.rng.IntN(4) > 0 {
		win.Busy = sharing.Some(w.rng.Float64())
	}
	for range w.rng.IntN(5) {
		c := Claim{Resident: w.rng.IntN(2) == 0, Held: w.rng.IntN(2), Slices: 1 + w.rng.IntN(3), Overhead: w.rng.IntN(9) == 0}
		if w.rng.IntN(6) > 0 {
			n := w.rng.IntN(40)
			c.Pod = container.Pod{Namespace: fmt.Sprint("ns", n%3), Name: fmt.Sprint("pod", n), Container: fmt.Sprint("c", w.rng.IntN(2))}
		}
		if w.rng.IntN(3) > 0 {
			c.Busy = sharing.Some(float64(w.rng.IntN(101)) / 100)
		}
		if w.rng.IntN(3) > 0 {
			c.Tokens = sharing.Some(float64(w.rng.IntN(1000)))
		}
		win.Claims = append(win.Claims, c)
	}
	parts, err := Divide(win)
	if err != nil {
		w.t.Fatal(err)
	}
	sum := time.Duration(0)
	for _, p := range parts {
		sum += p.Time
	}
	if sum != length {
		w.t.Fatalf("%+v: the parts come to %v of %v", win, sum, length)
	}
	return parts
}

func (w *world) audit() {
	w.t.Helper()
	audit(w.t, w.l)
	sums, micros, joules := map[string]time.Duration{}, map[string]int64{}, map[string]int64{}
	for _, r := range w.l.listTotals() {
		sums[r.GPU] += r.Time
		micros[r.GPU] += r.Micros
		joules[r.GPU] += r.Microjoules
	}
	for gpu, begun := range w.begun {
		through, _ := w.l.through(gpu)
		want := w.wall - begun - (w.now - through)
		if sums[gpu] != want {
			w.t.Fatalf("%s: accounts come to %v, the clock has %v", gpu, sums[gpu], want)
		}
		// Money is the price of the whole time, rounded down once.
		owed := new(big.Int).Mul(big.NewInt(price), big.NewInt(int64(sums[gpu])))
		if got := owed.Div(owed, big.NewInt(int64(time.Hour))).Int64(); micros[gpu] != got {
			w.t.Fatalf("%s: %d millionths, want %d", gpu, micros[gpu], got)
		}
		if joules[gpu] != w.joules[gpu] {
			w.t.Fatalf("%s: %d uJ, posted %d", gpu, joules[gpu], w.joules[gpu])
		}
	}
}

// TestHistories: churn of pods, crashes before and after the store was written, reboots, full disks and time without
// observation. The accounts always add up to the wall time of each GPU, and no value that a scraper sees goes back.
func TestHistories(t *testing.T) {
	for seed := range nightly.Cases(200, 10_000) {
		w := &world{t: t, rng: rand.New(rand.NewPCG(uint64(seed), 7)), begun: map[string]time.Duration{}, store: map[string][]byte{},
			seen: map[Key]Amount{}, totals: map[TotalKey]Amount{}, joules: map[string]int64{}, stored: map[string]int64{}, opts: bookOptions{retain: time.Hour, maxPods: 30}}
		w.restart()
		gpus := 1 + w.rng.IntN(3)
		for g := range gpus {
			w.post(fmt.Sprint("GPU-", g))
		}
		w.commit(false)
		for i := range 12 {
			step := time.Duration(w.rng.Int64N(int64(20 * time.Second)))
			if w.rng.IntN(8) == 0 {
				step += time.Duration(w.rng.Int64N(int64(2 * time.Hour)))
			}
			w.now, w.wall = w.now+step, w.wall+step
			switch w.rng.IntN(10) {
			case 0: // killed with postings that were not stored
				w.post("GPU-0")
				w.restart()
			case 1: // killed between storing and showing
				w.post("GPU-0")
				w.commit(true)
				w.restart()
			case 2: // the machine starts anew: time before the last posting is kept
				for g := range gpus {
					w.post(fmt.Sprint("GPU-", g))
				}
				w.commit(false)
				w.boot++
				w.now = time.Duration(w.rng.Int64N(int64(time.Minute)))
				w.wall += w.now
				w.restart()
			case 3: // the disk is full: nothing is stored, nothing shown
				w.post("GPU-0")
			default:
				for g := range gpus {
					if w.rng.IntN(4) > 0 {
						w.post(fmt.Sprint("GPU-", g))
					}
				}
				for _, k := range w.l.expire() {
					delete(w.seen, k)
				}
				w.commit(false)
			}
			if i%4 == 3 {
				w.audit()
			}
		}
	}
}
