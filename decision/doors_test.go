// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"testing"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// TestDoorsAgree: of every workload of the experts' fleets alone on empty GPUs of every pool of its fleet, Decide
// chooses nothing that Evaluate rejects.
func TestDoorsAgree(t *testing.T) {
	t.Parallel()
	race.Long(t)
	placed := 0
	for _, c := range readCorpus(t) {
		for _, w := range c.Fleet.Workloads {
			for _, p := range c.Fleet.Pools {
				w.Replicas, w.Trust, p.Layouts = Replicas{}, nil, nil
				if w.Pool != "" && w.Pool != p.Name {
					continue
				}
				f := &Fleet{Version: "v1", Pools: []Pool{p}, Workloads: []Workload{w}, Trust: c.Fleet.Trust}
				r, err := Decide(t.Context(), f, Options{})
				if err != nil {
					t.Fatalf("%s: %s on %s: %v", c.Name, w.Name, p.Name, err)
				}
				pool, err := CompilePool(&p)
				if err != nil {
					t.Fatal(err)
				}
				var ev Evaluation
				Evaluate(CompileWorkload(&w), pool, filter.Neighbours{}, &ev)
				d := r.Decision(w.Name)
				for i := range ev.Candidates {
					if s := &ev.Candidates[i]; s.Mechanism == d.Mechanism && s.Verdict == filter.VerdictReject {
						t.Errorf("%s: %s on %s: Decide chooses %s, which Evaluate rejects", c.Name, w.Name, p.Name, d.Mechanism)
					}
				}
				if d.Mechanism != sharing.MechanismNone {
					placed++
				}
			}
		}
	}
	if placed < 50 {
		t.Errorf("%d placed", placed)
	}
}
