// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"sync"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// Latest keeps the newest figures of each device. It is a Sink and is safe for concurrent use.
// Figures that are older than three slow periods are missing again.
type Latest struct {
	mu       sync.Mutex
	h        Header
	devs     []latestDevice
	newest   time.Duration // of all samples
	received time.Time     // when that sample came
}

type latestDevice struct {
	aged
	processes []Process
	procAt    sharing.Optional[time.Duration]
	instances []Instance
	instAt    time.Duration
	down      sharing.Optional[Event] // why the device does not answer
}

// Begin discards all figures and takes a header.
func (l *Latest) Begin(h Header) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.h, l.devs = h, make([]latestDevice, len(h.Devices))
	l.newest, l.received = 0, time.Now()
	return nil
}

// Sample takes the figures of a sample.
func (l *Latest) Sample(x *Sample) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.h.check(x.Device); err != nil {
		return err
	}
	l.newest, l.received = max(l.newest, x.At), time.Now()
	d := &l.devs[x.Device]
	d.take(x.At, &x.figures)
	if x.Groups.Has(GroupProcesses) {
		d.processes, d.procAt = x.Processes, sharing.Some(x.At)
	}
	if x.Groups.Has(GroupGPM) {
		d.instances, d.instAt = x.Instances, x.At
	}
	return nil
}

// Event notes which devices are down.
func (l *Latest) Event(e Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.devs == nil {
		return errNotBegun
	}
	if i := e.Device; l.h.check(i) == nil {
		switch e.Kind {
		case EventLost, EventHung, EventFailing:
			l.devs[i].down = sharing.Some(e)
		case EventBack:
			l.devs[i].down = sharing.Optional[Event]{}
		}
	}
	return nil
}

func (l *Latest) fresh(at time.Duration) bool {
	return l.newest-at <= l.h.maxAge() && time.Since(l.received) <= l.h.maxAge()
}

// recent reports whether there was such a reading that still holds.
func (l *Latest) recent(at sharing.Optional[time.Duration]) bool {
	t, ok := at.Get()
	return ok && l.fresh(t)
}

// live calls f with a device that is known and not down.
func (l *Latest) live(device int, f func(*latestDevice)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.h.check(device) == nil && l.devs[device].down.IsZero() {
		f(&l.devs[device])
	}
}

// Get returns the newest figure of a device, if it is recent.
func (l *Latest) Get(device int, m Metric) (v float64, ok bool) {
	l.live(device, func(d *latestDevice) { v, ok = l.figure(d, m) })
	return v, ok
}

func (l *Latest) figure(d *latestDevice, m Metric) (float64, bool) {
	v, ok := d.Get(m)
	if !ok || !l.fresh(d.at[m]) {
		return 0, false
	}
	return v, true
}

// Down returns the event of a device that is down, EventLost, EventHung or EventFailing, with the reason as its detail;
// it is missing for a device that works.
func (l *Latest) Down(device int) sharing.Optional[Event] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.h.check(device) != nil {
		return sharing.Optional[Event]{}
	}
	return l.devs[device].down
}

// Processes returns the processes of a device and whether they were listed recently. The slice must not be changed.
func (l *Latest) Processes(device int) (list []Process, ok bool) {
	l.live(device, func(d *latestDevice) {
		if ok = l.recent(d.procAt); ok {
			list = d.processes
		}
	})
	return list, ok
}

// Instances returns the MIG instances of a device with their newest figures, none if the figures are not recent. The
// slice must not be changed.
func (l *Latest) Instances(device int) (list []Instance) {
	l.live(device, func(d *latestDevice) {
		if l.fresh(d.instAt) {
			list = d.instances
		}
	})
	return list
}
