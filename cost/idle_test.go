package cost

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

func TestIdle(t *testing.T) {
	idle, part, err := Idle(8*time.Hour, 24*time.Hour)
	if err != nil || idle != 16*time.Hour || part.RoundPercent(1).String() != "66.7%" {
		t.Errorf("%v, %v, %v; want 16h and 66.7%%", idle, part, err)
	}
	for _, c := range [][2]time.Duration{{-1, 1}, {2, 1}, {0, 0}, {0, -1}} {
		if _, _, err := Idle(c[0], c[1]); !errors.Is(err, ErrInput) {
			t.Errorf("Idle(%v, %v): %v", c[0], c[1], err)
		}
	}
}

func TestReaping(t *testing.T) {
	if h, err := ReapedHours(10, 55_000, 1*Percent); err != nil || h != 10.8 {
		t.Errorf("%v, %v; want 10.8", h, err)
	}
	for _, c := range [][2]PPM{{-1, 0}, {Whole + 1, 0}, {Percent, 2 * Percent}, {Percent, -1}} {
		_, err := ReapedHours(-1, c[0], c[1])
		if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "gpus: ") {
			t.Errorf("ReapedHours(%v): %v", c, err)
		}
	}
}

func TestReapingPolicies(t *testing.T) {
	ps := ReapingPolicies()
	if !slices.IsSortedFunc(ps, func(a, b ReapingPolicy) int { return int(a.EndAfter - b.EndAfter) }) {
		t.Error("not in order")
	}
	episodes := []time.Duration{10 * time.Minute, 90 * time.Minute, 3 * time.Hour, 25 * time.Hour}
	for i, want := range []time.Duration{(30 + 120 + 24*60) * time.Minute, (60 + 23*60) * time.Minute, time.Hour} {
		if got, err := ps[i].Recovered(episodes); err != nil || got != want {
			t.Errorf("%s recovers %v, %v; want %v", ps[i].Name, got, err, want)
		}
		if _, ok := sharing.SourceByID(ps[i].Source); !ok {
			t.Errorf("%s has no source", ps[i].Name)
		}
	}
	if _, err := ps[0].Recovered([]time.Duration{1, -1}); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "episodes[1]") {
		t.Errorf("%v", err)
	}
	if _, err := ps[0].Recovered([]time.Duration{math.MaxInt64, math.MaxInt64}); !errors.Is(err, ErrOverflow) {
		t.Errorf("%v", err)
	}
}

func TestOverheadRange(t *testing.T) {
	for _, c := range []struct {
		o         sharing.Overhead
		low, high PPM
		ok        bool
	}{
		{sharing.InfoFor(sharing.MechanismTimeSlicing).Overhead, 1 * Percent, 11 * Percent, true},
		{sharing.InfoFor(sharing.MechanismMPS).Overhead, 0, 40 * Percent, true},
		{sharing.InfoFor(sharing.MechanismExclusive).Overhead, 0, 0, true},
		{sharing.InfoFor(sharing.MechanismHAMi).Overhead, 0, 0, false},
		{sharing.Overhead{}, 0, 0, false},
		{sharing.Overhead{Known: true, Low: math.NaN()}, 0, 0, false},
		{sharing.Overhead{Known: true, High: math.Inf(1)}, 0, 0, false},
		{sharing.Overhead{Known: true, Low: 0.2, High: 0.1}, 0, 0, false},
		{sharing.Overhead{Known: true, Low: -0.2, High: 0.1}, 0, 0, false},
	} {
		if low, high, ok := OverheadRange(c.o); low != c.low || high != c.high || ok != c.ok {
			t.Errorf("%+v: %v to %v, %v; want %v to %v, %v", c.o, low, high, ok, c.low, c.high, c.ok)
		}
	}
}
