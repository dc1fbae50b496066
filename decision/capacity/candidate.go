package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// placed is a part of a candidate: so many GPUs, each used as the layout says.
type placed struct {
	layout layout
	n      int
	fewest int    // no use of the GPUs by this kind takes fewer
	short  string // what is missed with one GPU fewer; "" where none fewer was possible
	tried  int    // the most GPUs that were tried, where none do; n then comes as close as any
}

// candidate is an arrangement to be played.
type candidate struct {
	kind     Kind
	parts    []placed
	router   serving.RoutePolicy
	kept     bool                        // as far as values go, without their intervals
	over     float64                     // the worst figure over its limit
	byRouter map[serving.RoutePolicy]int // the GPUs that each policy needs; negative: more than so many
}

// on says that the candidate's parts are on these kinds of GPU.
func (c *candidate) on(at []*gpu) bool {
	return slices.EqualFunc(c.parts, at, func(p placed, g *gpu) bool { return p.layout.gpu == g })
}

// mixed says that the candidate's GPUs are of several kinds.
func (c *candidate) mixed() bool {
	return slices.ContainsFunc(c.parts, func(p placed) bool { return p.layout.gpu != c.parts[0].layout.gpu })
}

// gpuName names the kinds of GPU, in the order of the parts.
func (c *candidate) gpuName() string {
	var names []string
	for i := range c.parts {
		if name := c.parts[i].layout.gpu.Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " + ")
}

// division names the division of the GPUs: each of them, or where they are of several
// kinds, which server is on which.
func (c *candidate) division() string {
	if !c.mixed() {
		return c.parts[0].layout.describe()
	}
	var each []string
	for i := range c.parts {
		l := &c.parts[i].layout
		each = append(each, fmt.Sprintf("%s on %d %s", l.servers[0].name, c.parts[i].n, l.gpu.Name))
	}
	return strings.Join(each, ", ")
}

// tried is the most GPUs that were tried where none of them serve some part; else 0.
func (c *candidate) tried() int {
	all, none := 0, true
	for i := range c.parts {
		p := &c.parts[i]
		all, none = all+max(p.n, p.tried), none && p.tried == 0
	}
	if none {
		return 0
	}
	return all
}

func (c *candidate) gpus() int {
	n := 0
	for i := range c.parts {
		n += c.parts[i].n
	}
	return n
}

func (c *candidate) perHour() (sum cost.Money, err error) {
	for i := range c.parts {
		price, err := c.parts[i].layout.gpu.PricePerHour.Mul(int64(c.parts[i].n))
		if err == nil && i > 0 {
			price, err = price.Add(sum)
		}
		if err != nil {
			return sum, err
		}
		sum = price
	}
	return sum, nil
}

// servers are those of all parts, in order.
func (c *candidate) servers() []server {
	var out []server
	for i := range c.parts {
		out = append(out, c.parts[i].layout.servers...)
	}
	return out
}

// replicas is the largest number of replicas of one server.
func (c *candidate) replicas() int {
	most := 0
	for i := range c.parts {
		for k := range c.parts[i].layout.servers {
			most = max(most, c.parts[i].n*c.parts[i].layout.copies(k))
		}
	}
	return most
}

// cluster is the candidate for the simulator, and where each tenant's requests go.
func (s *search) cluster(c *candidate) (serving.Cluster, map[int]route) {
	out := serving.Cluster{PrefixTokens: cmp.Or(s.plan.PrefixTokens, defaultPrefix),
		Calibration: &s.predictor.Calibration}
	routes := map[int]route{}
	for i := range c.parts {
		first := len(out.Services)
		p := &c.parts[i]
		for k := range p.layout.servers {
			sv := &p.layout.servers[k]
			service := serving.Service{Name: sv.name, Engine: sv.engine, Routing: serving.Routing{Policy: c.router,
				Seed: s.plan.Seed}, Objective: s.strictest(sv.tenants)}
			adapter := 0
			for _, t := range sv.tenants {
				to := route{service: first + k}
				if len(sv.tenants) > 1 {
					// The report tells the tenants of a server apart by their adapters.
					adapter++
					to.adapter = adapter
				}
				routes[t] = to
			}
			if adapter > 0 && service.Engine.Adapters.Slots == 0 {
				service.Engine.Adapters = tags(adapter)
			} else if adapter > 0 {
				service.Engine.Adapters.Slots = max(service.Engine.Adapters.Slots, adapter)
			}
			out.Services = append(out.Services, service)
		}
		for range p.n {
			for _, sl := range p.layout.slots {
				mechanism := p.layout.kind.Mechanism()
				if len(sl.seats) == 1 {
					mechanism = sharing.MechanismExclusive
				}
				out.GPUs = append(out.GPUs, serving.SharedGPU{Mechanism: mechanism, Memory: sl.memory})
				for _, x := range sl.seats {
					sv := &out.Services[first+x.server]
					sv.Replicas = append(sv.Replicas, serving.Replica{GPU: len(out.GPUs) - 1, Memory: x.memory})
				}
			}
		}
	}
	return out, routes
}

// tags are adapters that cost nothing: the tenants of a merged server, told apart in the report.
func tags(n int) costs.Adapters {
	free := costs.Cost{Basis: sharing.BasisSimulated}
	return costs.Adapters{Slots: n, Rank: 1, Targets: []costs.Projection{costs.ProjectionQ}, Step: free, Each: free,
		Prefill: free, Load: free, Fetch: free}
}

// strictest returns the tightest bounds on a request to a server of these tenants.
func (s *search) strictest(tenants []int) serving.Objective {
	var all Objectives
	for _, i := range tenants {
		all.Limits = append(all.Limits, s.plan.Tenants[i].Objectives.Limits...)
	}
	return all.PerRequest()
}

// fewest is the number of GPUs below which a part's work does not fit the window at
// all: every prompt computed without anything beside it, every token in a full batch.
func (s *search) fewest(l *layout, load float64) int {
	most, sum, host := 0.0, 0.0, 0.0
	for i := range l.servers {
		work := s.work(&l.servers[i])
		most, sum = max(most, work/float64(l.copies(i))), sum+work
		host += work * l.servers[i].engine.HostFraction.Value
	}
	switch l.kind { // one at a time, with the host's part hidden at best
	case KindTimeSlicing:
		most = max(most, sum) - host
	case KindSleep:
		most = max(most, sum)
	}
	return s.gpusFor(l, most, load)
}

// work is the least time that the tenants of a server take on one replica, in ms.
func (s *search) work(sv *server) (ms float64) {
	e := &sv.engine
	for _, t := range sv.tenants {
		of := &s.traffic.tenants[t]
		prompts := of.input
		if s.traffic.prefixes && !e.NoPrefixCache {
			prompts = 0 // all of it may be in the cache
		}
		ms += prompts/1e3*e.PrefillToken.Value + of.output*(e.StepSequence.Value+e.Step.Value/float64(e.MostSequences())) +
			of.squareOfResident/1e3*e.StepContext.Value
	}
	return ms
}

// gpusFor is the number of GPUs that do so much work in the time of the window and of the patience after it.
func (s *search) gpusFor(l *layout, ms, load float64) int {
	return max(int(ms/1e3/(s.traffic.seconds(load)+s.patience(l))), 1)
}

// patience is for how many seconds after the window a part's requests may go on within
// their limits; without a limit on all of a request, for good.
func (s *search) patience(l *layout) float64 {
	most := 0.0
	for i := range l.servers {
		for _, t := range l.servers[i].tenants {
			o := s.plan.Tenants[t].Objectives.PerRequest()
			whole := o.E2E
			if whole == 0 && o.TTFT > 0 && o.TPOT > 0 {
				whole = o.TTFT + time.Duration(s.traffic.tenants[t].longest)*o.TPOT
			}
			if whole == 0 {
				return math.Inf(1)
			}
			most = max(most, whole.Seconds())
		}
	}
	return most
}

// describe names what each server has of a GPU, "" where it is not divided.
func (l *layout) describe() string {
	var parts []string
	for i, p := range l.profiles {
		if n := l.copies(i); n > 1 {
			p = fmt.Sprintf("%d x %s", n, p)
		}
		parts = append(parts, l.servers[i].name+" "+p)
	}
	for i, p := range l.percents {
		parts = append(parts, fmt.Sprintf("%s %g%%", l.servers[i].name, p))
	}
	return strings.Join(parts, " + ")
}

// ErrUnknownName says that a text names no value of an enumeration.
var ErrUnknownName = errors.New("capacity: unknown name")

// Kind classifies an arrangement's use of GPUs.
type Kind uint8

// The kinds. The zero value is KindOwnGPU.
const (
	KindOwnGPU       Kind = iota // each server has GPUs of its own
	KindTimeSlicing              // servers of all tenants on each GPU, in turn
	KindMPS                      // at the same time, with or without shares of the SMs
	KindMIG                      // each on a slice of its own
	KindMergedServer             // tenants of one model in one server
	KindAdapters                 // tenants that are adapters of one model in one server
	KindSleep                    // on each GPU one server awake, the others asleep
)

var kinds = enum.Of[Kind](ErrUnknownName, "kind", "own-gpu", "time-slicing", "mps", "mig", "merged-server", "adapters",
	"sleep")

// Kinds lists the kinds in order.
func Kinds() []Kind { return kinds.Values() }

// Mechanism returns the mechanism by which servers on one GPU share it.
func (k Kind) Mechanism() sharing.Mechanism {
	switch k {
	case KindTimeSlicing, KindSleep:
		return sharing.MechanismTimeSlicing
	case KindMPS:
		return sharing.MechanismMPS
	case KindMIG:
		return sharing.MechanismMIG
	}
	return sharing.MechanismExclusive
}

// Latency is the quantity that a limit bounds. The zero value is LatencyTTFT.
type Latency uint8

// The latencies of a request.
const (
	LatencyTTFT Latency = iota // until the first token
	LatencyTPOT                // for each further token
	LatencyE2E                 // until the last
)

var latencies = enum.Of[Latency](ErrUnknownName, "latency", "ttft", "tpot", "e2e")

// Verdict is the answer to whether an arrangement keeps the objectives. The zero value is VerdictUnknown.
type Verdict uint8

// The verdicts.
const (
	VerdictUnknown Verdict = iota // an interval holds a limit: only a run settles it
	VerdictKept
	VerdictMissed
)

var verdicts = enum.Of[Verdict](ErrUnknownName, "verdict", "unknown", "kept", "missed")
