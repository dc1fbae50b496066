package capacity

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// ErrInvalid is matched by every error about a plan. Such an error names every
// problem with its path and, where there is one, the remedy.
var ErrInvalid = errors.New("capacity: invalid plan")

// Request is one request of the traffic.
type Request struct {
	At     time.Duration // since the trace's beginning; ascending
	Tenant int           // index among the plan's tenants
	Input  int           // tokens of the prompt
	Output int           // tokens of the answer
	// Prefix has a hash for each whole block of Plan.PrefixTokens tokens of the prompt
	// that depends on all tokens before it as well; nil shares nothing.
	Prefix  []uint64
	Session uint64 // what session affinity goes by; 0 = none
	Adapter int    // of the tenant's own adapters, from 1; 0 = its model
}

// Tenant is a sender of requests, with the model that they ask for.
type Tenant struct {
	Name string
	// Model is the base model's name: tenants that name the same one can be served by
	// one merged server, and adapters of it by one server with adapters.
	Model string
	Shape costs.Model
	// AdapterRank says that the tenant's model is a LoRA adapter of Model with this
	// rank: alone it is served with its weights merged in. 0 = it is the base model.
	AdapterRank int
	// Adapters is the way a server of the tenant serves the adapters that its requests name; the zero value has none.
	Adapters costs.Adapters
	// Profiles are measurements of a server of the tenant alone, on any GPU; without any its costs are priors.
	Profiles []profile.Solo
	// Configure sets what a server of the tenant does otherwise than Plan.Scheduling says: sequences in a batch, chunks
	// of prompts, the prefix cache. nil = nothing.
	Configure  func(*costs.Engine)
	Objectives Objectives
}

// GPU is a GPU that may be bought or rented.
type GPU struct {
	Name         string // product name
	PricePerHour cost.Money
	Most         int // that there are; 0 = 64
}

// Plan is the question: how many GPUs does this traffic need?
type Plan struct {
	Tenants []Tenant
	// Requests is the trace, in order of time. It is ranged over many times.
	Requests     iter.Seq[Request]
	PrefixTokens int // of a block of Request.Prefix; 0 = 16
	GPUs         []GPU
	// Loads are multiples of the trace's rate at which the search is made; the largest
	// decides, the others give the crossovers. nil = 1.
	Loads     []float64
	Kinds     []Kind // nil = all
	MaxCopies int    // of a server on one GPU; 0 = 2
	// Percents are the active thread percentages of the servers that are tried under MPS beside none at all, each
	// in the order of the tenants; nil = halves and thirds for two servers.
	Percents [][]float64
	// Scheduling is the serving engine of all tenants, with its defaults or what it was told.
	Scheduling costs.Scheduling
	// ProfiledLimits holds servers to the sequences that the profiled ones had at most. Without it they are a limit
	// of those alone.
	ProfiledLimits bool
	Predictor      *predict.Predictor // nil = predict.NewPredictor
	Seed           uint64
	// WindowRequests is the number of requests that the search plays: of a longer trace it takes
	// the busiest stretch of so many. 0 = 4000.
	WindowRequests int
	Progress       func(Progress) // may be nil
}

// Progress is the state of a running search.
type Progress struct {
	Load  float64 // multiple that is searched
	Kind  Kind
	GPU   string
	GPUs  int // that are played now
	Plays int // so far
	// Whole of Of requests of the whole trace have been played, at the end.
	Whole, Of int
}

// String describes the state in half a line.
func (p Progress) String() string {
	if p.Of > 0 {
		return fmt.Sprintf("the whole trace on the chosen arrangement: %d of %d requests", p.Whole, p.Of)
	}
	return fmt.Sprintf("load %g: %s on %d %s, simulation %d", p.Load, p.Kind, p.GPUs, p.GPU, p.Plays)
}

const (
	defaultMost   = 64
	defaultWindow = 4000
	usableMemory  = 0.9 // of a GPU's, that its servers may take (vLLM's gpu_memory_utilization)
	defaultPrefix = 16
	maxTenants    = 16
	maxLoads      = 16
	maxPrompt     = 1 << 24
	slotRank      = 16 // the largest that an adapter's slot holds at least (vLLM's max_lora_rank)
	maxRank       = 512
	maxGPUs       = 4096
)

// Validate names everything that is wrong with the plan but its requests, which are checked as they are read.
func (p *Plan) Validate() error {
	var l problem.List
	l.If(len(p.Tenants) == 0, "tenants", "name at least one", "none")
	l.If(len(p.Tenants) > maxTenants, "tenants", "group them", "%d are more than %d", len(p.Tenants), maxTenants)
	l.If(p.Requests == nil, "requests", "give the trace", "none")
	l.If(len(p.GPUs) == 0, "gpus", "name at least one with its price", "none")
	l.If(p.PrefixTokens < 0 || p.PrefixTokens%16 != 0, "prefix_tokens", "use a multiple of 16", "is %d", p.PrefixTokens)
	l.If(p.MaxCopies < 0 || p.MaxCopies > 8, "max_copies", "use 0 to 8", "is %d", p.MaxCopies)
	l.If(p.WindowRequests < 0, "window_requests", "use 0 or more", "is %d", p.WindowRequests)
	l.AddErr("scheduling", p.Scheduling.Validate())
	l.If(len(p.Loads) > maxLoads, "loads", "", "%d are more than %d", len(p.Loads), maxLoads)
	for i, x := range p.Loads {
		l.If(!(x > 0 && x <= 1000), fmt.Sprintf("loads[%d]", i), "use a multiple above 0, at most 1000", "is %v", x)
	}
	for i, k := range p.Kinds {
		l.If(!kinds.Has(k), fmt.Sprintf("kinds[%d]", i), "use one of the package's constants", "%d is not a value", k)
	}
	for i, of := range p.Percents {
		at := fmt.Sprintf("percents[%d]", i)
		l.If(len(of) != len(p.Tenants), at, "give one for each tenant", "%d for %d tenants", len(of), len(p.Tenants))
		for k, v := range of {
			l.If(!(v > 0 && v <= 100), fmt.Sprintf("%s[%d]", at, k), "use a percentage above 0, at most 100", "is %v", v)
		}
	}
	names := map[string]bool{}
	for i := range p.Tenants {
		t, at := &p.Tenants[i], fmt.Sprintf("tenants[%d]", i)
		l.If(t.Name == "" || names[t.Name], at+".name", "give each a name of its own", "is %q", problem.Clip(t.Name))
		names[t.Name] = true
		p.checkTenant(&l, at, t)
	}
	currency := ""
	for i, g := range p.GPUs {
		at := fmt.Sprintf("gpus[%d]", i)
		row, err := sharing.LookupGPU(g.Name)
		l.AddErr(at+".name", err)
		l.If(g.PricePerHour.Sign() <= 0, at+".price", "give a price per hour above 0", "is %v", g.PricePerHour)
		l.If(currency != "" && g.PricePerHour.Currency() != currency, at+".price", "use one currency",
			"is in %s, the first in %s", g.PricePerHour.Currency(), currency)
		currency = g.PricePerHour.Currency()
		l.If(g.Most < 0 || g.Most > maxGPUs, at+".most", fmt.Sprintf("use 0 to %d", maxGPUs), "is %d", g.Most)
		l.If(err == nil && slices.ContainsFunc(p.GPUs[:i], func(o GPU) bool {
			other, _ := sharing.LookupGPU(o.Name)
			return other == row
		}), at+".name", "name each once", "%s twice", g.Name)
	}
	return l.Under(ErrInvalid)
}

func (p *Plan) checkTenant(l *problem.List, at string, t *Tenant) {
	l.If(t.Model == "", at+".model", "name the model", "missing")
	if s := t.Shape; !(s.Parameters > 0 && s.Layers > 0 && (s.KVHeads > 0 && s.HeadDim > 0 || s.Latent > 0)) {
		l.Addf(at+".shape", "state parameters, layers, KV heads and head dimension", "is incomplete")
	}
	l.If(t.AdapterRank < 0 || t.AdapterRank > maxRank, at+".adapter_rank", "", "must lie between 0 and %d, is %d", maxRank,
		t.AdapterRank)
	for i, m := range t.Objectives.Limits {
		path := fmt.Sprintf("%s.objectives.limits[%d]", at, i)
		l.If(!latencies.Has(m.Latency), path+".latency", "use one of the package's constants", "%d is not a value", m.Latency)
		l.If(!slices.Contains(percentiles[:], m.Percentile), path+".percentile", "use 50, 90, 95 or 99", "is %d",
			m.Percentile)
		l.If(m.Most <= 0, path+".most", "give a time above 0", "is %v", m.Most)
		if k := slices.IndexFunc(t.Objectives.Limits, m.undercuts); k >= 0 {
			l.Addf(path, "raise it, or lower the other, which it makes void", "%v is below %v", m,
				t.Objectives.Limits[k])
		}
	}
	s := t.Objectives.Share
	l.If(!(s >= 0 && s <= 1), at+".objectives.share", "use 0 to 1", "is %v", s)
	l.If(s > 0 && len(t.Objectives.Limits) == 0, at+".objectives.share", "say what the share must keep", "without a limit")
}

func (p *Plan) loads() []float64 {
	if len(p.Loads) == 0 {
		return []float64{1}
	}
	return slices.Compact(slices.Sorted(slices.Values(p.Loads)))
}
