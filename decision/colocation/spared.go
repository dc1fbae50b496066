package colocation

import (
	"context"
	"fmt"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// sparedTries bounds the further runs of a load whose profile lacks MPS's cost.
const sparedTries = 2

// repeatSpared runs loads again whose run alone lacks most of MPS's cost, which they have to bear side by side. The
// slower of the runs stands for the load alone; the folders of all are kept.
func (f *planFlow) repeatSpared(ctx context.Context, st *stand, m sharing.Mechanism) error {
	if m == sharing.MechanismTimeSlicing {
		return nil
	}
	for try := range sparedTries {
		spared, err := f.spared(m)
		if err != nil {
			return err
		}
		for _, i := range spared {
			first, n := f.runs[i], len(f.runs)
			load := first.loads[0]
			again := run{mode: m, name: fmt.Sprintf("solo-%s-again-%d", load, try+1), loads: first.loads}
			if err := f.measureRun(ctx, st, again); err != nil {
				if ctx.Err() != nil {
					return err
				}
				f.note("%s: %s was spared what MPS costs, and could not be run again: %v", m, load, err)
				continue
			}
			again, f.runs = f.runs[n], f.runs[:n]
			before, after := first.rows[0].ITL.P50.Or(0), again.rows[0].ITL.P50.Or(0)
			kept := first.dir
			if after > before {
				f.runs[i], kept = again, again.dir
			}
			f.note("%s: %s ran alone at %.2f ms a token, much faster than other loads of its server, and at %.2f ms when "+
				"it was run again; %s counts", m, load, before, after, kept)
			if err := f.writeRows(); err != nil { // measureRun wrote both
				return err
			}
		}
	}
	return nil
}

// spared returns the runs alone that lack MPS's cost.
func (f *planFlow) spared(m sharing.Mechanism) (spared []int, err error) {
	profiles, _, err := f.profiles()
	if err != nil {
		return nil, err
	}
	for i := range f.runs {
		r := &f.runs[i]
		if r.mode != m || !r.solo() {
			continue
		}
		l := f.plan.Load(r.loads[0])
		if r.rows[0].Kind != profile.KindServer {
			continue
		}
		solo, err := profiles.Solo(f.serverOf(m, l), f.loadOf(l))
		if err == nil && f.Predictor.SparedAlone(&solo) {
			spared = append(spared, i)
		}
	}
	return spared, nil
}
