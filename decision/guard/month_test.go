// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// restless adds a process that lives ten minutes to the readings of each device, and fails on one for an hour a day.
type restless struct {
	telemetry.Reader
	start time.Time
}

func (c restless) Read(ctx context.Context, device int, group telemetry.Groups, r *telemetry.Reading) error {
	since := time.Since(c.start)
	if device == 1 && since%(24*time.Hour) < time.Hour {
		return errors.New("unknown error")
	}
	err := c.Reader.Read(ctx, device, group, r)
	if group&(telemetry.GroupProcesses|telemetry.GroupProcessUtil) != 0 {
		r.Processes = append(r.Processes, telemetry.Process{PID: 1_000_000 + uint32(2*(since/(10*time.Minute))) + uint32(device), Name: "job", SMUtilPercent: sharing.Some(5.0)})
	}
	return err
}

// TestThirtyDays runs a guard for thirty days with its log, while processes come and go, a GPU fails for an hour a day
// and a notebook idles: the live heap of the 30th day is that of the first.
func TestThirtyDays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	synctest.Test(t, func(t *testing.T) {
		busy := map[telemetry.Metric]float64{telemetry.MetricGPUUtilPercent: 60, telemetry.MetricPowerWatts: 400}
		day := telemetrytest.GPU{Loop: true, Phases: []telemetrytest.Phase{
			{For: 18 * time.Hour, Figures: busy, Processes: []telemetry.Process{{PID: 1, SMUtilPercent: sharing.Some(50.0)}, {PID: 2}}},
			{For: 6 * time.Hour, Figures: busy, Processes: []telemetry.Process{{PID: 1, SMUtilPercent: sharing.Some(30.0)}, {PID: 2, SMUtilPercent: sharing.Some(20.0)}}},
		}}
		base, err := telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{day, day}})
		if err != nil {
			t.Fatal(err)
		}
		c := &Config{Reap: true}
		for i := range 2 {
			c.GPUs = append(c.GPUs, layout.Device{Mode: sharing.MechanismTimeSlicing})
			name := string(rune('a' + i))
			c.Tenants = append(c.Tenants, Tenant{Name: name + "/job", GPU: i, Kind: decision.KindBatch, PIDs: []uint32{1}},
				Tenant{Name: name + "/book", GPU: i, Kind: decision.KindNotebook, PIDs: []uint32{2}, MayReap: true, Holds: 0.5})
		}
		l := open(t, path)
		a := &Actor{Do: succeed, Log: l}
		var live []uint64 // bytes after days 1, 10 and 30
		acts := 0
		ended := errors.New("ended")
		err = Run(t.Context(), restless{base, time.Now()}, DefaultRules(10*time.Minute), c, a, func(o Observation, list []Proposal) error {
			acts += len(list)
			if o.At != 24*time.Hour && o.At != 240*time.Hour && o.At != 720*time.Hour {
				return nil
			}
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			if live = append(live, m.HeapAlloc); len(live) < 3 {
				return nil
			}
			return ended
		})
		if !errors.Is(err, ended) || acts < 60 || max(live[1], live[2]) > live[0]+64<<10 {
			t.Errorf("%v bytes after 1, 10 and 30 days, %d proposals, %v", live, acts, err)
		}
	})
}
