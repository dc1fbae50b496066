// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// stuck is a reader whose device 1 hangs in the driver, from a time on until it is released: it heeds no context.
type stuck struct {
	telemetry.Reader
	start   time.Time
	after   time.Duration
	groups  telemetry.Groups
	release chan struct{}
}

func (s *stuck) Read(ctx context.Context, device int, group telemetry.Groups, r *telemetry.Reading) error {
	if device == 1 && s.groups&group != 0 && time.Since(s.start) >= s.after {
		<-s.release
	}
	return s.Reader.Read(ctx, device, group, r)
}

func (s *stuck) free() { close(s.release) }

func threeGPUs(t testing.TB) telemetry.Reader {
	var script telemetrytest.Script
	for range 3 {
		script.GPUs = append(script.GPUs, telemetrytest.GPU{Phases: []telemetrytest.Phase{{Figures: figures{telemetry.MetricPowerWatts: 100}}}})
	}
	return source(t, script)
}

// guarded is a sink that must not be called once it is closed.
type guarded struct {
	telemetry.Series
	mu     sync.Mutex
	closed bool
	late   int
}

func (g *guarded) Sample(x *telemetry.Sample) error {
	g.called()
	return g.Series.Sample(x)
}

func (g *guarded) Event(e telemetry.Event) error {
	g.called()
	return g.Series.Event(e)
}

func (g *guarded) called() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		g.late++
	}
}

// TestAHungGPU: a device that blocks in Read is down within the stall, with a reason; the others are read as ever, and
// the end of the context ends the sampling.
func TestAHungGPU(t *testing.T) {
	for _, groups := range []telemetry.Groups{telemetry.GroupsFast | telemetry.GroupsSlow, telemetry.GroupBasic, telemetry.GroupEnergy} {
		synctest.Test(t, func(t *testing.T) {
			src := &stuck{Reader: threeGPUs(t), start: time.Now(), after: 950 * time.Millisecond, groups: groups, release: make(chan struct{})}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+50*time.Millisecond)
			defer cancel()
			defer src.free()
			l, kept := new(telemetry.Latest), new(telemetry.Series)
			if err := sampler(t, src, telemetry.SamplerOptions{}).Stream(ctx, l, kept); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(src.start); took > 11100*time.Millisecond { // it waits a second for readings that are under way
				t.Errorf("the sampling ended after %v", took)
			}
			for _, d := range []int{0, 2} {
				if n := len(kept.Points(d, telemetry.MetricPowerWatts)); n != 101 {
					t.Errorf("GPU %d has %d readings, want 101", d, n)
				}
			}
			if e := kept.Events; len(e) != 1 || e[0].At != 3*time.Second || e[0].Length != 2*time.Second || e[0].Device != 1 || !strings.Contains(e[0].Detail, "does not return") {
				t.Errorf("events %+v", kept.Events)
			}
			if e, ok := l.Down(1).Get(); !ok || e.Kind != telemetry.EventHung || !l.Down(0).IsZero() {
				t.Errorf("down: %v, %v", l.Down(0), l.Down(1))
			}
		})
	}
}

// TestAHungGPUComesBack: when the driver answers again the device is up, and the missed ticks are a gap of that device.
func TestAHungGPUComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &stuck{Reader: threeGPUs(t), start: time.Now(), after: time.Second, groups: telemetry.GroupBasic, release: make(chan struct{})}
		time.AfterFunc(5*time.Second+time.Millisecond, src.free)
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second+50*time.Millisecond)
		defer cancel()
		l := new(telemetry.Latest)
		s := new(telemetry.Series)
		if err := sampler(t, src, telemetry.SamplerOptions{}).Stream(ctx, s, l); err != nil {
			t.Fatal(err)
		}
		want := []telemetry.Event{
			{Kind: telemetry.EventHung, At: 3 * time.Second, Device: 1, Length: 2 * time.Second, Detail: "reading basic does not return"},
			{Kind: telemetry.EventBack, At: 5*time.Second + time.Millisecond, Device: 1},
			{Kind: telemetry.EventGap, At: 5*time.Second + time.Millisecond, Device: 1, Length: 4*time.Second + time.Millisecond, Count: 39, Detail: "100ms clock"},
		}
		if d := cmp.Diff(want, s.Events); d != "" {
			t.Error(d)
		}
		if !l.Down(1).IsZero() {
			t.Errorf("lost: %v", l.Down(1))
		}
		if n := len(s.Points(1, telemetry.MetricPowerWatts)); n != 10+2+30 { // the one that hung among them
			t.Errorf("%d readings", n)
		}
	})
}

// slow is a reader whose calls take a random time, heed no context, and are counted when they return.
type slow struct {
	telemetry.Reader
	most time.Duration

	mu       sync.Mutex
	rng      *rand.Rand
	returned map[[2]int]int // by device and group
}

func (s *slow) Read(ctx context.Context, device int, group telemetry.Groups, r *telemetry.Reading) error {
	s.mu.Lock()
	takes := time.Duration(s.rng.Int64N(int64(s.most)))
	s.mu.Unlock()
	time.Sleep(takes)
	err := s.Reader.Read(context.WithoutCancel(ctx), device, group, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.returned[[2]int{device, int(group)}]++
	}
	return err
}

// TestStoppedInTheMiddle: wherever the context ends, Stream returns within a second, the readings until then are in the
// series, nothing comes later, and no goroutine stays once the calls have returned (the bubble would not end).
func TestStoppedInTheMiddle(t *testing.T) {
	for seed := range uint64(nightly.Cases(40, 1000)) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 55))
			src := &slow{Reader: threeGPUs(t), rng: rng, returned: map[[2]int]int{}, most: []time.Duration{200 * time.Millisecond, 3 * time.Second}[seed%2]}
			stop := time.Duration(rng.Int64N(int64(5 * time.Second)))
			ctx, cancel := context.WithTimeout(t.Context(), stop)
			defer cancel()
			start, kept := time.Now(), new(guarded)
			// A tick of one reading: of two the first waits for the second.
			if err := sampler(t, src, telemetry.SamplerOptions{Skip: telemetry.GroupProcesses}).Stream(ctx, kept); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < stop || took > stop+time.Second {
				t.Errorf("seed %d: stopped after %v, it ended after %v", seed, stop, took)
			} else if hangs := func(e telemetry.Event) bool { return e.Kind == telemetry.EventHung }; took == stop+time.Second && !slices.ContainsFunc(kept.Events, hangs) {
				t.Errorf("seed %d: the call that never returned is not named: %+v", seed, kept.Events)
			}
			kept.mu.Lock()
			kept.closed = true
			got := map[[2]int]int{}
			for x := range kept.All() {
				for g := telemetry.GroupBasic; g <= telemetry.GroupPCIe; g <<= 1 {
					if x.Groups.Has(g) {
						got[[2]int{x.Device, int(g)}]++
					}
				}
			}
			kept.mu.Unlock()
			src.mu.Lock()
			if d := cmp.Diff(src.returned, got); d != "" {
				t.Errorf("seed %d: the readings and the series differ:\n%s", seed, d)
			}
			src.mu.Unlock()
			time.Sleep(time.Minute)
			if kept.late > 0 {
				t.Errorf("seed %d: the sink got %d more after Stream had returned", seed, kept.late)
			}
		})
	}
}

// TestAFailingGPU: a device whose every reading fails is down, with the error;
// groups that it does not have say nothing, and one that answers is enough.
func TestAFailingGPU(t *testing.T) {
	broken := errors.New("unknown error")
	all := map[telemetry.Groups]error{}
	for g := telemetry.GroupBasic; g <= telemetry.GroupPCIe; g <<= 1 {
		all[g] = broken
	}
	all[telemetry.GroupPCIe] = telemetry.ErrUnsupported
	some := map[telemetry.Groups]error{telemetry.GroupBasic: broken, telemetry.GroupEnergy: broken}
	busy := figures{telemetry.MetricPowerWatts: 300}
	script := telemetrytest.Script{GPUs: []telemetrytest.GPU{
		{Phases: []telemetrytest.Phase{{For: 2500 * time.Millisecond, Figures: busy, Fail: all}, {Figures: busy}}},
		{Phases: []telemetrytest.Phase{{Figures: busy, Fail: some}}},
	}}
	l := new(telemetry.Latest)
	s := simulated(t, script, telemetry.SamplerOptions{}, 2*time.Second)
	if err := s.Replay(l); err != nil {
		t.Fatal(err)
	}
	if e, ok := l.Down(0).Get(); !ok || e.Kind != telemetry.EventFailing || !strings.Contains(e.Detail, "unknown error") {
		t.Errorf("%+v", l.Down(0))
	}
	if !l.Down(1).IsZero() {
		t.Error("a device that answers some readings is down")
	}
	s = simulated(t, script, telemetry.SamplerOptions{}, 4*time.Second)
	var kinds []telemetry.EventKind
	for _, e := range s.Events {
		if e.Device == 0 && e.Kind != telemetry.EventReadError {
			kinds = append(kinds, e.Kind)
		}
	}
	if d := cmp.Diff([]telemetry.EventKind{telemetry.EventFailing, telemetry.EventBack}, kinds); d != "" {
		t.Error(d)
	}
}

// moody is a reader whose devices hang or fail for a while.
type moody struct {
	telemetry.Reader
	start time.Time
	moods []mood
}

type mood struct {
	from, until time.Duration
	groups      telemetry.Groups
	fails       bool // instead of hanging
}

func (m *moody) Read(ctx context.Context, device int, group telemetry.Groups, r *telemetry.Reading) error {
	d, at := m.moods[device], time.Since(m.start)
	if d.groups&group != 0 && at >= d.from && at < d.until {
		if d.fails {
			return errors.New("unknown error")
		}
		time.Sleep(d.until - at)
	}
	return m.Reader.Read(ctx, device, group, r)
}

// TestMoodyGPUs: whatever hangs or fails, each device is judged on its own and
// in time, the well ones miss no reading, and the sampling ends.
func TestMoodyGPUs(t *testing.T) {
	all := telemetry.GroupsFast | telemetry.GroupsSlow
	for seed := range uint64(nightly.Cases(30, 300)) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 12))
			span := 10*time.Second + 50*time.Millisecond
			var script telemetrytest.Script
			src := &moody{start: time.Now()}
			for range 8 {
				script.GPUs = append(script.GPUs, telemetrytest.GPU{Phases: []telemetrytest.Phase{{Figures: figures{telemetry.MetricPowerWatts: 100}}}})
				m := mood{from: time.Duration(rng.IntN(10_000)) * time.Millisecond, fails: rng.IntN(2) == 0}
				m.until = m.from + time.Duration(rng.IntN(15_000))*time.Millisecond
				if rng.IntN(3) > 0 {
					m.groups = telemetry.Groups(rng.IntN(int(all) + 1))
				}
				if rng.IntN(3) == 0 {
					m.groups = all
				}
				src.moods = append(src.moods, m)
			}
			src.Reader = source(t, script)
			ctx, cancel := context.WithTimeout(t.Context(), span)
			defer cancel()
			l, s := new(telemetry.Latest), new(telemetry.Series)
			if err := sampler(t, src, telemetry.SamplerOptions{}).Stream(ctx, l, s); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(src.start); took > span+time.Second {
				t.Errorf("seed %d: ended after %v", seed, took)
			}
			for d, m := range src.moods {
				down := l.Down(d).Or(telemetry.Event{}).Kind
				basic := len(s.Points(d, telemetry.MetricPowerWatts))
				at := time.Duration(0) // when it went down last
				for _, e := range s.Events {
					if e.Device == d && (e.Kind == telemetry.EventHung || e.Kind == telemetry.EventFailing) {
						at = e.At
					}
				}
				switch {
				case m.groups == 0:
					if down != "" || basic != 101 || at != 0 {
						t.Errorf("seed %d: the well GPU %d: %v, %d readings", seed, d, down, basic)
					}
				case m.fails && m.groups != all:
					if down != "" || at != 0 {
						t.Errorf("seed %d: GPU %d answers some readings, and is %v", seed, d, down)
					}
				case m.fails: // every group is read again within a second
					if long := min(m.until, span)-m.from >= 1200*time.Millisecond; long && at == 0 || at > 0 && at > m.from+1200*time.Millisecond {
						t.Errorf("seed %d: GPU %d failing from %v to %v: %v", seed, d, m.from, m.until, at)
					}
					if m.until < span-1200*time.Millisecond && down != "" {
						t.Errorf("seed %d: GPU %d fails no more since %v, and is %v", seed, d, m.until, down)
					}
				case m.groups.Has(telemetry.GroupBasic): // read within 100 ms
					if long := min(m.until, span)-m.from >= 2100*time.Millisecond; long && (at == 0 || at > m.from+2100*time.Millisecond) {
						t.Errorf("seed %d: GPU %d hangs from %v to %v: %v", seed, d, m.from, m.until, at)
					}
					fallthrough
				default:
					if m.until < span-1200*time.Millisecond && down != "" {
						t.Errorf("seed %d: GPU %d hangs no more since %v, and is %v", seed, d, m.until, down)
					}
				}
			}
			time.Sleep(time.Minute) // for readings that still hang
		})
	}
}
