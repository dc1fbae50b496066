package colocation

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/cotenant/cotenant/decision/predict/profile"
)

// countTurns runs a load that was run alone once more beside a neighbour that always
// spins, and keeps the number of time slices of its decode step. A failure is a note:
// the predictions then infer the number from the step's length.
func (f *planFlow) countTurns(ctx context.Context, st *stand, solo *run) error {
	if st.beside == nil || f.Spinner <= 0 {
		return nil
	}
	load := solo.loads[0]
	r := run{mode: solo.mode, name: "spinner-" + load, loads: solo.loads}
	r.dir = filepath.Join(r.mode.String(), r.name)
	window := f.plan.Window()
	window.To = window.From + f.Spinner
	f.say("%s: %s, %v beside a spinning neighbour", r.mode, r.name, f.Spinner)
	var row profile.Row
	err := st.beside(ctx, func(ctx context.Context) error {
		_, rows, err := f.play(ctx, st, &r, window, nil)
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
	solo.rows[0].Turns = profile.Some(turns)
	return f.writeRows()
}

// turnsOf counts the turns of a load's step, alone and beside the neighbour.
func (f *planFlow) turnsOf(alone, beside *profile.Row) (float64, error) {
	a, ok1 := stepOf(alone)
	b, ok2 := stepOf(beside)
	if !ok1 || !ok2 {
		return 0, fmt.Errorf("no step was measured")
	}
	return f.Predictor.TurnsBesideSpinner(milliseconds(a), milliseconds(b))
}
