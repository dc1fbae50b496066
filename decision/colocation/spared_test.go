package colocation

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// sparing is a simulated site whose last server stands for the first, and is faster,
// until a number of runs have begun.
type sparing struct {
	Simulation
	until int
	began int
	stand *stand
	usual *stand
}

func (s *sparing) start(ctx context.Context, m sharing.Mechanism, dir string, say func(string, ...any)) (*stand, error) {
	st, err := s.Simulation.start(ctx, m, dir, say)
	if err != nil {
		return nil, err
	}
	usual := *st
	usual.endpoints = append(usual.endpoints[:0:0], st.endpoints...)
	s.stand, s.usual = st, &usual
	return st, nil
}

// now counts the runs that begin.
func (s *sparing) now() time.Time {
	if s.stand != nil {
		s.began++
		s.stand.endpoints[0] = s.usual.endpoints[0]
		if s.began <= s.until {
			s.stand.endpoints[0] = s.usual.endpoints[len(s.usual.endpoints)-1]
		}
	}
	return time.Now()
}

const sparedPlan = `version: v1
seconds: 7
seed: 1
modes: [mps]
simulated_gpu: {quantum: 6270us, switch: 459us}
servers:
  - {name: small, model: small, engine: made-up, slots: 16, simulated: {step_kernels: 3, kernel_mean: 1500us, prefill_per_token: 40us, sm_demand: 0.4, bandwidth_demand: 0.65}}
  - {name: large, model: large, slots: 16, simulated: {step_kernels: 12, kernel_mean: 2200us, prefill_per_token: 60us, sm_demand: 0.4, bandwidth_demand: 0.65}}
loads:
  - {name: one, server: small, concurrency: 1, prompt: 128, output: 32}
  - {name: four, server: small, concurrency: 4, prompt: 128, output: 32}
  - {name: summaries, server: large, concurrency: 4, prompt: 256, output: 24}
cases:
  - {name: pair, loads: [one, summaries]}
  - {name: other, loads: [four, summaries]}
`

// A load that was spared alone what MPS costs is run again, and the slower run counts.
func TestSparedAlone(t *testing.T) {
	race.Long(t)
	for _, c := range []struct {
		name         string
		until        int
		again, count string
	}{
		{"not at all", 0, "", "solo-one"},
		{"once", 1, "solo-one-again-1", "solo-one-again-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r results
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var s *sparing
				now := func() time.Time {
					if s == nil {
						return time.Now()
					}
					return s.now()
				}
				h := how{plan: []byte(sparedPlan), opts: Options{Dir: dir, simulatedTime: true, time: now}}
				r = h.measured(t.Context(), t, false, func(p *Plan) (Site, error) {
					machine := *p
					fast := machine.Servers[0]
					model := *fast.Simulated
					model.KernelMean, model.BandwidthDemand = model.KernelMean*85/100, model.BandwidthDemand*100/85
					fast.Simulated = &model
					machine.Servers = append(append([]Server{}, machine.Servers...), fast)
					s = &sparing{Simulation: Simulation{plan: &machine, pipe: true}, until: c.until}
					return s, nil
				})
			})
			if r.code != exitOK {
				t.Fatal(r.stderr)
			}
			b, err := os.ReadFile(filepath.Join(r.dir, "rows.simulated.json"))
			if err != nil {
				t.Fatal(err)
			}
			rows, err := profile.ParseRows(b)
			if err != nil {
				t.Fatal(err)
			}
			var alone []string
			for _, row := range rows {
				if want := map[string]string{"small": "made-up"}[row.Server.Model]; row.Engine != want {
					t.Errorf("engine %q of a row of %s", row.Engine, row.Server.Model)
				}
				if row.Tenants == 1 && row.Load.Concurrency == 1 {
					alone = append(alone, strings.TrimPrefix(row.Case, "simulated/"))
				}
			}
			if len(alone) != 1 || alone[0] != c.count {
				t.Errorf("%q count for the load alone", alone)
			}
			_, err = os.Stat(filepath.Join(r.dir, "mps", "solo-one-again-1"))
			if said := strings.Contains(r.stdout+r.stderr, "when it was run again"); said != (c.again != "") || said != (err == nil) {
				t.Errorf("run again: %v, said: %v\n%s%s", err, said, r.stdout, r.stderr)
			}
		})
	}
}
