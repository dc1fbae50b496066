package capacity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/sharing"
)

// Result holds the findings of a search.
type Result struct {
	Currency string       `json:"currency"`
	Trace    TraceSummary `json:"trace"`
	// Arrangements are the cheapest of each kind at the largest load, by cost. A kind
	// whose cheapest is unknown has the cheapest that is known to be kept beside it.
	Arrangements []Arrangement `json:"arrangements"`
	Crossovers   []Crossover   `json:"crossovers"`
	Kept         []CheapestAt  `json:"kept"` // the cheapest of each kind that keeps the objectives at each load
	// Chosen is a copy of the cheapest arrangement that keeps the objectives, nil when none is known to.
	Chosen *Arrangement `json:"chosen"`
	// Why says in words what speaks for the chosen one against each other kind, and for its router.
	Why      []string    `json:"why"`
	Excluded []Exclusion `json:"excluded,omitempty"`
	// Whole is the chosen arrangement under the whole trace, where that is longer than the stretch that was searched.
	Whole *Whole `json:"whole,omitempty"`
	Plays int    `json:"plays"` // simulations that the search took
}

// Whole holds the tenants' figures under the chosen arrangement over the whole trace.
type Whole struct {
	Requests int             `json:"requests"`
	Tenants  []TenantFigures `json:"tenants"`
}

// TraceSummary describes the trace that was searched for.
type TraceSummary struct {
	Requests  int     `json:"requests"`
	DurationS float64 `json:"duration_s"`
	// The busiest stretch, which is what is played; its rate is that of load 1.
	WindowRequests int     `json:"window_requests"`
	WindowFromS    float64 `json:"window_from_s"`
	WindowS        float64 `json:"window_s"`
	PerS           float64 `json:"requests_per_s,omitempty"` // of several requests
}

// Arrangement is a way to serve the traffic, with what is foreseen of it at the largest load.
type Arrangement struct {
	Kind         Kind              `json:"kind"`
	Mechanism    sharing.Mechanism `json:"mechanism"`
	GPU          string            `json:"gpu"` // the name, or those of several kinds joined by " + "
	GPUs         int               `json:"gpus"`
	CopiesPerGPU int               `json:"copies_per_gpu"`
	// policy; "none" where each server has one replica
	Router string `json:"router"`
	// the most GPUs that were tried where none keep the objectives; those here are the fewest that come close to the
	// nearest
	Tried    int `json:"tried,omitempty"`
	Adapters int `json:"adapters"`
	// SM percentages or MIG profiles of the servers, or who is on which kind of GPU
	Division    string                      `json:"division,omitempty"`
	Servers     []ServerReplicas            `json:"servers"`
	Verdict     Verdict                     `json:"verdict"`
	Predicted   map[string]profile.Interval `json:"predicted"` // of the worst tenant; latencies in ms
	Tenants     []TenantFigures             `json:"tenants"`
	GoodputPerS float64                     `json:"goodput_per_s"`
	Utilisation float64                     `json:"utilisation"` // of the GPUs, of the time some kernel runs
	CostPerHour Money                       `json:"cost_per_hour"`
	PerMillion  profile.Optional[Money]     `json:"cost_per_million_good_tokens,omitzero"`
	FirstLimit  string                      `json:"first_limit"`
	// the largest load that is kept, over the searched one
	Headroom profile.Optional[float64] `json:"headroom,omitzero"`
	Curve    []CurvePoint              `json:"curve"`
	// of the GPUs, at most this share may be saved within the kind
	Gap      float64                            `json:"gap"`
	Reason   string                             `json:"reason"` // why so many GPUs, in words
	Settle   string                             `json:"settle,omitempty"`
	Basis    sharing.Basis                      `json:"basis"`
	ByRouter map[serving.RoutePolicy]RouterNeed `json:"by_router,omitempty"`

	found  candidate
	played *played
	search *search
}

// RouterNeed counts the GPUs that an arrangement takes with another policy.
type RouterNeed struct {
	GPUs int  `json:"gpus"`
	More bool `json:"more,omitempty"` // more than so many
}

// ServerReplicas is a server and how many of it there are.
type ServerReplicas struct {
	Name     string `json:"name"`
	Replicas int    `json:"replicas"`
}

// TenantFigures holds one tenant's figures.
type TenantFigures struct {
	Name      string                      `json:"name"`
	Predicted map[string]profile.Interval `json:"predicted"`
}

// CurvePoint is an arrangement at another load.
type CurvePoint struct {
	Load float64            `json:"load"`
	Over float64            `json:"over"` // the worst figure over its limit; above 1 it is missed
	Seen map[string]float64 `json:"seen"` // figures of the worst tenant
}

// Crossover is a load at which the cheapest arrangement changes.
type Crossover struct {
	Above float64    `json:"above_load"`
	UpTo  float64    `json:"up_to_load"`
	From  CheapestAt `json:"from"`
	To    CheapestAt `json:"to"`
}

// CheapestAt is the cheapest arrangement at a load.
type CheapestAt struct {
	Load        float64 `json:"load"`
	Kind        Kind    `json:"kind"`
	GPU         string  `json:"gpu"`
	GPUs        int     `json:"gpus"`
	CostPerHour Money   `json:"cost_per_hour"`
}

// Exclusion is a kind or GPU that was not searched, with the reason.
type Exclusion struct {
	Kind   string `json:"kind,omitempty"`
	GPU    string `json:"gpu,omitempty"`
	Reason string `json:"reason"`
}

// Money is an exact amount; in JSON it is a plain number beside the result's currency.
type Money struct{ cost.Money }

// MarshalJSON writes the amount as a number.
func (m Money) MarshalJSON() ([]byte, error) {
	text := m.Decimal()
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return []byte(text), nil
}

func (s *search) describeTrace() TraceSummary {
	t := s.traffic
	out := TraceSummary{
		Requests: t.total, DurationS: t.duration.Seconds(), WindowRequests: len(t.window), WindowFromS: t.from.Seconds(),
		WindowS: t.seconds(1),
	}
	if t.window[len(t.window)-1].At > 0 {
		out.PerS = figures4(float64(len(t.window)) / t.seconds(1))
	}
	return out
}

func (s *search) standing(c *candidate, load float64) CheapestAt {
	price, _ := c.perHour() // it was computed before
	return CheapestAt{Load: load, Kind: c.kind, GPU: c.gpuName(), GPUs: c.gpus(), CostPerHour: Money{price}}
}

// close orders what was found and chooses.
func (s *search) close(r *Result) {
	slices.SortStableFunc(r.Arrangements, func(a, b Arrangement) int {
		return cmp.Or(cmp.Compare(a.CostPerHour.Micros(), b.CostPerHour.Micros()),
			-cmp.Compare(a.Headroom.Or(0), b.Headroom.Or(0)), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Verdict, b.Verdict))
	})
	for i := range r.Arrangements {
		if r.Arrangements[i].Verdict == VerdictKept {
			chosen := r.Arrangements[i]
			r.Chosen = &chosen
			break
		}
	}
	r.Excluded, r.Plays = s.excluded, s.plays
}

// figures4 keeps four figures: more would pretend.
func figures4(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) { // JSON has no such numbers
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// rounded are figures to four places.
func (f figures) rounded() map[string]profile.Interval {
	out := map[string]profile.Interval{}
	for name, i := range f {
		out[name] = profile.Interval{Value: figures4(i.Value), Low: figures4(i.Low), High: figures4(i.High)}
	}
	return out
}

// values are figures to four places, without their intervals.
func (f figures) values() map[string]float64 {
	out := map[string]float64{}
	for name, i := range f {
		out[name] = figures4(i.Value)
	}
	return out
}

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
