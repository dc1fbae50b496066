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
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/sharing"
)

// A step that waits for the neighbour ten times takes ten slices, and a first token that comes twice as much later
// grows by two; the row of the isolated load keeps that, and its own figures.
func TestTurnsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slow = 152 * time.Millisecond
		s := &scripted{spinner: 2 * time.Second, reply: func(s *scripted, _ loadgentest.Request) loadgentest.Reply {
			if strings.HasPrefix(s.run, "spinner-") {
				return loadgentest.Reply{TTFT: 10*time.Millisecond + 2*(slow-80*time.Millisecond), Interval: slow}
			}
			return loadgentest.Reply{TTFT: 10 * time.Millisecond, Interval: 80 * time.Millisecond}
		}}
		r := s.measure(t)
		rows := must.Get(profile.LoadRows(filepath.Join(r.dir, "rows.simulated.json")))(t)
		if turns, ok := rows[0].SlicesPerStep.Get(); !ok || turns < 9.5 || turns > 10.5 {
			t.Errorf("%v slices: %s", rows[0].SlicesPerStep, r.stderr)
		}
		if growth, ok := rows[0].TTFTGrowth.Get(); !ok || math.Abs(growth-2) > 0.1 {
			t.Errorf("the first token grows by %v", rows[0].TTFTGrowth)
		}
		if p50, _ := rows[0].ITL.P50.Get(); p50 > 81 {
			t.Errorf("the row is of the run next to the neighbour: %v ms", p50)
		}
		must.Do(t, s.close())
	})
}

// Slices that cannot be counted are a note, and the rest is measured.
func TestTurnsThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	srv := must.Get(loadgentest.NewServer(loadgentest.Options{NoLog: true,
		Script: loadgentest.Always(loadgentest.Reply{TTFT: 10 * time.Millisecond, Interval: 80 * time.Millisecond})}))(t)
	web := httptest.NewServer(srv)
	t.Cleanup(func() { web.Close(); _ = srv.Close() })
	plan := fmt.Sprintf(`
version: v1
seconds: 1
modes: [time-slicing]
servers: [{name: a, model: m, api: completions, url: %q}, {name: b, model: n, api: completions, url: %q}]
loads: [{name: x, server: a, concurrency: 1, prompt: 16, output: 4}, {name: y, server: b, concurrency: 1, prompt: 16, output: 4}]
`, web.URL, strings.Replace(web.URL, "127.0.0.1", "localhost", 1))
	r := how{plan: []byte(plan), opts: Options{Spinner: time.Second}}.measured(t.Context(), t, true, func(p *Plan) (Site, error) {
		return NewMachine(t.Context(), p, MachineOptions{Probe: func(context.Context, string, string) (Prober, error) {
			return nil, errors.New("no driver")
		}})
	})
	if r.code != exitOK || !strings.Contains(r.stderr, "x: the time slices of a step were not counted: no driver") {
		t.Error(r.stderr)
	}
	if rows := must.Get(profile.LoadRows(filepath.Join(r.dir, "rows.json")))(t); !rows[0].SlicesPerStep.IsZero() || !rows[0].TTFTGrowth.IsZero() {
		t.Errorf("%+v", rows[0])
	}
}

// Servers of one model by two engines are two servers.
func TestServersOfTwoEngines(t *testing.T) {
	f := &planFlow{plan: &Plan{Servers: []Server{{Name: "a", Model: "8b", Engine: "vllm", Slots: 16}, {Name: "b", Model: "8b", Engine: "sglang", Slots: 16},
		{Name: "c", Model: "1b", Engine: "vllm", Slots: 16}}}}
	for server, want := range map[string]profile.Server{
		"a": {Model: "8b", Slots: sharing.Some(16), Variant: "vllm"},
		"b": {Model: "8b", Slots: sharing.Some(16), Variant: "sglang"},
		"c": {Model: "1b", Slots: sharing.Some(16)},
	} {
		if got := f.serverOf(sharing.MechanismMPS, &Load{Server: server}); got != want {
			t.Errorf("%s is %s", server, got)
		}
	}
}
