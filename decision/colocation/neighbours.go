// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/probe"
	"github.com/cotenant/cotenant/loadgen"
)

// countTurns runs a load once more, co-located with a kernel that always spins, and counts the time slices of its
// decode step. A failure is a note: the predictions then infer the number from the step's length.
func (f *planFlow) countTurns(ctx context.Context, st *deployment, solo *run) error {
	if st.spinning == nil || f.Spinner <= 0 {
		return nil
	}
	load := solo.loads[0]
	r := run{mode: solo.mode, name: "spinner-" + load, loads: solo.loads}
	r.dir = filepath.Join(r.mode.String(), r.name)
	window := f.plan.window()
	window.To = window.From + f.Spinner
	f.say("%s: %s, %v beside a spinning neighbour", r.mode, r.name, f.Spinner)
	var row profile.Row
	err := st.spinning(ctx, func(ctx context.Context) error {
		_, rows, err := f.play(ctx, st, &r, window)
		if err == nil {
			row = rows[0]
		}
		return err
	})
	if ctx.Err() != nil {
		return err
	}
	turns := 0.0
	if err == nil {
		turns, err = f.turnsOf(&solo.rows[0], &row)
	}
	if err != nil {
		f.note("%s: the time slices of a step were not counted: %v", load, err)
		return nil
	}
	f.say("%s: a step of %s takes %.2f time slices", r.mode, load, turns)
	solo.rows[0].Turns, solo.rows[0].TTFTGrowth = profile.Some(turns), growthOf(&solo.rows[0], &row)
	return f.writeRows()
}

// growthOf is by how much later a load's first token came for each millisecond that a token took longer.
func growthOf(alone, beside *profile.Row) (growth profile.Optional[float64]) {
	first, ok1 := alone.TTFT.P50.Get()
	firstBeside, ok2 := beside.TTFT.P50.Get()
	if longer := beside.TPOT.P50.Or(0) - alone.TPOT.P50.Or(0); ok1 && ok2 && longer > 0 {
		growth = profile.Some(max(0, firstBeside-first) / longer)
	}
	return growth
}

// turnsOf counts the time slices of a load's step from its length alone and with the spinner.
func (f *planFlow) turnsOf(alone, beside *profile.Row) (float64, error) {
	a, ok1 := stepOf(alone)
	b, ok2 := stepOf(beside)
	if !ok1 || !ok2 {
		return 0, fmt.Errorf("no step was measured")
	}
	return f.Predictor.TurnsBesideSpinner(milliseconds(a), milliseconds(b))
}

// pressedOutput bounds the answers of a server with a stress kernel, which may slow it by far: the drain would take
// long.
const pressedOutput = 16

// press measures how a load under MPS slows co-located kernels, and they it. A failure is a note: the predictions then
// have only its activity.
func (f *planFlow) press(ctx context.Context, st *deployment, solo *run) error {
	if st.pressed == nil || f.Spinner <= 0 {
		return nil
	}
	load := solo.loads[0]
	if len(st.strangers) > 0 {
		f.note("%s: not measured beside reporter and press, which would slow others: %s", load, st.strangers[0])
		return nil
	}
	f.say("%s: %s beside reporter and press, %v at most, in which a step may take %g times as long and more", solo.mode,
		load, probe.MostPressed, probe.MostSlower)
	n := 0
	play := func(ctx context.Context, d time.Duration) (time.Duration, error) {
		n++
		r := run{mode: solo.mode, name: fmt.Sprintf("pressure-%s-%d", load, n), loads: solo.loads, pressed: true}
		r.dir = filepath.Join(r.mode.String(), r.name)
		_, rows, err := f.play(ctx, st, &r, loadgen.Window{To: d})
		if err != nil {
			return 0, err
		}
		step, _ := stepOf(&rows[0])
		return milliseconds(step), nil
	}
	var p *profile.Pressure
	err := st.pressed(ctx, play, func(tenant probe.Pressed) (err error) {
		p, err = probe.MeasurePressure(ctx, tenant, func(what string) { f.say("%s: %s: %s", solo.mode, load, what) })
		return err
	})
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		f.note("%s: not all of its pressure was measured: %s", load, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if p == nil || len(p.Waits)+len(p.Presses) == 0 {
		return nil
	}
	solo.rows[0].Pressure = p
	return f.writeRows()
}

// stepOf is the median of a load's step, in milliseconds.
func stepOf(r *profile.Row) (float64, bool) {
	if r.Kind != profile.KindServer {
		return r.Step.P50.Get()
	}
	return r.ITL.P50.Get()
}
