package account

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
	Down       string            // why it does not answer; "" when it does
	Mechanism  sharing.Mechanism // of its last window
	Price      cost.Money        // of an hour; zero = none
	// Readings; what is missing was not read.
	Watts, MemUsed, MemTotal telemetry.Optional[float64]
	// Held and Slots count the devices of it that pods were given, and that are
	// offered; missing where the kubelet does not say.
	Held, Slots telemetry.Optional[int]
	// Memory holds the bytes of each tenant's processes, the zero Pod's those of no pod.
	Memory   map[container.Pod]float64
	Resident int                      // containers with a process on it
	Unknown  map[container.Reason]int // processes of no pod
}

// Devices returns the GPUs in the order of the telemetry's header.
func (a *Accountant) Devices() []Device {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]Device, len(a.devs))
	for i, d := range a.devs {
		g := &out[i]
		*g = Device{
			UUID: d.uuid, Name: d.name, Down: d.down, Mechanism: d.mechanism, Price: d.price, Watts: d.watts,
			MemUsed: d.memUsed, MemTotal: d.memTotal, Memory: map[container.Pod]float64{}, Unknown: map[container.Reason]int{},
		}
		held, slots, known := a.holders.of(func(dev container.Device) bool { return a.fits(d, dev) })
		if known {
			n := 0
			for _, devices := range held {
				n += len(devices)
			}
			g.Held, g.Slots = telemetry.Some(n), telemetry.Some(slots)
		}
		resident := map[container.Pod]bool{}
		for _, p := range d.listed {
			if m, ok := p.memory.Get(); ok {
				g.Memory[a.book.Under(p.pod())] += float64(m)
			}
			switch {
			case p.overhead:
			case p.who.Known():
				resident[p.pod()] = true
			default:
				g.Unknown[p.who.Reason]++
			}
		}
		g.Resident = len(resident)
	}
	return out
}

// device holds what was seen of a GPU in its present window.
type device struct {
	uuid, name string
	mig        sharing.Answer
	down       string // the reason, "" while it is up
	gap        bool   // nobody has looked since another run
	price      cost.Money

	begun     time.Duration // of the window
	last      time.Duration // of the last cheap reading
	util      mean
	power     mean
	whole     telemetry.Optional[float64] // the utilization of all of it
	procs     map[uint32]*process
	util1     map[uint32]float64 // by process, of the window, as shares
	measured  bool               // util1 is there
	instances []telemetry.Instance
	layout    []telemetry.Instance        // the last ones there were
	energy    telemetry.Optional[float64] // the counter's newest reading in this window
	energyAt  time.Duration
	ahead     float64 // joules that were posted by power since the counter was read

	deepIdle  telemetry.Optional[float64] // lowest power with nothing resident
	mechanism sharing.Mechanism
	memUsed   telemetry.Optional[float64]
	memTotal  telemetry.Optional[float64]
	watts     telemetry.Optional[float64]
	// listed are the processes of the last list, which outlast the window.
	listed []*process
	list   []telemetry.Process // of which they are
}

// process is a process in a window.
type process struct {
	who      container.Identity
	memory   telemetry.Optional[sharing.Bytes]
	instance telemetry.Optional[int]
	overhead bool
	// fromDaemon says that the MPS daemon named it, not the driver.
	fromDaemon bool
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
