// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// TestDigestOfADay: the digest gives each of the four GPUs of the scripted day its own verdict.
func TestDigestOfADay(t *testing.T) {
	opts := telemetry.SamplerOptions{Period: time.Minute, SlowPeriod: time.Minute}
	d := telemetry.NewDigest(telemetry.IdleOptions{Sustain: 2 * time.Minute})
	if _, err := d.Report(); !errors.Is(err, telemetry.ErrNotBegun) {
		t.Errorf("before it began: %v", err)
	}
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	if err := sampler(t, source(t, telemetrytest.Day(1)), opts).Simulate(t.Context(), start, 24*time.Hour, d); err != nil {
		t.Fatal(err)
	}
	rep, err := d.Report(telemetry.ReapPolicies()...)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"SHORT GAPS", "HELD IDLE", "STALLED", "FREE"} {
		g := rep.GPUs[i]
		if !strings.HasPrefix(g.Verdict, want) || g.Energy.CounterJoules.IsZero() || g.Means[telemetry.MetricPowerWatts] == 0 {
			t.Errorf("GPU %d: %+v", i, g)
		}
	}
	if h := rep.GPUs[2].HoursByState[telemetry.StateStalled]; h < 15.9 || h > 16.1 {
		t.Errorf("stalled for %v hours", h)
	}
	if !strings.Contains(string(rep.GPUs[2].Throttled), "power-cap") || d.Throttle(2).Or("") != "none" {
		t.Errorf("throttled by %v, now by %v", rep.GPUs[2].Throttled, d.Throttle(2))
	}
	if len(rep.Policies) != 3 || rep.Policies[0].Reaped != 1 || len(rep.Events) != 2 || len(rep.Sources.IDs) == 0 {
		t.Errorf("%+v, %v", rep.Policies, rep.Events)
	}
	if data, err := json.Marshal(rep); err != nil || !strings.Contains(string(data), `"hours_by_state":{"active":1.5`) {
		t.Errorf("%s, %v", data, err)
	}
}

// hangs is a reader that hangs in the driver after a while.
type hangs struct {
	telemetry.Reader
	from    time.Time
	release chan struct{}
}

func (h *hangs) Read(ctx context.Context, device int, group telemetry.Groups, r *telemetry.Reading) error {
	if time.Now().After(h.from) {
		<-h.release
	}
	return h.Reader.Read(ctx, device, group, r)
}

func TestDigestOfNoSuchDevice(t *testing.T) {
	d := telemetry.NewDigest(telemetry.IdleOptions{})
	for _, i := range []int{-1, 0, 4} {
		if r, err := d.Idle(i); err == nil || !d.Throttle(i).IsZero() {
			t.Errorf("%d: %v, %v", i, r, d.Throttle(i))
		}
	}
}

// TestAHungGPUIsExposed: the only GPU hangs, so that no sample comes any more.
func TestAHungGPUIsExposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := source(t, oneGPU(telemetrytest.Phase{Figures: figures{telemetry.MetricPowerWatts: 200}}))
		src := &hangs{Reader: script, from: time.Now().Add(1500 * time.Millisecond), release: make(chan struct{})}
		defer close(src.release)
		d := telemetry.NewDigest(telemetry.IdleOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		if err := sampler(t, src, telemetry.SamplerOptions{}).Stream(ctx, d); err != nil {
			t.Fatal(err)
		}
		if e := d.Down(0); e.Or(telemetry.Event{}).Kind != telemetry.EventHung {
			t.Errorf("it is down for %v", e)
		}
	})
}

// TestShortIdlenessIsNotUse: a GPU that was idle for the whole observed time is not reported to be in use.
func TestShortIdlenessIsNotUse(t *testing.T) {
	for _, c := range []struct {
		pauses time.Duration
		want   string
	}{{3 * time.Second, "idle most of the time, too briefly each time to count"}, {time.Second, "in use"}} {
		r := telemetry.IdleReport{Intervals: []telemetry.StateInterval{{To: 3 * time.Second, State: telemetry.StateActive}}, Pauses: c.pauses}
		if got := r.Verdict(); got != c.want {
			t.Errorf("idle for %v of 3s: %q", c.pauses, got)
		}
	}
}
