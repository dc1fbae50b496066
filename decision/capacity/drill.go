package capacity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict/serving"
)

// Drill is a part of the trace to be run on an arrangement, with what is predicted for exactly that part.
type Drill struct {
	Cluster   serving.Cluster               // servers, GPUs and router, as they were played
	Routes    []int                         // of each tenant: its service, -1 without one
	Predicted map[string]map[string]float64 // the figures of each tenant by name, latencies in ms

	requests []Request
}

// Of are the requests of a tenant, timed from the part's beginning.
func (d *Drill) Of(tenant int) []Request {
	var out []Request
	for _, r := range d.requests {
		if r.Tenant == tenant {
			out = append(out, r)
		}
	}
	return out
}

// Drill returns what is to be run to hold the arrangement against servers: the
// beginning of the searched stretch, at the searched load.
func (a *Arrangement) Drill(ctx context.Context, length time.Duration) (*Drill, error) {
	s := a.search
	if s == nil {
		return nil, errors.New("capacity: the arrangement is not of a search of this process")
	}
	d := &Drill{Predicted: map[string]map[string]float64{}}
	var routes map[int]route
	d.Cluster, routes = s.cluster(&a.found)
	for _, r := range s.traffic.window {
		if r.At = time.Duration(float64(r.At) / s.load); r.At < length {
			d.requests = append(d.requests, r)
		}
	}
	if len(d.requests) == 0 {
		return nil, fmt.Errorf("capacity: no request comes in the first %v", length)
	}
	for t := range s.plan.Tenants {
		to, ok := routes[t]
		if !ok {
			to.service = -1
		}
		d.Routes = append(d.Routes, to.service)
	}
	report, err := d.Cluster.Play(ctx, scaled(slices.Values(d.requests), routes, 1))
	if err != nil {
		return nil, err
	}
	for t, f := range s.seen(report, routes) {
		d.Predicted[s.plan.Tenants[t].Name] = f.values()
	}
	return d, nil
}
