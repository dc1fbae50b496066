// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
)

// spinnerRun measures a server whose steps take 80 ms alone and slow beside a neighbour, which fails if it is told to.
// They are long so that a busy machine's delays are small beside them.
func spinnerRun(t *testing.T, slow time.Duration, fails error, spinner time.Duration) (row profile.Row, stderr string) {
	t.Helper()
	var spinning atomic.Bool
	srv := must.Get(loadgentest.NewServer(loadgentest.Options{NoLog: true, Script: func(loadgentest.Request) loadgentest.Reply {
		if spinning.Load() {
			return loadgentest.Reply{TTFT: 10*time.Millisecond + 2*(slow-80*time.Millisecond), Interval: slow}
		}
		return loadgentest.Reply{TTFT: 10 * time.Millisecond, Interval: 80 * time.Millisecond}
	}}))(t)
	web := httptest.NewServer(srv)
	t.Cleanup(func() { web.Close(); _ = srv.Close() })
	plan := fmt.Sprintf(`
version: v1
seconds: 1
modes: [time-slicing]
servers: [{name: a, model: m, api: completions, url: %q}, {name: b, model: n, api: completions, url: %q}]
loads: [{name: x, server: a, concurrency: 1, prompt: 16, output: 4}, {name: y, server: b, concurrency: 1, prompt: 16, output: 4}]
`, web.URL, strings.Replace(web.URL, "127.0.0.1", "localhost", 1))
	h := how{plan: []byte(plan), opts: Options{Spinner: spinner}}
	r := h.measured(t.Context(), t, true, func(p *Plan) (Site, error) {
		return NewMachine(t.Context(), p, MachineOptions{Probe: func(context.Context, int, string, *mps.Program, string) (Prober, error) {
			return &besideServer{on: &spinning}, fails
		}})
	})
	if r.code != exitOK {
		t.Fatal(r.stderr)
	}
	rows, err := profile.LoadRows(filepath.Join(r.dir, "rows.json"))
	if err != nil || rows[0].Tenants != 1 || rows[0].Mechanism != sharing.MechanismTimeSlicing {
		t.Fatalf("%+v, %v", rows, err)
	}
	return rows[0], r.stderr
}

// besideServer is a neighbour with an effect on a server.
type besideServer struct {
	Prober
	on *atomic.Bool
}

func (s *besideServer) BesideSpinner(ctx context.Context, run func(context.Context) error) error {
	s.on.Store(true)
	defer s.on.Store(false)
	return run(ctx)
}

func (s *besideServer) Close() error { return nil }

// A step that waits for the neighbour thirty times takes thirty turns, and a first token that comes twice as much later
// grows by two; the row of the load alone keeps that, and says so of nothing else.
func TestTurnsAreCounted(t *testing.T) {
	t.Parallel()
	race.Long(t)
	row, stderr := spinnerRun(t, 152*time.Millisecond, nil, 2*time.Second)
	if turns, ok := row.Turns.Get(); !ok || turns < 26 || turns > 34 {
		t.Errorf("%v turns: %s", row.Turns, stderr)
	}
	if growth, ok := row.TTFTGrowth.Get(); !ok || math.Abs(growth-2) > 0.4 {
		t.Errorf("the first token grows by %v", row.TTFTGrowth)
	}
	if p50, _ := row.ITL.P50.Get(); p50 > 115 {
		t.Errorf("the row is of the run beside the neighbour: %v ms", p50)
	}
}

// What cannot be counted is a note, and the rest is measured.
func TestTurnsThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	row, stderr := spinnerRun(t, 80*time.Millisecond, errors.New("no driver"), time.Second)
	if !row.Turns.IsZero() || !row.TTFTGrowth.IsZero() || !strings.Contains(stderr, "x: the time slices of a step were not counted: no driver") {
		t.Errorf("%v turns: %s", row.Turns, stderr)
	}
}

// Servers of one model by two engines are two servers.
func TestServersOfTwoEngines(t *testing.T) {
	f := &planFlow{plan: &Plan{Servers: []Server{{Name: "a", Model: "8b", Engine: "vllm", Slots: 16}, {Name: "b", Model: "8b", Engine: "sglang", Slots: 16},
		{Name: "c", Model: "1b", Engine: "vllm", Slots: 16}}}}
	for server, want := range map[string]profile.Server{
		"a": {Model: "8b", Slots: profile.Some(16), Variant: "vllm"},
		"b": {Model: "8b", Slots: profile.Some(16), Variant: "sglang"},
		"c": {Model: "1b", Slots: profile.Some(16)},
	} {
		if got := f.serverOf(sharing.MechanismMPS, &Load{Server: server}); got != want {
			t.Errorf("%s is %s", server, got)
		}
	}
}
