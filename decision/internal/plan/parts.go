// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/sharing"
)

// unite forgets the parts that were formed.
func (pl *Planner) unite() {
	pl.Workloads, pl.part = pl.Workloads[:pl.Asked:pl.Asked], pl.part[:pl.Asked:pl.Asked]
	pl.Wanted = nil
	for _, cw := range pl.Workloads {
		pl.Wanted = append(pl.Wanted, cw.Workload().ReplicaCount())
	}
	pl.Choices, pl.Banned = pl.Choices[:pl.Asked:pl.Asked], pl.Banned[:pl.Asked:pl.Asked]
	trust := *pl.Trust
	trust.of = trust.of[:pl.Asked:pl.Asked]
	pl.Trust = &trust
}

// Longer is the added cost for an hour of work that takes longer than on the fleet's fastest GPU.
func (pl *Planner) Longer() (sum float64) {
	for w, c := range pl.Chosen {
		if c != nil {
			sum += c.Longer * float64(pl.Placed[w])
		}
	}
	return sum
}

// append adds a part of w, of so many replicas that have no place yet.
func (pl *Planner) append(w, replicas int) {
	pl.Workloads, pl.part = append(pl.Workloads, pl.Workloads[w]), append(pl.part, pl.part[w])
	pl.Choices, pl.Banned = append(pl.Choices, pl.Choices[w]), append(pl.Banned, pl.Banned[w])
	pl.Chosen, pl.Placed = append(pl.Chosen, nil), append(pl.Placed, 0)
	pl.Wanted, pl.Trust.of = append(pl.Wanted, replicas), append(pl.Trust.of, pl.Trust.of[w])
}

// Refused finds a workload's objective for which another without a place may not share GPUs that are held, with the
// choice, the reason and the notes of the prediction; c is nil where there is none.
func (pl *Planner) Refused(w int) (c *Choice, of int, why filter.Reason, notes []string) {
	for i := range pl.Choices[w] {
		c = &pl.Choices[w][i]
		var all [][]Member
		if g := pl.Groups[c.GroupKey]; g != nil {
			for _, b := range g.Bins {
				all = append(all, b.Members)
			}
		}
		if g := pl.Groups[GroupKey{c.Pool, sharing.MechanismExclusive}]; g != nil && traits.Of(c.Mechanism).Contends {
			for _, m := range g.Wholes {
				all = append(all, []Member{{m.Workload, 1}})
			}
		}
		for _, members := range all {
			members = pl.united(append(slices.Clone(members), Member{w, 1}))
			memory, apart := sharing.Bytes(0), false
			for _, m := range members {
				memory += pl.MemoryOf(m.Workload, c.Mechanism) * sharing.Bytes(m.Replicas)
				apart = apart || pl.Choice(m.Workload, c.GroupKey) == nil || !pl.Trust.trusts(m.Workload, w)
			}
			if apart || memory > pl.Usable(c.Pool, c.Mechanism) {
				continue
			}
			for k, o := range pl.Predict(Site{GroupKey: c.GroupKey}, members).Outcomes {
				of = members[k].Workload
				if o.Kept(&pl.EstimateOf(of, c.Pool, c.Mechanism).Demand) != sharing.AnswerYes {
					if o.Predicted != nil {
						notes = o.Predicted.Notes
					}
					return c, of, pl.reasonOf(of, c, Prediction{Outcomes: []predict.Estimate{o}}), notes
				}
			}
		}
	}
	return nil, 0, why, nil
}

// clear removes all workloads from their places.
func (pl *Planner) clear() {
	pl.unite()
	pl.Chosen = make([]*Choice, len(pl.Workloads))
	pl.Placed = make([]int, len(pl.Workloads))
	pl.Groups = map[GroupKey]*Group{}
}
