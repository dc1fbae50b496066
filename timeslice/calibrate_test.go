// SPDX-License-Identifier: Apache-2.0

package timeslice_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// What 2 and 4 processes saw on an H200, in the median, gives its scheduler back.
func TestCalibrateProbe(t *testing.T) {
	c, err := timeslice.CalibrateProbe(
		timeslice.ProbeRun{On: []time.Duration{2090700, 2090700}, Off: []time.Duration{2396300, 2396300}},
		timeslice.ProbeRun{On: []time.Duration{2090500, 2090500, 2090500, 2090500}, Off: []time.Duration{6883600, 6883600, 6883600, 6883600}})
	if err != nil {
		t.Fatal(err)
	}
	within(t, "quantum", c.Scheduler.Quantum, timeslice.H200().Quantum, 0.001)
	within(t, "switch", c.Scheduler.Switch, timeslice.H200().Switch, 0.001)
	if c.Points != 6 || c.WorstErrorFraction > 0.001 || c.Scheduler.Basis != sharing.BasisFitted {
		t.Errorf("%+v", c)
	}
}

func TestCalibrateProbeRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		runs []timeslice.ProbeRun
		want []string
	}{
		{"nothing", nil, []string{"there is no reading"}},
		{"alone, without turns", []timeslice.ProbeRun{{On: []time.Duration{ms}, Off: []time.Duration{ms}}, {On: []time.Duration{ms, 0}, Off: []time.Duration{ms, ms}}},
			[]string{"runs[0]: must hold 2 to 1024 processes", "runs[1][1]: has no on- and off-times"}},
		{"something else", []timeslice.ProbeRun{{On: []time.Duration{2 * ms, 2 * ms}, Off: []time.Duration{ms, ms}}}, []string{"shorter than the others' quanta"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := timeslice.CalibrateProbe(c.runs...)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
		})
	}
}
