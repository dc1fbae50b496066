// SPDX-License-Identifier: Apache-2.0

package contention_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/mps/contention"
	"github.com/cotenant/cotenant/timeslice"
)

// client submits n pieces of work, each after a pause, and notes when they end.
type client struct {
	n           int
	work, pause time.Duration
	demand      contention.Demand
	begun       bool
	ends        []time.Duration
}

func (c *client) Next(now time.Duration) (timeslice.Work, bool) {
	if c.begun {
		c.ends = append(c.ends, now.Round(time.Microsecond))
	}
	c.begun = c.n > 0
	c.n--
	return timeslice.Work{At: now + c.pause, GPU: c.work}, c.begun
}

func (c *client) Demand() contention.Demand { return c.demand }

func TestGPU(t *testing.T) {
	const ms = time.Millisecond
	law := contention.Law{FillsGPU: 0.8, SlowestSpeed: 0.02}
	for _, c := range []struct {
		name        string
		arbitration float64
		bySMs       bool
		clients     []client
		want        [][]time.Duration
	}{
		{"isolated", 0.5, false, []client{{n: 2, work: 10 * ms, pause: ms, demand: contention.Demand{Holds: 1, Waits: 1}}},
			[][]time.Duration{{11 * ms, 22 * ms}}},
		// 1/(1+0.5x0.4) and 1/(1+0.2x1.5): b's 10 ms end at 13, when a has done 13/1.2 of 20.
		{"hold one another up", 0, false, []client{{n: 1, work: 20 * ms, demand: contention.Demand{Holds: 1.5, Waits: 0.5}},
			{n: 1, work: 10 * ms, demand: contention.Demand{Holds: 0.4, Waits: 0.2}}}, [][]time.Duration{{22167 * time.Microsecond}, {13 * ms}}},
		// b comes at 4 ms; from then on both take 1.25 times as long.
		{"arbitration", 0.25, false, []client{{n: 1, work: 8 * ms}, {n: 1, work: 4 * ms, pause: 4 * ms}}, [][]time.Duration{{9 * ms}, {9 * ms}}},
		// a at r = 1-0.5s and b at s = 1-0.2r, 5/9 and 8/9: b's 2 ms end at 2.25 ms, when a has 0.75 ms left.
		{"SMs held", 0, true, []client{{n: 1, work: 2 * ms, demand: contention.Demand{SMs: 0.2}}, {n: 1, work: 2 * ms, demand: contention.Demand{SMs: 0.5}}},
			[][]time.Duration{{3 * ms}, {2250 * time.Microsecond}}},
		{"the slower of both laws", 0, true, []client{{n: 1, work: 20 * ms, demand: contention.Demand{Holds: 1.5, Waits: 0.5, SMs: 0.1}},
			{n: 1, work: 10 * ms, demand: contention.Demand{Holds: 0.4, Waits: 0.2, SMs: 0.1}}}, [][]time.Duration{{22167 * time.Microsecond}, {13 * ms}}},
		// The one launched first runs, and the other waits for it.
		{"both fill the GPU", 0, true, []client{{n: 1, work: 2 * ms, demand: contention.Demand{SMs: 0.9, Filled: 0.9}},
			{n: 1, work: 2 * ms, demand: contention.Demand{SMs: 0.9, Filled: 0.9}, pause: ms}}, [][]time.Duration{{2 * ms}, {3980 * time.Microsecond}}},
		// The waiting one takes the room that the other leaves: a third has a tenth of the SMs, no more than next to it alone.
		{"next to two that fill the GPU", 0, true, []client{{n: 1, work: ms}, {n: 1, work: 20 * ms, demand: contention.Demand{SMs: 0.8, Filled: 0.8}},
			{n: 1, work: 2 * ms, demand: contention.Demand{SMs: 0.9, Filled: 0.9}}}, [][]time.Duration{{10 * ms}, {20 * ms}, {21600 * time.Microsecond}}},
	} {
		for _, look := range []time.Duration{ms / 3, time.Second} {
			gpu := contention.GPU{Law: law, BySMs: c.bySMs}
			gpu.Arbitration = c.arbitration
			clients := make([]client, len(c.clients))
			copy(clients, c.clients)
			for i := range clients {
				gpu.Attach(&clients[i])
			}
			for at := time.Duration(0); at < time.Second; at += look {
				gpu.Advance(at)
			}
			_, more := gpu.Advance(time.Second)
			for i, want := range c.want {
				if diff := cmp.Diff(want, clients[i].ends); diff != "" || more {
					t.Errorf("%s, looked at every %v: client %d: %s", c.name, look, i, diff)
				}
			}
		}
	}
}

// A client that is off the GPU holds nobody up, and one that had no work is asked again.
func TestAttach(t *testing.T) {
	gpu := contention.GPU{Law: contention.Law{Arbitration: 1}}
	a, b := &client{n: 1, work: 10 * time.Millisecond}, &client{n: 1, work: time.Hour}
	gpu.Attach(a)
	off := gpu.Attach(b)
	gpu.Advance(0)
	gpu.Advance(10 * time.Millisecond)
	off()
	if next, ok := gpu.Advance(11 * time.Millisecond); !ok || next != 15*time.Millisecond {
		t.Errorf("next at %v, %t", next, ok)
	}
	if next, ok := gpu.Advance(20 * time.Millisecond); ok || gpu.Busy() != 15*time.Millisecond {
		t.Errorf("next at %v, %t, busy for %v", next, ok, gpu.Busy())
	}
	a.n = 1
	if next, ok := gpu.Advance(21 * time.Millisecond); !ok || next != 31*time.Millisecond {
		t.Errorf("next at %v, %t", next, ok)
	}
}

// Kernels that read more wait for less and hold others up by more, each within its bounds.
func TestDemandGrows(t *testing.T) {
	law := contention.Law{KernelBandwidth: 0.8, MostReading: 0.85, MemoryBlocking: 0.9, QueueShare: 0.1}
	last := law.Demand(0, 1)
	if math.Abs(last.Holds-0.1) > 1e-12 || last.Waits != 1 {
		t.Errorf("%+v", last)
	}
	for u := 0.05; u < 1; u += 0.05 {
		d := law.Demand(u, 1)
		if u < 0.65 && (d.Holds <= last.Holds || d.Waits >= last.Waits) || d.Waits < 0.149 {
			t.Errorf("at %v: %+v after %+v", u, d, last)
		}
		last = d
	}
}

// A client with part of the SMs to itself holds others up by less the fewer it has, and waits as one that reads little.
func TestDemandOfCapped(t *testing.T) {
	law := contention.Law{KernelBandwidth: 1, MostReading: 0.85, MemoryBlocking: 1, CappedBlocking: 0.5, CappedAlone: 0.2, CappedReading: 0.4}
	for share, want := range map[float64]contention.Demand{1: {Holds: 1, Waits: 0.5}, 0.5: {Holds: 0.3, Waits: 0.8}, 0.25: {Holds: 0.2, Waits: 0.8}} {
		if diff := cmp.Diff(want, law.Demand(0.5, share), cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
			t.Errorf("%v: %s", share, diff)
		}
	}
}

func Example() {
	gpu := contention.GPU{Law: contention.Law{KernelBandwidth: 0.8, MostReading: 0.85, MemoryBlocking: 0.9, QueueShare: 0.1}}
	small, large := &client{n: 1, work: 2 * time.Millisecond, demand: gpu.Law.Demand(0.4, 1)}, &client{n: 1, work: 8 * time.Millisecond, demand: gpu.Law.Demand(0.6, 1)}
	gpu.Attach(small)
	gpu.Attach(large)
	gpu.Advance(0)
	gpu.Advance(time.Second)
	fmt.Println(small.ends, large.ends)
	// Output: [4.8ms] [8.96ms]
}

func ExampleLaw_Demand() {
	law := contention.Law{KernelBandwidth: 0.8, MostReading: 0.85, MemoryBlocking: 0.9, QueueShare: 0.1}
	d := law.Demand(0.4, 1)
	fmt.Printf("holds others up by %.2f, waits for %.2f of a neighbour's holding\n", d.Holds, d.Waits)
	// Output: holds others up by 1.00, waits for 0.50 of a neighbour's holding
}

func ExampleGPU_Attach() {
	var gpu contention.GPU
	off := gpu.Attach(&client{n: 1, work: time.Second})
	fmt.Println(gpu.Advance(0))
	off()
	fmt.Println(gpu.Advance(time.Millisecond))
	// Output:
	// 1s true
	// 0s false
}
