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
func (f *planFlow) countSlices(ctx context.Context, st *deployment, solo *run) error {
	if st.spinning == nil || f.Spinner <= 0 {
		return nil
	}
	load := solo.loads[0]
	r := run{mode: solo.mode, name: "spinner-" + load, loads: solo.loads}
	r.dir = filepath.Join(r.mode.String(), r.name)
	window := f.plan.window()
	window.To = window.From + f.Spinner
	f.say("%s: %s, %v next to a spinning neighbour", r.mode, r.name, f.Spinner)
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
	counted := 0.0
	if err == nil {
		counted, err = f.slicesOf(&solo.rows[0], &row)
	}
	if err != nil {
		f.note("%s: the time slices of a step were not counted: %v", load, err)
		return nil
	}
	f.say("%s: a step of %s takes %.2f time slices", r.mode, load, counted)
	solo.rows[0].SlicesPerStep, solo.rows[0].TTFTGrowth = profile.Some(counted), growthOf(&solo.rows[0], &row)
	return f.writeRows()
}

// growthOf is by how much later a load's first token came for each millisecond that a token took longer.
func growthOf(isolated, coLocated *profile.Row) (growth profile.Optional[float64]) {
	first, ok1 := isolated.TTFT.P50.Get()
	later, ok2 := coLocated.TTFT.P50.Get()
	if longer := coLocated.TPOT.P50.Or(0) - isolated.TPOT.P50.Or(0); ok1 && ok2 && longer > 0 {
		growth = profile.Some(max(0, later-first) / longer)
	}
	return growth
}

// slicesOf counts the time slices of a load's step from its lengths, isolated and with the spinner.
func (f *planFlow) slicesOf(isolated, coLocated *profile.Row) (float64, error) {
	a, ok1 := stepOf(isolated)
	b, ok2 := stepOf(coLocated)
	if !ok1 || !ok2 {
		return 0, fmt.Errorf("no step was measured")
	}
	return f.Predictor.TurnsBesideSpinner(milliseconds(a), milliseconds(b))
}

// pressedOutput bounds the answers of a server with a stress kernel, which may slow it by far: the drain would take
// long.
const stressedOutput = 16

// stress measures how a load under MPS slows co-located kernels, and they it. A failure is a note: the predictions then
// have only its activity.
func (f *planFlow) stress(ctx context.Context, st *deployment, solo *run) error {
	if st.stressed == nil || f.Spinner <= 0 {
		return nil
	}
	load := solo.loads[0]
	if len(st.strangers) > 0 {
		f.note("%s: not measured next to stress kernels, which would slow others: %s", load, st.strangers[0])
		return nil
	}
	f.say("%s: %s next to stress kernels, %v at most, in which a step may take %g times as long and more", solo.mode,
		load, probe.MostStressed, probe.MostSlower)
	n := 0
	play := func(ctx context.Context, d time.Duration) (time.Duration, error) {
		n++
		r := run{mode: solo.mode, name: fmt.Sprintf("pressure-%s-%d", load, n), loads: solo.loads, stressed: true}
		r.dir = filepath.Join(r.mode.String(), r.name)
		_, rows, err := f.play(ctx, st, &r, loadgen.Window{To: d})
		if err != nil {
			return 0, err
		}
		step, _ := stepOf(&rows[0])
		return milliseconds(step), nil
	}
	var p *profile.Pressure
	err := st.stressed(ctx, play, func(tenant probe.Tenant) (err error) {
		p, err = probe.MeasurePressure(ctx, tenant, func(what string) { f.say("%s: %s: %s", solo.mode, load, what) })
		return err
	})
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		f.note("%s: not all of its pressure was measured: %s", load, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if p == nil || len(p.Waits)+len(p.Stresses) == 0 {
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
