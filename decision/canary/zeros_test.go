package canary

import (
	"context"
	"testing"

	"github.com/cotenant/cotenant/telemetry"
)

// zeros is a device of which each counter works or reads 0.
type zeros struct {
	telemetry.Reader
	gpu, sm, graphics float64
}

func (z zeros) Read(_ context.Context, _ int, g telemetry.Groups, r *telemetry.Reading) error {
	if g.Has(telemetry.GroupBasic) {
		r.Set(telemetry.MetricGPUUtilPercent, z.gpu)
	}
	if g.Has(telemetry.GroupGPM) {
		r.Set(telemetry.MetricSMUtilPercent, z.sm)
		r.Set(telemetry.MetricGraphicsUtilPercent, z.graphics)
	}
	return nil
}

// TestZerosOfADevice: with every subset of a device's counters at zero, one of which another shows work is not idle.
func TestZerosOfADevice(t *testing.T) {
	for zero := range 8 {
		at := func(bit int, v float64) float64 { return v * float64(1-zero>>bit&1) }
		m := &Machine{reader: zeros{gpu: at(0, 97), sm: at(1, 80), graphics: at(2, 90)}}
		var busy telemetry.Optional[float64]
		for range busyLooks {
			v, err := m.device(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			busy = v
		}
		if v, ok := busy.Get(); zero < 7 && (!ok || v < 0.5) || zero == 7 && v != 0 {
			t.Errorf("zero %03b: busy %v", zero, busy)
		}
	}
}
