// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// timed is a reader that keeps a histogram of how long readings take, and skips costly ones that aren't needed: under
// load the energy counter takes 3 to 15 ms and the GPM counters 14 ms (H100s with driver 580), which for eight GPUs
// would be more than a hundredth of a core. It reads one GPU at a time: the driver does so anyway, and waiting
// inside it takes the time of a core.
type timed struct {
	telemetry.Reader
	seconds *prometheus.HistogramVec
	// wantsGPM reports that a device's GPM counters are needed.
	wantsGPM func(device int) bool
	turn     chan struct{} // held by the reading goroutine
	hangs    atomic.Bool   // it takes too long
	patience time.Duration // how long others wait before they go ahead

	mu     sync.Mutex
	last   map[int]*processList
	energy map[int]int // readings since the counter was read
}

// patience bounds a reading's time before others start without waiting for it: a GPU
// that hangs holds up no other. Under load one took up to 18 ms.
const patience = 100 * time.Millisecond

// energyHolds is the number of costly readings for which the energy counter holds. Between
// them it is estimated from the power, averaged over a second and read each second.
const energyHolds = 3

// A list of processes holds for ten cheap readings, and for up to sixty while the memory in use stays the same and
// the driver charges no other process with anything: a process cannot come or go without memory. Of 12,502 pairs of
// successive lists recorded on H100 and H200, no two named other processes where the memory had not changed.
const (
	listHolds    = slowTicks
	listHoldsYet = 6 * slowTicks
)

// processList is a device's last list of processes.
type processList struct {
	list   []telemetry.Process
	used   int                       // how often
	memory sharing.Optional[float64] // in use on the device when it was made
	stale  bool                      // something has changed since
}

func newTimed(r telemetry.Reader, wantsGPM func(device int) bool) *timed {
	m := metricOf("cotenant_exporter_read_seconds")
	return &timed{Reader: r, wantsGPM: wantsGPM, turn: make(chan struct{}, 1), patience: patience,
		last: map[int]*processList{}, energy: map[int]int{}, seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: m.name, Help: m.help,
			Buckets:                     []float64{1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1}, // for scrapers without native histograms
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}, m.labels[1:])}
}

func (t *timed) Read(ctx context.Context, device int, group telemetry.Groups, r *telemetry.Reading) error {
	switch {
	case group == telemetry.GroupGPM && !t.wantsGPM(device):
		return fmt.Errorf("%w: its GPM counters are not needed", telemetry.ErrUnsupported)
	case group == telemetry.GroupProcesses && t.again(device, r), group == telemetry.GroupEnergy && t.holds(device):
		return nil
	}
	leave := t.enter()
	begun := time.Now()
	err := t.Reader.Read(ctx, device, group, r)
	leave()
	t.seconds.WithLabelValues(group.String()).Observe(time.Since(begun).Seconds())
	t.note(device, group, r, err)
	return err
}

// enter waits for its turn, but not for a reading that takes too long.
func (t *timed) enter() (leave func()) {
	if !t.hangs.Load() {
		timer := time.NewTimer(t.patience)
		defer timer.Stop()
		select {
		case t.turn <- struct{}{}:
			return func() {
				t.hangs.Store(false)
				<-t.turn
			}
		case <-timer.C:
			t.hangs.Store(true)
		}
	}
	return func() {}
}

// holds reports that the energy counter need not be read.
func (t *timed) holds(device int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, read := t.energy[device]
	if !read || n+1 >= energyHolds {
		return false
	}
	t.energy[device]++
	return true
}

// again gives the last list, while it holds.
func (t *timed) again(device int, r *telemetry.Reading) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.last[device]
	if p == nil || p.used >= listHoldsYet || p.used >= listHolds && (p.stale || p.memory.IsZero()) {
		return false
	}
	p.used++
	r.Processes = append(r.Processes, p.list...)
	return true
}

// note keeps a list, and the signs that it is out of date.
func (t *timed) note(device int, group telemetry.Groups, r *telemetry.Reading, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.last[device]
	switch group {
	case telemetry.GroupBasic:
		if p != nil {
			v, ok := r.Get(telemetry.MetricMemUsedBytes)
			p.stale = p.stale || !ok || v != p.memory.Or(v)
		}
	case telemetry.GroupProcessUtil:
		for i := range r.Processes {
			if p != nil && !slices.ContainsFunc(p.list, func(q telemetry.Process) bool { return q.PID == r.Processes[i].PID }) {
				p.stale = true
			}
		}
	case telemetry.GroupEnergy:
		delete(t.energy, device)
		if _, ok := r.Get(telemetry.MetricEnergyJoules); ok && err == nil {
			t.energy[device] = 0
		}
	case telemetry.GroupProcesses:
		t.last[device] = nil
		if err == nil {
			p = &processList{list: slices.Clone(r.Processes), used: 1}
			if v, ok := r.Get(telemetry.MetricMemUsedBytes); ok { // of the same cheap reading
				p.memory = sharing.Some(v)
			}
			t.last[device] = p
		}
	}
}

// scaledClock runs speed times as fast as the wall clock since a start that is
// kept with the state, so that a simulated node goes on while the program is not running.
func scaledClock(start time.Time, speed float64) ledger.Clock {
	begun := time.Now()
	before := max(begun.Sub(start.Round(0)), 0)
	return ledger.Clock{Name: "simulated", Now: func() time.Duration {
		return time.Duration(float64(before+time.Since(begun)) * speed)
	}}
}

// Costly readings come ten times as seldom as cheap ones, but no later than the driver keeps its samples.
const (
	slowTicks   = 10
	minRealTick = 25 * time.Millisecond
	minRealSlow = 100 * time.Millisecond // the least time between two readings of GPM
)

// periods returns the real time between cheap and between costly readings.
func periods(period time.Duration, speed float64) (fast, slow time.Duration) {
	fast = max(time.Duration(float64(period)/cmp.Or(speed, 1)), minRealTick)
	return fast, max(min(slowTicks*fast, ledger.DriverKeeps), fast, minRealSlow)
}

// bootClock counts from the system's start by the files under the host's root folder, so that it goes on over restarts
// of the program; where there are none, from the program's start.
func bootClock(root fs.FS) ledger.Clock {
	begun := time.Now()
	id, err := fs.ReadFile(root, "proc/sys/kernel/random/boot_id")
	up, err2 := fs.ReadFile(root, "proc/uptime")
	before, err3 := time.ParseDuration(strings.SplitN(string(up), " ", 2)[0] + "s")
	name := "boot " + strings.TrimSpace(string(id))
	if errors.Join(err, err2, err3) != nil {
		name, before = "process "+begun.UTC().Format(time.RFC3339Nano), 0
	}
	return ledger.Clock{Name: name, Now: func() time.Duration { return before + time.Since(begun) }}
}
