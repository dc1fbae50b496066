// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
)

// device holds the known state of a GPU.
type device struct {
	Device // without the findings of Status
	seen
	mig      sharing.Answer
	minor    telemetry.Optional[int]
	gap      bool                 // not observed since an earlier run
	last     time.Duration        // of the last cheap reading
	layout   []telemetry.Instance // the last instances that were listed
	energyAt time.Duration        // of the last reading of the energy counter
	ahead    float64              // joules that were posted by power since then

	// deepIdle and contextIdle are the lowest power while nothing ran, with nothing resident and with something.
	deepIdle, contextIdle telemetry.Optional[float64]
	busiest               float64             // highest mean power of a window
	list                  []telemetry.Process // as last read
	listed                []*process          // the same, resolved
}

// seen holds the observations of the present window.
type seen struct {
	begun     time.Duration
	util      mean
	power     mean
	whole     telemetry.Optional[float64] // the utilization of all of it
	procs     map[uint32]*process
	util1     map[uint32]float64 // by process, as shares
	measured  bool               // util1 is there
	listing   bool               // processes were listed
	instances []telemetry.Instance
	energy    telemetry.Optional[float64] // the counter's newest reading
}

func newSeen(now time.Duration) seen {
	return seen{begun: now, procs: map[uint32]*process{}, util1: map[uint32]float64{}}
}

type process struct {
	who      container.Identity
	memory   telemetry.Optional[sharing.Bytes]
	instance telemetry.Optional[int]
	overhead bool
}

func (p *process) pod() container.Pod {
	if p.overhead || !p.who.Known() {
		return container.Pod{}
	}
	return p.who.Pod.Clean()
}

type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

func (m *mean) get() telemetry.Optional[float64] {
	if m.n == 0 {
		return telemetry.Optional[float64]{}
	}
	return telemetry.Some(m.sum / float64(m.n))
}

// identify resolves the listed processes to pods, where the list has changed and at the end of each window,
// which shows an id that was used again meanwhile: asking the system every second would cost more than the driver does.
func (a *Accountant) identify(d *device) {
	pids := make([]uint32, len(d.list))
	for i := range d.list {
		pids[i] = d.list[i].PID
	}
	d.listed = nil
	for i, id := range a.o.Resolver.Resolve(pids...) {
		p := &d.list[i]
		q := d.procs[id.PID]
		switch {
		case q == nil:
			q = &process{who: id}
			d.procs[id.PID] = q
		case id.Reason == container.ReasonReused, q.who.Reason == container.ReasonReused:
			q.who.Reason = container.ReasonReused // until the window ends
		case !q.who.Known():
			q.who = id
		}
		q.memory, q.instance, q.overhead = p.Memory, p.GPUInstance, p.Name == mpsServer
		d.listed = append(d.listed, q)
	}
}

// mpsServer is the name of the process that runs the kernels of MPS clients.
const mpsServer = "nvidia-cuda-mps-server"

// forget drops processes that no window has any more.
func (a *Accountant) forget() {
	var pids []uint32
	for _, d := range a.devs {
		for _, p := range d.listed {
			pids = append(pids, p.who.PID)
		}
		for pid := range d.procs {
			pids = append(pids, pid)
		}
	}
	a.o.Resolver.Keep(pids...)
}
