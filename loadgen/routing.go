package loadgen

import (
	"fmt"
	"hash/fnv"
	"sync"
)

// Router chooses which of a tenant's endpoints serves a request.
//
//	tenant.Router = loadgen.RouterFunc(func(_ *loadgen.Prompt, at []loadgen.EndpointState) int {
//		best := 0
//		for i := range at {
//			if at[i].InFlight < at[best].InFlight {
//				best = i
//			}
//		}
//		return best
//	})
//
// Pick returns an index of at, which is in the order of Tenant.Endpoints and valid during the call. An index out of
// range ends the run with an error. Pick is called when the request is sent, and again when it is retried, from one
// goroutine at a time; a Router that several tenants share must be safe for concurrent use.
type Router interface {
	Pick(p *Prompt, at []EndpointState) int
}

// RouterFunc is a Router that is one function.
type RouterFunc func(p *Prompt, at []EndpointState) int

// Pick calls f.
func (f RouterFunc) Pick(p *Prompt, at []EndpointState) int { return f(p, at) }

// EndpointState describes an endpoint by the requests of one tenant.
type EndpointState struct {
	InFlight int64 // requests that were sent and have not ended
	// TokensInFlight are the prompt and output tokens that those mean, as far as their prompts say.
	TokensInFlight int64
	Sent           int64 // requests since the start, those in flight included
	Weight         int   // Endpoint.Weight, at least 1
}

// router chooses endpoints. It is safe for concurrent use.
type router struct {
	mu        sync.Mutex
	routing   Routing
	custom    Router // nil: as routing says
	endpoints []*endpoint
	state     []EndpointState // what custom is shown
}

// take picks p's endpoint; release ends the request there.
func (r *router) take(t *Tenant, p *Prompt) (e *endpoint, release func(), err error) {
	if r.custom == nil {
		return r.pick(p), func() {}, nil
	}
	tokens := int64(p.PromptTokens + p.outputBound(t))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = r.state[:0]
	for _, e := range r.endpoints {
		r.state = append(r.state, EndpointState{InFlight: e.inFlight, TokensInFlight: e.tokens, Sent: e.sent,
			Weight: e.weight})
	}
	i := r.custom.Pick(p, r.state)
	if i < 0 || i >= len(r.endpoints) {
		return nil, nil, fmt.Errorf("loadgen: tenant %q: its router picked endpoint %d of %d", t.Name, i, len(r.endpoints))
	}
	e = r.endpoints[i]
	e.inFlight++
	e.sent++
	e.tokens += tokens
	return e, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		e.inFlight--
		e.tokens -= tokens
	}, nil
}

func (r *router) pick(p *Prompt) *endpoint {
	if len(r.endpoints) == 1 {
		return r.endpoints[0]
	}
	key := ""
	switch r.routing {
	case RoutingStickySession:
		key = p.Session
	case RoutingStickyPrefix:
		key = p.Prefix
	case RoutingRoundRobin:
	}
	if key != "" {
		return r.sticky(key)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Smooth weighted round robin: everyone earns its weight, the richest is
	// picked and pays the sum. Ties go to the first.
	var best *endpoint
	sum := 0
	for _, e := range r.endpoints {
		e.credit += e.weight
		sum += e.weight
		if best == nil || e.credit > best.credit {
			best = e
		}
	}
	best.credit -= sum
	return best
}

// sticky picks by rendezvous hashing, so that an endpoint that is added or
// removed moves only the keys that are its own.
func (r *router) sticky(key string) *endpoint {
	var best *endpoint
	var bestScore uint64
	for _, e := range r.endpoints {
		h := fnv.New64a()
		h.Write([]byte(e.id))
		h.Write([]byte{0})
		h.Write([]byte(key))
		// FNV's high bits mix badly in short inputs; finish as splitmix64 does.
		x := h.Sum64()
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		if x ^= x >> 31; best == nil || x > bestScore {
			best, bestScore = e, x
		}
	}
	return best
}

func (r *router) close() {
	for _, e := range r.endpoints {
		e.transport.CloseIdleConnections()
	}
}
