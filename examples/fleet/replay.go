package main

import (
	"context"
	"errors"
	"time"

	"github.com/cotenant/cotenant/decision/placement"
)

// result is what one replay came to. The figures are simulated: a trace's tasks
// on a trace's nodes.
type result struct {
	Allocated float64 `json:"allocated_percent"` // of the cluster's GPU thousandths
	Arrived   float64 `json:"arrived_percent"`   // of them, asked for
	Placed    int     `json:"placed"`
	Failed    int     `json:"failed"`
	Seconds   float64 `json:"seconds"`

	curve []point
}

// point is the allocation after so much has arrived, both in percent.
type point struct{ arrived, allocated float64 }

// curveStep is the distance of the points, in percent of what arrived.
const curveStep = 0.5

// replay places the requests one after another. When ctx ends it returns what
// was placed until then with the error of ctx.
func replay(ctx context.Context, empty *placement.Snapshot, capacity int64, requests []placement.Request, policy placement.Policy) (result, error) {
	start := time.Now()
	var res result
	p := placement.NewPlacer(policy, nil)
	s := empty
	allocated, arrived := int64(0), int64(0)
	percent := func(n int64) float64 { return 100 * float64(n) / float64(capacity) }
	res.curve = append(res.curve, point{})
	var err error
	for i := range requests {
		if i%64 == 0 {
			if err = ctx.Err(); err != nil {
				break
			}
		}
		r := &requests[i]
		milli := int64(r.GPUs) * int64(r.Milli)
		arrived += milli
		if c, ok := p.Best(s, r); ok {
			next, _, e := s.Reserve(r, c)
			if e != nil {
				return res, errors.Join(errors.New("a candidate was refused"), e)
			}
			s = next
			allocated += milli
			res.Placed++
		} else {
			res.Failed++
		}
		if a := percent(arrived); a >= res.curve[len(res.curve)-1].arrived+curveStep || i == len(requests)-1 {
			res.curve = append(res.curve, point{a, percent(allocated)})
		}
	}
	res.Allocated, res.Arrived = percent(allocated), percent(arrived)
	res.Seconds = time.Since(start).Seconds()
	return res, err
}
