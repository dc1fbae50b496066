package colocation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// SimulatedGPU is the simulated GPU's name wherever a GPU's stands.
const SimulatedGPU = "simulated GPU"

// Source reads simulated GPUs as NVML reads real ones: what their kernels did
// since the last reading. It knows neither power nor memory, which are not
// simulated. It is safe for concurrent use.
type Source struct {
	gpus []*loadgentest.GPU

	mu   sync.Mutex
	last map[reading]loadgentest.Activity
}

type reading struct {
	device int
	group  telemetry.Groups
}

// Info says that the source is a simulation.
func (s *Source) Info() telemetry.ReaderInfo {
	return telemetry.ReaderInfo{Name: "simulation", Basis: sharing.BasisSimulated, Detail: "embedded servers on a simulated GPU"}
}

// Devices lists the GPUs.
func (s *Source) Devices(context.Context) ([]telemetry.Device, error) {
	var out []telemetry.Device
	for i := range s.gpus {
		uuid := "GPU-simulated"
		if len(s.gpus) > 1 {
			uuid = fmt.Sprintf("GPU-simulated-%d", i)
		}
		out = append(out, telemetry.Device{UUID: uuid, Name: SimulatedGPU, MIG: sharing.AnswerNo, GPM: sharing.AnswerYes})
	}
	return out, nil
}

// Read reads utilisations: the first reading of a group has none, for one figure
// needs two readings.
func (s *Source) Read(_ context.Context, device int, group telemetry.Groups, r *telemetry.Reading) error {
	if group != telemetry.GroupBasic && group != telemetry.GroupGPM {
		return telemetry.ErrUnsupported
	}
	now := s.gpus[device].Activity()
	key := reading{device, group}
	s.mu.Lock()
	before, ok := s.last[key]
	if s.last == nil {
		s.last = map[reading]loadgentest.Activity{}
	}
	s.last[key] = now
	s.mu.Unlock()
	elapsed := now.Elapsed - before.Elapsed
	if !ok || elapsed <= 0 {
		return nil
	}
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / elapsed.Seconds() }
	if group == telemetry.GroupBasic {
		r.Set(telemetry.MetricGPUUtilPercent, percent(now.Busy-before.Busy))
		return nil
	}
	r.Set(telemetry.MetricGraphicsUtilPercent, percent(now.Busy-before.Busy))
	r.Set(telemetry.MetricSMUtilPercent, percent(now.SMUse-before.SMUse))
	r.Set(telemetry.MetricDRAMUtilPercent, percent(now.BandwidthUse-before.BandwidthUse))
	return nil
}
