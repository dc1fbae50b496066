// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
)

// Device is a GPU at present.
type Device struct {
	UUID, Name string
	Down       string            // why it does not answer; "" if it does
	Mechanism  sharing.Mechanism // of its last window
	Price      cost.Money        // of an hour; zero = none
	// The last readings; missing where not read.
	Watts, MemUsed, MemTotal sharing.Optional[float64]
	// Held and Slots count its devices given to pods and offered to them; missing if the kubelet does not report them.
	Held, Slots sharing.Optional[int]
	// Memory holds the bytes of each tenant's processes; the zero Pod has the processes of no pod.
	Memory   map[container.Pod]float64
	Resident int // containers with a process on it
	// Stalled answers whether it always reports kernels but draws little more power than when idle.
	Stalled sharing.Answer
	Unknown map[container.Reason]int // processes of no pod
}

// device holds the known state of a GPU.
type device struct {
	Device // without the findings of Status
	seen
	mig      sharing.Answer
	minor    sharing.Optional[int]
	gap      bool                 // not observed since an earlier run
	last     time.Duration        // of the last cheap reading
	layout   []telemetry.Instance // the last instances that were listed
	energyAt time.Duration        // of the last reading of the energy counter
	ahead    float64              // joules that were posted by power since then

	// deepIdle and contextIdle are the lowest power while nothing ran, with nothing resident and with something.
	deepIdle, contextIdle sharing.Optional[float64]
	busiest               float64             // highest mean power of a window
	list                  []telemetry.Process // as last read
	listed                []*process          // the same, resolved
}

// seen holds the observations of the present window.
type seen struct {
	begun     time.Duration
	util      mean
	power     mean
	whole     sharing.Optional[float64] // the utilization of all of it
	procs     map[uint32]*process
	util1     map[uint32]float64 // by process, as shares
	measured  bool               // util1 is there
	listing   bool               // processes were listed
	instances []telemetry.Instance
	energy    sharing.Optional[float64] // the counter's newest reading
}

func newSeen(now time.Duration) seen {
	return seen{begun: now, procs: map[uint32]*process{}, util1: map[uint32]float64{}}
}

type process struct {
	identity container.Identity
	memory   sharing.Optional[sharing.Bytes]
	instance sharing.Optional[int]
	overhead bool
}

func (p *process) pod() container.Pod {
	if p.overhead || !p.identity.Known() {
		return container.Pod{}
	}
	return p.identity.Pod.Clean()
}

type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

func (m *mean) get() sharing.Optional[float64] {
	if m.n == 0 {
		return sharing.Optional[float64]{}
	}
	return sharing.Some(m.sum / float64(m.n))
}

// mpsServer is the name of the process that runs the kernels of MPS clients.
const mpsServer = "nvidia-cuda-mps-server"
