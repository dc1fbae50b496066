package serving

import (
	"cmp"
	"math/rand/v2"

	"github.com/cotenant/cotenant/decision/predict/internal/batching"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/splitmix"
)

// Router decides which replica of a service gets a request. It may keep what it needs to remember and is called
// from one goroutine, request by request in order of time. It works on any replicas of which somebody states the
// load, simulated or real.
type Router interface {
	// Route returns the index of one of the replicas, of which there is at least one.
	Route(r *Request, replicas []ReplicaState) int
}

// ReplicaState holds the facts about a replica that a router may use.
type ReplicaState struct {
	Waiting, Running   int // requests
	KVUsed, KVCapacity int // tokens; a capacity of 0 is not known
	Pending            int // tokens of prompts not yet computed
	Asleep             bool
	// Cached says how many blocks of a prefix are in the replica's cache, Holds
	// whether an adapter is on its GPU; nil where that is not known.
	Cached func(prefix []uint64) int
	Holds  func(adapter int) bool
}

// RoutePolicy is a policy that people run.
type RoutePolicy uint8

// The policies.
const (
	// RoutePolicyRoundRobin takes one replica after the other. Default.
	RoutePolicyRoundRobin RoutePolicy = iota
	// RoutePolicyRandom draws one.
	RoutePolicyRandom
	// RoutePolicyLeastRequests takes the one with the fewest requests, waiting and running.
	RoutePolicyLeastRequests
	// RoutePolicyPowerOfTwo draws two and takes the one with fewer requests (M. Mitzenmacher, The power of two choices in
	// randomized load balancing, 2001).
	RoutePolicyPowerOfTwo
	// RoutePolicySession sends a session always to the same replica, by rendezvous
	// hashing, and requests without one to the one with the fewest requests.
	RoutePolicySession
	// RoutePolicyPrefixApproximate weighs how much of the prompt the router has sent to
	// a replica lately against its queue and its KV cache, as the Gateway API inference
	// extension does by default; it remembers Routing.PrefixBlocks blocks a replica.
	RoutePolicyPrefixApproximate
	// RoutePolicyPrefixExact does the same with what the replica's cache holds, where
	// ReplicaState.Cached tells, as llm-d's precise scorer does.
	RoutePolicyPrefixExact
	// RoutePolicyKVAware takes the replica with the least work, as Dynamo's router does:
	// blocks of the prompt that it would have to compute, and those that it holds.
	RoutePolicyKVAware
)

var routePolicies = enum.Of[RoutePolicy](profile.ErrUnknownName, "routing policy",
	"round-robin", "random", "least-requests", "power-of-two", "session", "prefix-approximate", "prefix-exact", "kv-aware")

// RoutePolicies lists the policies in order.
func RoutePolicies() []RoutePolicy { return routePolicies.Values() }

// Routing says which policy routes, and with what weights. The zero value is round robin.
type Routing struct {
	Policy RoutePolicy
	Seed   uint64 // of the policies that draw
	// PrefixBlocks counts the blocks that an approximate router remembers for each
	// replica; 0 = 31250, as the inference extension does.
	PrefixBlocks int
	// Weights of the prefix policies' scores; all zero = 3, 2 and 2.
	PrefixWeight, QueueWeight, KVWeight float64
	// New makes a router of one's own instead.
	New func(replicas int) Router
}

const usualPrefixBlocks = 31250

// Router returns a new router over so many replicas, which remembers nothing yet.
func (r Routing) Router(replicas int) Router {
	if r.New != nil {
		return r.New(replicas)
	}
	rng := rand.New(rand.NewPCG(r.Seed, uint64(replicas)))
	switch r.Policy {
	case RoutePolicyRandom:
		return routeFunc(func(_ *Request, s []ReplicaState) int { return rng.IntN(len(s)) })
	case RoutePolicyLeastRequests:
		return &leastRequests{}
	case RoutePolicyPowerOfTwo:
		return routeFunc(func(_ *Request, s []ReplicaState) int {
			a, b := rng.IntN(len(s)), rng.IntN(len(s))
			if s[b].requests() < s[a].requests() {
				return b
			}
			return a
		})
	case RoutePolicySession:
		return &sessionAffinity{}
	case RoutePolicyPrefixApproximate, RoutePolicyPrefixExact:
		p := &prefixScorer{prefix: r.PrefixWeight, queue: r.QueueWeight, kv: r.KVWeight}
		if p.prefix == 0 && p.queue == 0 && p.kv == 0 {
			p.prefix, p.queue, p.kv = 3, 2, 2
		}
		if r.Policy == RoutePolicyPrefixApproximate {
			for range replicas {
				p.sent = append(p.sent, batching.NewKVCache(cmp.Or(r.PrefixBlocks, usualPrefixBlocks), 1))
			}
		}
		return p
	case RoutePolicyKVAware:
		return &kvAware{}
	}
	next := -1
	return routeFunc(func(_ *Request, s []ReplicaState) int {
		next = (next + 1) % len(s)
		return next
	})
}

func (s *ReplicaState) requests() int { return s.Waiting + s.Running }

type routeFunc func(r *Request, replicas []ReplicaState) int

func (f routeFunc) Route(r *Request, replicas []ReplicaState) int { return f(r, replicas) }

// rotation breaks ties: the search for the best begins one replica further each time.
type rotation struct{ from int }

func (t *rotation) best(n int, value func(i int) float64) int {
	t.from = (t.from + 1) % n
	best, least := t.from, value(t.from)
	for k := 1; k < n; k++ {
		i := (t.from + k) % n
		if v := value(i); v < least {
			best, least = i, v
		}
	}
	return best
}

type leastRequests struct{ ties rotation }

func (l *leastRequests) Route(_ *Request, s []ReplicaState) int {
	return l.ties.best(len(s), func(i int) float64 { return float64(s[i].requests()) })
}

type sessionAffinity struct{ least leastRequests }

func (a *sessionAffinity) Route(r *Request, s []ReplicaState) int {
	if r.Session == 0 {
		return a.least.Route(r, s)
	}
	best, most := 0, uint64(0)
	for i := range s {
		if h := splitmix.Next(r.Session ^ splitmix.Next(uint64(i)+1)); h > most {
			best, most = i, h
		}
	}
	return best
}

// prefixScorer weighs the cached part of the prompt, the queue relative to the
// others' and the free part of the KV cache.
type prefixScorer struct {
	prefix, queue, kv float64
	sent              []*batching.KVCache // by replica: what was sent there lately; nil = ask the replicas
	ties              rotation
}

func (p *prefixScorer) Route(r *Request, s []ReplicaState) int {
	low, high := s[0].Waiting, s[0].Waiting
	for i := range s {
		low, high = min(low, s[i].Waiting), max(high, s[i].Waiting)
	}
	to := p.ties.best(len(s), func(i int) float64 {
		score := p.queue
		if high > low {
			score *= float64(high-s[i].Waiting) / float64(high-low)
		}
		if c := s[i].KVCapacity; c > 0 {
			score += p.kv * (1 - float64(s[i].KVUsed)/float64(c))
		}
		if n := len(r.Prefix); n > 0 {
			score += p.prefix * float64(p.cached(i, r, s)) / float64(n)
		}
		return -score
	})
	if to < len(p.sent) && len(r.Prefix) > 0 {
		c := p.sent[to]
		prefix := r.Prefix[:min(len(r.Prefix), c.Total)]
		end, _, _ := c.Admit(prefix, 0, 0)
		c.Release(end, 0)
	}
	return to
}

func (p *prefixScorer) cached(i int, r *Request, s []ReplicaState) int {
	switch {
	case i < len(p.sent):
		return p.sent[i].Hits(r.Prefix)
	case p.sent == nil && s[i].Cached != nil:
		return s[i].Cached(r.Prefix)
	}
	return 0
}

// kvAware counts in blocks of the request's prefix where it has one.
type kvAware struct{ ties rotation }

func (k *kvAware) Route(r *Request, s []ReplicaState) int {
	return k.ties.best(len(s), func(i int) float64 {
		fresh := float64(r.Input)
		if n := len(r.Prefix); n > 0 && s[i].Cached != nil {
			fresh *= 1 - float64(s[i].Cached(r.Prefix))/float64(n)
		}
		return fresh + float64(s[i].Pending) + float64(s[i].KVUsed)
	})
}
