package replay

import (
	"context"
	"errors"
	"time"

	"github.com/cotenant/cotenant/decision/placement"
)

// Result holds the figures of one replay. They are simulated: a trace's tasks on a trace's nodes.
type Result struct {
	Allocated float64 `json:"allocated_percent"` // of the cluster's GPU thousandths
	Arrived   float64 `json:"arrived_percent"`   // of them, asked for
	Placed    int     `json:"placed"`
	Failed    int     `json:"failed"`
	Seconds   float64 `json:"seconds"`

	Curve []Point `json:"-"`
}

// Point is the allocation at an amount of arrivals, both in percent of the cluster's GPUs.
type Point struct{ Arrived, Allocated float64 }

// curveStep is the distance of the points, in percent of what arrived.
const curveStep = 0.5

// replay places the requests one after another. When ctx ends it returns what
// was placed until then with the error of ctx.
func replay(ctx context.Context, empty *placement.Snapshot, capacity int64, requests []placement.Request,
	policy placement.Policy) (Result, error) {
	start := time.Now()
	var res Result
	p := placement.NewPlacer(policy, nil)
	s := empty
	allocated, arrived := int64(0), int64(0)
	percent := func(n int64) float64 { return 100 * float64(n) / float64(capacity) }
	res.Curve = append(res.Curve, Point{})
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
		if a := percent(arrived); a >= res.Curve[len(res.Curve)-1].Arrived+curveStep || i == len(requests)-1 {
			res.Curve = append(res.Curve, Point{a, percent(allocated)})
		}
	}
	res.Allocated, res.Arrived = percent(allocated), percent(arrived)
	res.Seconds = time.Since(start).Seconds()
	return res, err
}
