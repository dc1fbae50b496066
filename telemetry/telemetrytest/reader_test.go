// SPDX-License-Identifier: Apache-2.0

package telemetrytest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

type figures = map[telemetry.Metric]float64

func constant(watts float64) []telemetrytest.Phase {
	return []telemetrytest.Phase{{Figures: figures{telemetry.MetricPowerWatts: watts}}}
}

// A script drives the real Sampler; SetTime goes to any moment of it.
func Example() {
	src, err := telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: []telemetrytest.Phase{
		{For: time.Hour, Figures: figures{telemetry.MetricPowerWatts: 600}},
		{Figures: figures{telemetry.MetricPowerWatts: 80}},
	}}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, at := range []time.Duration{0, 2 * time.Hour} {
		src.SetTime(at)
		var r telemetry.Reading
		if err := src.Read(context.Background(), 0, telemetry.GroupBasic, &r); err != nil {
			fmt.Println(err)
			return
		}
		watts, _ := r.Get(telemetry.MetricPowerWatts)
		_, known := r.Get(telemetry.MetricSMClockMHz)
		fmt.Println(at, watts, "W; clock known:", known)
	}
	// Output:
	// 0s 600 W; clock known: false
	// 2h0m0s 80 W; clock known: false
}

// A script that cannot be is refused, with everything that is wrong with it.
func ExampleNew() {
	_, err := telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: []telemetrytest.Phase{
		{Figures: figures{telemetry.MetricEnergyJoules: 5}},
		{Figures: figures{telemetry.MetricPowerWatts: -1}},
	}}}})
	fmt.Println(err)
	// Output:
	// gpus[0].phases[0].for: telemetrytest: a length of 0s (give the phase a length)
	// gpus[0].phases[0].energy_joules: telemetrytest: a scripted energy counter (leave it out: the counter follows from power_watts)
	// gpus[0].phases[1].power_watts: telemetrytest: -1 (use a finite figure of 0 or more)
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		script telemetrytest.Script
		want   string
	}{
		{telemetrytest.Script{}, "gpus"},
		{telemetrytest.Script{NoisePercent: -1, GPUs: []telemetrytest.GPU{{Phases: constant(1)}}}, "noise"},
		{telemetrytest.Script{GPUs: []telemetrytest.GPU{{}}}, "phases"},
		{telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: constant(1), Loop: true}}}, "length"},
		{telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: constant(math.NaN())}}}, "power_watts"},
		{telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: []telemetrytest.Phase{{Figures: figures{telemetry.Metric(0): 1}}}}}}, "metric"},
		{telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: []telemetrytest.Phase{{Instances: []telemetrytest.Instance{{ID: -1}}}}}}}, "instances[0]"},
	} {
		if src, err := telemetrytest.New(c.script); src != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v does not name %s", err, c.want)
		}
	}
}

func energyAt(t *testing.T, src *telemetrytest.Reader, at time.Duration) float64 {
	t.Helper()
	src.SetTime(at)
	var r telemetry.Reading
	if err := src.Read(t.Context(), 0, telemetry.GroupEnergy, &r); err != nil {
		t.Fatal(err)
	}
	v, ok := r.Get(telemetry.MetricEnergyJoules)
	if !ok {
		t.Fatal("no energy")
	}
	return v
}

func TestEnergyOfALoop(t *testing.T) {
	phases := []telemetrytest.Phase{
		{For: 10 * time.Second, Figures: figures{telemetry.MetricPowerWatts: 100}},
		{For: 10 * time.Second, Figures: figures{telemetry.MetricPowerWatts: 50}},
	}
	src, err := telemetrytest.New(telemetrytest.Script{GPUs: []telemetrytest.GPU{{Phases: phases, Loop: true}}})
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Duration]float64{0: 0, 5 * time.Second: 500, 15 * time.Second: 1250, 20 * time.Second: 1500, 45 * time.Second: 3500} {
		if got := energyAt(t, src, at); got != want {
			t.Errorf("%v: %v J, want %v", at, got, want)
		}
	}
}

func TestNoiseIsSeeded(t *testing.T) {
	read := func(seed uint64, at time.Duration) float64 {
		src, err := telemetrytest.New(telemetrytest.Script{NoisePercent: 10, Seed: seed, GPUs: []telemetrytest.GPU{{Phases: constant(100)}}})
		if err != nil {
			t.Fatal(err)
		}
		src.SetTime(at)
		var r telemetry.Reading
		if err := src.Read(t.Context(), 0, telemetry.GroupBasic, &r); err != nil {
			t.Fatal(err)
		}
		v, _ := r.Get(telemetry.MetricPowerWatts)
		return v
	}
	if read(1, time.Second) != read(1, time.Second) {
		t.Error("the same seed and time give different figures")
	}
	if read(1, time.Second) == read(2, time.Second) || read(1, time.Second) == read(1, 2*time.Second) {
		t.Error("the noise does not move")
	}
	var sum float64
	for i := range 2000 {
		v := read(7, time.Duration(i)*time.Millisecond)
		if v < 90 || v > 110 {
			t.Fatalf("%v W is not within 10%%", v)
		}
		sum += v
	}
	if mean := sum / 2000; math.Abs(mean-100) > 0.5 {
		t.Errorf("the mean is %v W", mean)
	}
}

func TestFaultsAndCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		src, err := telemetrytest.New(telemetrytest.Script{
			Cost: map[telemetry.Groups]time.Duration{telemetry.GroupEnergy: 4 * time.Millisecond},
			GPUs: []telemetrytest.GPU{{Phases: []telemetrytest.Phase{
				{For: time.Second, Figures: figures{telemetry.MetricPowerWatts: 1}, Fail: map[telemetry.Groups]error{telemetry.GroupPCIe: broken}},
				{Lost: true},
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		devs, err := src.Devices(t.Context())
		if err != nil || devs[0].GPM != sharing.AnswerUnknown || src.Info().Basis != sharing.BasisSimulated {
			t.Errorf("%+v, %v", devs, err)
		}
		start := time.Now()
		var r telemetry.Reading
		if err := src.Read(t.Context(), 0, telemetry.GroupEnergy, &r); err != nil || time.Since(start) != 4*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := src.Read(t.Context(), 0, telemetry.GroupPCIe, &r); !errors.Is(err, broken) {
			t.Errorf("err = %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := src.Read(ctx, 0, telemetry.GroupEnergy, &r); !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v", err)
		}
		time.Sleep(time.Second)
		if err := src.Read(t.Context(), 0, telemetry.GroupBasic, &r); !errors.Is(err, telemetry.ErrLost) {
			t.Errorf("err = %v", err)
		}
		if err := src.Read(t.Context(), 8, telemetry.GroupBasic, &r); !errors.Is(err, telemetry.ErrNoDevice) {
			t.Errorf("err = %v", err)
		}
	})
}
