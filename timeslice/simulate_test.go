// SPDX-License-Identifier: Apache-2.0

package timeslice_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

func simulate(t testing.TB, sim timeslice.Simulation) *timeslice.Result {
	t.Helper()
	res, err := timeslice.Simulate(context.Background(), sim)
	if err != nil {
		t.Fatal(err)
	}
	tot := res.Totals
	if tot.Busy+tot.Switching+tot.Idle != tot.Simulated || tot.Idle < 0 {
		t.Errorf("the GPU's time does not add up: %+v", tot)
	}
	var gpu time.Duration
	for _, r := range res.Tenants {
		gpu += r.GPU
	}
	if gpu != tot.Busy {
		t.Errorf("tenants had the GPU for %v of %v", gpu, tot.Busy)
	}
	if res.Basis != sharing.BasisSimulated {
		t.Errorf("basis %v", res.Basis)
	}
	return res
}

func mean(t testing.TB, l *timeslice.Latency) time.Duration {
	t.Helper()
	m, ok := l.Mean()
	if !ok {
		t.Fatal("no latencies")
	}
	return m
}

// TestSimulatedProbe spins tenants as the quantum probe does and looks at when the first one is off the GPU.
func TestSimulatedProbe(t *testing.T) {
	for n, want := range map[int]time.Duration{2: 2396300 * time.Nanosecond, 4: 6883600 * time.Nanosecond} {
		programs := make([]timeslice.Submitter, n)
		for i := range programs {
			programs[i] = spin{}
		}
		var off, on []time.Duration
		var last time.Duration
		_, _, err := timeslice.Engine{Scheduler: timeslice.H200(), Tenants: programs, Until: time.Second, Observe: func(s timeslice.Slice) {
			if s.Tenant != 0 {
				return
			}
			if last > 0 {
				off = append(off, s.From-last)
			}
			on, last = append(on, s.To-s.From), s.To
		}}.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if len(off) < 50 {
			t.Fatalf("%d gaps", len(off))
		}
		for i := range off {
			within(t, "off", off[i], want, 0.01)
			within(t, "on", on[i], 2090600*time.Nanosecond, 0.01)
		}
	}
}

type spin struct{}

func (spin) Next(now time.Duration) (timeslice.Work, bool) {
	return timeslice.Work{At: now, GPU: time.Hour}, true
}

// TestRoundRobinAgrees: tenants that return to the host for a moment between steps, within 0.1% of the closed form.
func TestRoundRobinAgrees(t *testing.T) {
	for _, steps := range [][]time.Duration{
		{1800 * us, 1800 * us}, {1800 * us, 6500 * us}, {900 * us, 1800 * us, 7 * ms, 2 * ms},
	} {
		sim := timeslice.Simulation{Scheduler: timeslice.H200(), For: time.Minute}
		for _, g := range steps {
			sim.Tenants = append(sim.Tenants, timeslice.Tenant{Step: timeslice.Dist{Mean: g}, Think: timeslice.Dist{Mean: 100 * us}})
		}
		want, err := sim.Scheduler.RoundRobin(steps)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range simulate(t, sim).Tenants {
			// A tenant waits for all the others' turns but for those that go by while its host works.
			got := mean(t, r.Step) + 100*us
			within(t, r.Name, got, want[i].Cycle, 0.001)
		}
	}
}

// TestClosedLoopAgrees: with a small quantum and free switches, tenants with think times agree with mean value analysis
// of a processor-sharing server (Reiser and Lavenberg, J. ACM 27.2, 1980) within 2%.
func TestClosedLoopAgrees(t *testing.T) {
	cycles := []struct{ think, step, want time.Duration }{
		{10 * ms, 5 * ms, 8695652}, {30 * ms, 15 * ms, 26086956}, {5 * ms, 2 * ms, 3599999}}
	for _, cv := range []float64{0, 1, 2} { // the form knows no distributions
		sim := timeslice.Simulation{Scheduler: timeslice.Scheduler{Quantum: 200 * us}, For: 4 * time.Minute, Seed: 7}
		for _, c := range cycles {
			sim.Tenants = append(sim.Tenants, timeslice.Tenant{Step: timeslice.Dist{Mean: c.step, CV: cv}, Think: timeslice.Dist{Mean: c.think, CV: 1}})
		}
		for i, r := range simulate(t, sim).Tenants {
			within(t, r.Name, mean(t, r.Step), cycles[i].want, 0.02)
		}
	}
}

// TestOpenLoopAgrees: many tenants that seldom have a request, 60% busy together, within 3% of M/G/1 processor sharing.
func TestOpenLoopAgrees(t *testing.T) {
	sim := timeslice.Simulation{Scheduler: timeslice.Scheduler{Quantum: 200 * us}, For: 5 * time.Minute, Seed: 3}
	var works []time.Duration
	rho := 0.0 // the GPU's share that all ask for
	for i := range 60 {
		work := time.Duration(1+i%3*2) * ms
		works = append(works, work)
		rho += 10.0 / 3 * work.Seconds()
		sim.Tenants = append(sim.Tenants, timeslice.Tenant{Step: timeslice.Dist{Mean: work, CV: 1}, RatePerSecond: 10.0 / 3})
	}
	got := 0.0
	for i, r := range simulate(t, sim).Tenants {
		got += float64(mean(t, r.Request)) * (1 - rho) / float64(works[i])
	}
	if e := got/float64(len(works)) - 1; math.Abs(e) > 0.03 {
		t.Errorf("off by %.2f%%", 100*e)
	}
}

// TestSaturatedAgrees: always-busy tenants pay n x (1+switch/quantum).
func TestSaturatedAgrees(t *testing.T) {
	s := timeslice.H200()
	for _, n := range []int{2, 5, 7} {
		sim := timeslice.Simulation{Scheduler: s, For: 2 * time.Minute}
		for range n {
			sim.Tenants = append(sim.Tenants, timeslice.Tenant{Step: timeslice.Dist{Mean: 88 * ms}})
		}
		want := time.Duration(float64(n) * 88e6 * (1 + float64(s.Switch)/float64(s.Quantum)))
		for _, r := range simulate(t, sim).Tenants {
			within(t, r.Name, mean(t, r.Request), want, 0.005)
		}
	}
}

func TestIdleTenantYields(t *testing.T) {
	sim := timeslice.Simulation{Scheduler: timeslice.H200(), For: time.Minute, Tenants: []timeslice.Tenant{
		{Name: "busy", Step: timeslice.Dist{Mean: 5 * ms}, Think: timeslice.Dist{Mean: us}},
		{Name: "idle", Step: timeslice.Dist{Mean: ms}, Pause: timeslice.Dist{Mean: 30 * time.Second}},
	}}
	res := simulate(t, sim)
	if m := mean(t, res.Tenants[0].Step); m > 5005*us {
		t.Errorf("a tenant beside an idle one takes %v a step", m)
	}
	who, share, ok := res.Tenants[1].BlamedOn()
	if !ok || who != 0 || share < 0.5 {
		t.Errorf("the idle tenant waited for %d (%.2f, %v)", who, share, ok)
	}
}

// TestWaitsAddUp: waits and run time of a tenant add up to its steps.
func TestWaitsAddUp(t *testing.T) {
	res := simulate(t, timeslice.Simulation{Scheduler: timeslice.H200(), For: time.Minute, Seed: 1, Tenants: []timeslice.Tenant{
		{Step: timeslice.Dist{Mean: 3 * ms, CV: 1}, Think: timeslice.Dist{Mean: 2 * ms, CV: 1}},
		{Step: timeslice.Dist{Mean: 10 * ms, CV: 0.3}, Steps: 4, Pause: timeslice.Dist{Mean: 20 * ms, CV: 1}},
		{Step: timeslice.Dist{Mean: ms}, Steps: 20, Think: timeslice.Dist{Mean: us}, RatePerSecond: 5},
	}})
	for _, r := range res.Tenants {
		booked := r.GPU + r.Switching
		for i, w := range r.WaitedOn {
			if w < 0 {
				t.Errorf("%s waited %v on %d", r.Name, w, i)
			}
			booked += w
		}
		steps := time.Duration(r.Step.Count()) * mean(t, r.Step)
		within(t, r.Name, booked, steps, 0.01) // the last step had not ended
	}
}

func TestSameSeedSameResult(t *testing.T) {
	run := func(seed uint64) string {
		res := simulate(t, timeslice.Simulation{Scheduler: timeslice.H200(), For: 10 * time.Second, Seed: seed, Tenants: mixed(8)})
		text := fmt.Sprint(res.Basis, res.Totals)
		for _, r := range res.Tenants {
			p99, _ := r.Request.Quantile(0.99)
			text += fmt.Sprint(r.Usage, mean(t, r.Step), p99)
		}
		return text
	}
	first, again, other := run(1), run(1), run(2)
	if first != again {
		t.Error("the same seed gives another result")
	}
	if first == other {
		t.Error("another seed gives the same result")
	}
	if !strings.HasPrefix(first, "simulated") {
		t.Error("the result does not say that it is simulated")
	}
}

func TestOverloadIsVisible(t *testing.T) {
	res := simulate(t, timeslice.Simulation{Scheduler: timeslice.H200(), For: 10 * time.Second, Tenants: []timeslice.Tenant{
		{Step: timeslice.Dist{Mean: 20 * ms}, RatePerSecond: 100},
	}})
	if got := res.Tenants[0].Unfinished; got < 400 || got > 600 {
		t.Errorf("%d of some 1000 requests are unfinished, want half", got)
	}
}

func TestSimulateRefuses(t *testing.T) {
	_, err := timeslice.Simulate(context.Background(), timeslice.Simulation{For: -1, Warmup: -1, Tenants: []timeslice.Tenant{
		{Step: timeslice.Dist{Mean: ms, CV: math.NaN()}, Steps: -1, RatePerSecond: math.Inf(1)},
		{Pause: timeslice.Dist{Mean: ms}, RatePerSecond: 1},
	}})
	for _, want := range []string{"scheduler.quantum", "for:", "warmup", "tenants[0].step.cv", "tenants[0].steps", "tenants[0].rate", "tenants[1].step.mean", "tenants[1].pause"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if _, err := timeslice.Simulate(context.Background(), timeslice.Simulation{Scheduler: timeslice.H200()}); err == nil {
		t.Error("no tenants are accepted")
	}
}

func TestSimulateStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := timeslice.Simulate(ctx, timeslice.Simulation{Scheduler: timeslice.H200(), For: 20 * 24 * time.Hour, Tenants: mixed(8)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// A turn of many steps is no reason to finish it first.
	ctx, cancel = context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	tiny := []timeslice.Tenant{{Name: "tiny", Step: timeslice.Dist{Mean: 1}}}
	start := time.Now()
	_, err = timeslice.Simulate(ctx, timeslice.Simulation{Scheduler: timeslice.H200(), For: 20 * time.Second, Tenants: tiny})
	if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
		t.Errorf("got %v after %v", err, took)
	}
}

type program func(now time.Duration) (timeslice.Work, bool)

func (p program) Next(now time.Duration) (timeslice.Work, bool) { return p(now) }

func TestRunRefusesBadPrograms(t *testing.T) {
	for name, p := range map[string]timeslice.Submitter{
		"nil":            nil,
		"negative":       program(func(time.Duration) (timeslice.Work, bool) { return timeslice.Work{GPU: -1}, true }),
		"endless":        program(func(time.Duration) (timeslice.Work, bool) { return timeslice.Work{}, true }),
		"out of range":   program(func(time.Duration) (timeslice.Work, bool) { return timeslice.Work{At: math.MaxInt64, GPU: 1}, true }),
		"too much in it": program(func(time.Duration) (timeslice.Work, bool) { return timeslice.Work{GPU: math.MaxInt64}, true }),
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := (timeslice.Engine{Scheduler: timeslice.H200(), Tenants: []timeslice.Submitter{p}, Until: time.Second}).Run(context.Background()); err == nil {
				t.Error("accepted")
			}
		})
	}
	once := true
	_, tot, err := timeslice.Engine{Scheduler: timeslice.H200(), Until: time.Second, Tenants: []timeslice.Submitter{program(func(time.Duration) (timeslice.Work, bool) {
		more := once
		once = false
		return timeslice.Work{At: ms, GPU: 3 * ms}, more
	})}}.Run(context.Background())
	if err != nil || tot.Simulated != 4*ms || tot.Busy != 3*ms {
		t.Errorf("a program that ends: %+v, %v", tot, err)
	}
}

func mixed(n int) []timeslice.Tenant {
	out := make([]timeslice.Tenant, n)
	for i := range out {
		out[i] = timeslice.Tenant{Step: timeslice.Dist{Mean: time.Duration(1+i) * ms, CV: float64(i%3) / 2}, Think: timeslice.Dist{Mean: 5 * ms, CV: 1}, Steps: 1 + i}
	}
	return out
}

// BenchmarkSimulatedHour simulates an hour of 8 tenants.
func BenchmarkSimulatedHour(b *testing.B) {
	for b.Loop() {
		if _, err := timeslice.Simulate(context.Background(), timeslice.Simulation{Scheduler: timeslice.H200(), For: time.Hour, Tenants: mixed(8)}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEngineRefuses(t *testing.T) {
	for want, e := range map[string]timeslice.Engine{
		"scheduler.quantum": {Until: time.Second},
		"until: must be":    {Scheduler: timeslice.H200()},
		"is -1s":            {Scheduler: timeslice.H200(), Until: -time.Second},
		"is 2562047h":       {Scheduler: timeslice.H200(), Until: 1<<63 - 1},
		"tenants[1]: is nil": {Scheduler: timeslice.H200(), Until: time.Second, Tenants: []timeslice.Submitter{
			program(func(time.Duration) (timeslice.Work, bool) { return timeslice.Work{}, false }), nil}},
	} {
		if usage, _, err := e.Run(t.Context()); err == nil || usage != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %q", usage, err, want)
		}
	}
}

// fewSteps submits n steps of 3 ms, each a moment after the one before, and notes when they end.
type fewSteps struct {
	n    int
	runs bool
	ends []time.Duration
}

func (f *fewSteps) Next(now time.Duration) (timeslice.Work, bool) {
	if f.runs {
		f.ends = append(f.ends, now)
	}
	f.runs = f.n > 0
	f.n--
	return timeslice.Work{At: now + 1, GPU: 3 * ms}, f.runs
}

// A GPU that is advanced step by step gives the results of an Engine, and asks idle tenants again; a tenant that is
// detached is asked no more.
func TestGPUIsTheEngine(t *testing.T) {
	s := timeslice.Scheduler{Quantum: 2 * ms, Switch: 100 * us}
	a, b := &fewSteps{n: 3}, &fewSteps{n: 5}
	if _, _, err := (timeslice.Engine{Scheduler: s, Tenants: []timeslice.Submitter{a, b}, Until: time.Second}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, look := range []time.Duration{50 * us, 700 * us, 100 * ms} {
		gpu, c, d := timeslice.NewGPU(s), &fewSteps{n: 3}, &fewSteps{n: 5}
		gpu.Attach(c)
		off := gpu.Attach(d)
		for at := time.Duration(0); at <= 100*ms; at += look {
			if next, ok := gpu.Advance(at); ok && next < at {
				t.Errorf("next at %v, after %v", next, at)
			}
		}
		if diff := cmp.Diff([][]time.Duration{a.ends, b.ends}, [][]time.Duration{c.ends, d.ends}); diff != "" || gpu.Busy() != 24*ms {
			t.Errorf("looked at every %v, busy for %v: %s", look, gpu.Busy(), diff)
		}
		if next, ok := gpu.Advance(100 * ms); ok {
			t.Errorf("next at %v", next)
		}
		c.n, d.n = 1, 1
		gpu.Advance(200 * ms)
		off()
		gpu.Advance(300 * ms)
		if end := c.ends[len(c.ends)-1]; end != 203*ms+s.Switch+1 || len(d.ends) != 5 {
			t.Errorf("ends at %v, the other at %v", end, d.ends)
		}
	}
}
