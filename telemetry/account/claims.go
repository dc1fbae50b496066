package account

import (
	"maps"
	"slices"

	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// claimKey tells claims apart.
type claimKey struct {
	pod      container.Pod
	overhead bool
}

// sorted returns the claims in the order of their pods.
func sorted(claims map[claimKey]*ledger.Claim) []ledger.Claim {
	keys := slices.SortedFunc(maps.Keys(claims), func(a, b claimKey) int {
		if a.overhead != b.overhead {
			if a.overhead {
				return 1
			}
			return -1
		}
		return a.pod.Compare(b.pod)
	})
	out := make([]ledger.Claim, len(keys))
	for i, k := range keys {
		out[i] = *claims[k]
	}
	return out
}

// instancesOf makes the claims of a GPU in MIG mode: one for each instance, or
// several where pods share it, with a part of its slices.
func (a *Accountant) instancesOf(d *device, held map[container.Pod][]container.Device, w *ledger.Window) {
	for i := range d.instances {
		in := &d.instances[i]
		c := ledger.Claim{Slices: in.ComputeSlices.Or(0)}
		if c.Slices == 0 {
			continue
		}
		if v, ok := in.Get(telemetry.MetricGraphicsUtilPercent); ok {
			c.Busy = ledger.Some(min(v/100, 1))
		}
		pods := map[container.Pod]bool{}
		stranger := false
		for _, p := range d.procs {
			if id, ok := p.instance.Get(); ok && id == in.ID && !p.overhead {
				c.Resident = true
				if pod := p.pod(); pod != (container.Pod{}) {
					pods[pod] = true
				} else {
					stranger = true
				}
			}
		}
		for pod, devices := range held {
			for _, dev := range devices {
				if gi, ok := dev.GPUInstance.Get(); dev.UUID == in.UUID && in.UUID != "" || ok && gi == in.ID {
					c.Held = 1
					pods[pod.Clean()] = true
				}
			}
		}
		// An instance that several share has one counter: whose it is cannot be told.
		if len(pods) == 1 && !stranger {
			for pod := range pods {
				c.Pod = pod
			}
		}
		w.Claims = append(w.Claims, c)
	}
}
