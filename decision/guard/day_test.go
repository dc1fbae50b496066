package guard

import (
	"context"
	"testing"
)

// checkDay plays simulated days and holds them to what a guard must reach.
func checkDay(t *testing.T, gpus int, seeds ...uint64) {
	for _, seed := range seeds {
		rep, err := PlayDay(context.Background(), DayOptions{Seed: seed, GPUs: gpus, Rules: DefaultRules(dayWindow)})
		if err != nil {
			t.Fatal(err)
		}
		if rep.ReapedPercent < 80 || rep.ReapedPercent > 100 {
			t.Errorf("seed %d: %.1f%% of what an oracle would take back", seed, rep.ReapedPercent)
		}
		if rep.MissesGuarded >= rep.MissesAlone || rep.MissesAlone == 0 {
			t.Errorf("seed %d: %d objective misses, %d left alone", seed, rep.MissesGuarded, rep.MissesAlone)
		}
		if rep.OnBadData != 0 || rep.FaultyGPU == 0 {
			t.Errorf("seed %d: %d actions on bad data in %.0f GPU-hours of it", seed, rep.OnBadData, rep.FaultyGPU)
		}
		if rep.Wrong != 0 || rep.Named*10 < rep.Disturbed*9 {
			t.Errorf("seed %d: %d of %d disturbers named, %d wrongly", seed, rep.Named, rep.Disturbed, rep.Wrong)
		}
	}
}

func TestDay(t *testing.T) { checkDay(t, 40, 1) }
