package main

import (
	"context"
	"testing"

	"github.com/cotenant/cotenant/internal/race"
)

func TestDay(t *testing.T) {
	race.Long(t)
	for seed := range uint64(2) {
		rep, err := playDay(context.Background(), seed, defaultRules(dayWindow), false, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", rep)
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
