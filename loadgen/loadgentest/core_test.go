package loadgentest

import (
	"errors"
	"math"
	"testing"
	"time"
)

// run gives each client its kernels and returns when each client's task ended.
func run(mode Sharing, quantum, cost time.Duration, clients []coreClient, work [][]kernel) []float64 {
	c := newCore(mode, quantum, cost)
	tasks := make([]*task, len(work))
	for i := range clients {
		tasks[i] = &task{kernels: append([]kernel{}, work[i]...), done: make(chan struct{})}
		cl := clients[i]
		cl.tasks = []*task{tasks[i]}
		c.clients = append(c.clients, &cl)
	}
	ends := make([]float64, len(work))
	for at := c.next(); !math.IsInf(at, 1); at = c.next() {
		c.advance(at)
		for i, t := range tasks {
			select {
			case <-t.done:
				if ends[i] == 0 {
					ends[i] = c.now
				}
			default:
			}
		}
	}
	return ends
}

func repeat(k kernel, n int) []kernel {
	ks := make([]kernel, n)
	for i := range ks {
		ks[i] = k
	}
	return ks
}

func TestCore(t *testing.T) {
	whole := coreClient{sm: 1, bw: 1}
	const msec = 1e-3
	for _, tc := range []struct {
		name    string
		mode    Sharing
		clients []coreClient
		work    [][]kernel
		want    []float64 // s
	}{
		{"alone, no switch", SharingTimeSliced, []coreClient{whole}, [][]kernel{repeat(kernel{msec, 0.5, 0.5}, 10)}, []float64{10 * msec}},
		// Slices of 2 ms and a switch of 0.1 ms between them: a 0-2, b 2.1-4.1, a
		// 4.2-6.2, b 6.3-8.3; a's 4 ms end at 6.2, b's at 8.3.
		{"two in turn", SharingTimeSliced, []coreClient{whole, whole}, [][]kernel{{{4 * msec, 0.5, 0.5}}, {{4 * msec, 0.5, 0.5}}}, []float64{6.2 * msec, 8.3 * msec}},
		// b is done after 1 ms and yields: a 0-2, b 2.1-3.1, a 3.2-5.2.
		{"an idle one yields", SharingTimeSliced, []coreClient{whole, whole}, [][]kernel{{{4 * msec, 1, 1}}, {{1 * msec, 1, 1}}}, []float64{5.2 * msec, 3.1 * msec}},
		{"room for both", SharingConcurrent, []coreClient{whole, whole}, [][]kernel{{{4 * msec, 0.5, 0.3}}, {{4 * msec, 0.5, 0.3}}}, []float64{4 * msec, 4 * msec}},
		// 1.6 of the SMs are wanted: both at 1/1.6 until b's 2 ms are done at 3.2 ms;
		// a then has 2 ms left, alone.
		{"SMs contended", SharingConcurrent, []coreClient{whole, whole}, [][]kernel{{{4 * msec, 0.8, 0.1}}, {{2 * msec, 0.8, 0.1}}}, []float64{5.2 * msec, 3.2 * msec}},
		{"bandwidth contended", SharingConcurrent, []coreClient{whole, whole}, [][]kernel{{{2 * msec, 0.1, 1}}, {{2 * msec, 0.1, 1}}}, []float64{4 * msec, 4 * msec}},
		{"a limit of SMs", SharingConcurrent, []coreClient{{sm: 0.25, bw: 1}}, [][]kernel{{{2 * msec, 0.5, 0.1}}}, []float64{4 * msec}},
		// b's kernels hold SMs for half of the time, a's for a fifth: a runs at r = 1-0.5s and b
		// at s = 1-0.2r, 5/9 and 8/9. b's 2 ms end at 2.25 ms, when a has 0.75 ms left.
		{"SMs held", SharingConcurrent, []coreClient{{sm: 1, bw: 1, hold: 0.2}, {sm: 1, bw: 1, hold: 0.5}}, [][]kernel{{{2 * msec, 0.2, 0.1}}, {{2 * msec, 0.5, 0.1}}}, []float64{3 * msec, 2.25 * msec}},
		{"partitions do not meet", SharingPartitioned, []coreClient{{sm: 0.5, bw: 0.5}, {sm: 0.5, bw: 0.5}}, [][]kernel{{{2 * msec, 1, 0.5}}, {{2 * msec, 0.5, 0.5}}}, []float64{4 * msec, 2 * msec}},
	} {
		got := run(tc.mode, 2*time.Millisecond, 100*time.Microsecond, tc.clients, tc.work)
		for i := range got {
			if math.Abs(got[i]-tc.want[i]) > 1e-8 {
				t.Errorf("%s: client %d ends at %v ms, want %v", tc.name, i, got[i]*1e3, tc.want[i]*1e3)
			}
		}
	}
}

// TestCoreLate: a GPU that has run for days still advances.
func TestCoreLate(t *testing.T) {
	c := newCore(SharingTimeSliced, 2*time.Millisecond, 0)
	c.advance(1e6)
	done := make(chan struct{})
	c.clients = append(c.clients, &coreClient{sm: 1, bw: 1, tasks: []*task{{kernels: []kernel{{1e-4, 1, 1}, {1e-10, 1, 1}}, done: done}}})
	c.advance(1e6 + 1)
	select {
	case <-done:
	default:
		t.Error("the work is not done")
	}
}

func TestModelCheck(t *testing.T) {
	g := NewGPU(GPUOptions{})
	defer g.Close()
	for _, m := range []Model{{SMShare: 2}, {SMHold: 2}, {SMDemand: -1}, {BandwidthShare: math.NaN()}, {StepKernels: -1}, {KernelCV: math.NaN()}} {
		if _, err := NewServer(Options{GPU: g, Model: m}); !errors.Is(err, errModel) {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

func BenchmarkCore(b *testing.B) {
	c := newCore(SharingConcurrent, DefaultQuantum, 0)
	for range 4 {
		c.clients = append(c.clients, &coreClient{sm: 1, bw: 1})
	}
	for b.Loop() {
		for _, cl := range c.clients {
			cl.tasks = append(cl.tasks, &task{kernels: repeat(kernel{1e-3, 0.4, 0.4}, 16), done: make(chan struct{})})
		}
		c.advance(c.now + 1)
	}
}

// TestCoreThen: the steps of a task follow one another in the GPU's time,
// however late somebody looks.
func TestCoreThen(t *testing.T) {
	c := newCore(SharingTimeSliced, 2*time.Millisecond, 0)
	var starts []float64
	step := func() []kernel {
		if len(starts) == 10 {
			return nil
		}
		starts = append(starts, c.now)
		return repeat(kernel{1e-3, 0.5, 0.5}, 3)
	}
	done := make(chan struct{})
	c.clients = append(c.clients, &coreClient{sm: 1, bw: 1, tasks: []*task{{kernels: step(), then: step, done: done}}})
	c.advance(1)
	for i, at := range starts {
		if math.Abs(at-3e-3*float64(i)) > 1e-9 {
			t.Errorf("step %d starts at %v s", i, at)
		}
	}
	select {
	case <-done:
	default:
		t.Error("the task is not done")
	}
	if len(starts) != 10 || math.Abs(c.busy-0.030) > 1e-9 {
		t.Errorf("%d steps, busy for %v s", len(starts), c.busy)
	}
}

// TestCoreThenYields: a context gives up its slice between two steps when
// somebody else has work.
func TestCoreThenYields(t *testing.T) {
	c := newCore(SharingTimeSliced, 5*time.Millisecond, 100*time.Microsecond)
	var ends []float64
	for range 2 {
		n := 0
		c.clients = append(c.clients, &coreClient{sm: 1, bw: 1, tasks: []*task{{kernels: repeat(kernel{1e-3, 0.5, 0.5}, 1), done: make(chan struct{}), then: func() []kernel {
			ends = append(ends, c.now)
			if n++; n == 3 {
				return nil
			}
			return repeat(kernel{1e-3, 0.5, 0.5}, 1)
		}}}})
	}
	c.advance(1)
	for i, at := range ends { // 1 ms each in turn, 0.1 ms between two
		if want := 1e-3 + 1.1e-3*float64(i); math.Abs(at-want) > 1e-9 {
			t.Errorf("end %d is at %v s, want %v", i, at, want)
		}
	}
	if len(ends) != 6 {
		t.Errorf("%d steps", len(ends))
	}
}
