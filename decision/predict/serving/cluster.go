// Package serving simulates model servers: a [Cluster] is GPUs with replicas of services on them and routers in front.
// [Cluster.Play] plays a trace of requests against it, with KV caches that fill up, shared prefixes, prompts in chunks,
// LoRA adapters and servers that sleep, and [Cluster.Foresee] adds what uncertain costs leave open. A [Router] works
// outside the simulation too.
//
// The same input gives the same report. Experimental: its API may change.
package serving

import (
	"cmp"
	"fmt"
	"iter"
	"time"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/internal/batching"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// Cluster is GPUs, the services whose replicas stand on them, and the routers in
// front: what a trace of requests is played against.
//
// Replicas on one GPU slow each other down as [predict.Predictor.Predict] says of tenants: turns under time-slicing,
// waiting for SMs under MPS. Each has a KV cache of its own, in what its memory leaves.
type Cluster struct {
	GPUs     []SharedGPU
	Services []Service
	// PrefixTokens counts the tokens that each hash of Request.Prefix stands for, a
	// multiple of the engines' blocks; 0 = 16. Mooncake's traces have 512.
	PrefixTokens int
	Warmup       time.Duration // what comes earlier is not counted
	Until        time.Duration // when the clock stops; 0 = when all requests have ended
	// Calibration holds the constants of sharing; nil = those of an H200.
	Calibration *costs.Calibration
}

// SharedGPU is a GPU, or a slice of one, and how those on it share it.
type SharedGPU struct {
	Mechanism sharing.Mechanism // exclusive, time-slicing, mps; a MIG slice is exclusive
	Memory    sharing.Bytes     // 0 = not stated: nobody needs to sleep
}

// Service is a model that is served, or a merged server with adapters.
type Service struct {
	Name      string
	Engine    costs.Engine
	Replicas  []Replica
	Routing   Routing
	Objective Objective // what a request must keep to count as good
	Clients   *Clients  // a closed loop, beside the requests that are played
}

// Replica is one server of a service.
type Replica struct {
	GPU    int           // index
	Memory sharing.Bytes // that it may take; 0 = an even share of the GPU's
}

// Clients are a closed loop: N of them, each of whom sends the next request Think
// after its last one has ended. Their requests' At does not count.
type Clients struct {
	N        int
	Think    time.Duration
	Requests iter.Seq[Request]
}

func (c *Cluster) memory(r Replica) sharing.Bytes {
	if r.Memory > 0 {
		return r.Memory
	}
	n := 0
	for i := range c.Services {
		for _, o := range c.Services[i].Replicas {
			if o.GPU == r.GPU {
				n++
			}
		}
	}
	return c.GPUs[r.GPU].Memory / sharing.Bytes(max(n, 1))
}

func (c *Cluster) prefixTokens() int { return cmp.Or(c.PrefixTokens, costs.UsualBlock) }

// maxReplicas bounds what a cluster's simulation takes.
const maxReplicas = 1 << 14

// Validate names everything that is wrong with c in one error, or returns nil.
func (c *Cluster) Validate() error {
	var list problem.List
	list.If(len(c.GPUs) == 0, "gpus", "", "are none")
	list.If(len(c.Services) == 0, "services", "", "are none")
	list.If(c.PrefixTokens < 0 || c.PrefixTokens > 1<<20, "prefix_tokens", "", "must lie between 0 and %d, is %d", 1<<20,
		c.PrefixTokens)
	list.If(c.Warmup < 0 || c.Until < 0, "", "", "times must not be negative")
	if c.Calibration != nil {
		list.AddErr("calibration", c.Calibration.Validate())
	}
	all := 0
	on := make([][]Replica, len(c.GPUs))
	for i := range c.Services {
		s, at := &c.Services[i], fmt.Sprintf("services[%d]", i)
		s.Engine.Check(&list, at+".engine")
		list.If(len(s.Replicas) == 0, at+".replicas", "", "are none")
		all += len(s.Replicas)
		if b := s.Engine.Block(); !s.Engine.NoPrefixCache && c.prefixTokens()%b != 0 {
			list.Addf(at+".engine.block_tokens", "cut the trace's blocks into whole ones of the engine",
				"%d do not divide the %d tokens of a prefix's block", b, c.prefixTokens())
		}
		if k := s.Clients; k != nil {
			list.If(k.N < 1 || k.N > 1<<20, at+".clients", "", "must be 1 to %d, are %d", 1<<20, k.N)
			list.If(k.Think < 0, at+".clients.think", "", "is negative")
			list.If(k.Requests == nil, at+".clients.requests", "", "are missing")
		}
		for k, r := range s.Replicas {
			path := fmt.Sprintf("%s.replicas[%d]", at, k)
			if r.GPU < 0 || r.GPU >= len(c.GPUs) {
				list.Addf(path+".gpu", "", "is no index among %d GPUs: %d", len(c.GPUs), r.GPU)
				continue
			}
			on[r.GPU] = append(on[r.GPU], r)
			memory := c.memory(r)
			if g := c.GPUs[r.GPU].Memory; g > 0 && memory > g {
				list.Addf(path+".memory", "", "%v are more than the GPU's %v", memory, g)
			}
			if memory <= 0 {
				list.Addf(path+".memory", "state the replica's memory or its GPU's", "is not known")
			} else if _, err := s.Engine.KVTokens(memory); err != nil {
				list.AddErr(path+".memory", err)
			}
		}
	}
	list.If(all > maxReplicas, "services", "", "have %d replicas, at most %d", all, maxReplicas)
	for i, g := range c.GPUs {
		at := fmt.Sprintf("gpus[%d]", i)
		switch g.Mechanism {
		case sharing.MechanismTimeSlicing, sharing.MechanismMPS:
		case sharing.MechanismExclusive, sharing.MechanismMIG:
			list.If(len(on[i]) > 1, at+".mechanism", "use time-slicing or mps, or a GPU for each MIG slice",
				"%d replicas do not share a GPU under %s", len(on[i]), g.Mechanism)
		default:
			list.Addf(at+".mechanism", "use exclusive, time-slicing or mps", "%s is not simulated", g.Mechanism)
		}
	}
	c.checkMemory(&list)
	return list.Err()
}

// checkMemory holds the replicas of each GPU against its memory: those that do not fit must be able to sleep.
func (c *Cluster) checkMemory(list *problem.List) {
	type sum struct{ awake, fixed, most sharing.Bytes }
	sums := make([]sum, len(c.GPUs))
	for i := range c.Services {
		s := &c.Services[i]
		for _, r := range s.Replicas {
			if r.GPU < 0 || r.GPU >= len(c.GPUs) {
				continue
			}
			m, left := c.memory(r), s.Engine.Sleep.Asleep
			if s.Engine.Sleep.Level == costs.SleepNever {
				left = m
			}
			sums[r.GPU].awake += m
			sums[r.GPU].fixed += left
			sums[r.GPU].most = max(sums[r.GPU].most, m-left)
		}
	}
	for i, g := range c.GPUs {
		if s := sums[i]; g.Memory > 0 && s.awake > g.Memory && s.fixed+s.most > g.Memory {
			list.Addf(fmt.Sprintf("gpus[%d].memory", i), "give replicas less memory, let them sleep, or place fewer",
				"%v do not hold the %v of its replicas, and not enough of them can sleep", g.Memory, s.awake)
		}
	}
}

// Request is one request of a trace.
type Request struct {
	At      time.Duration // since the trace's beginning; ascending
	Service int           // index among the cluster's services
	Input   int           // tokens of the prompt
	Output  int           // tokens of the answer, at least 1
	// Prefix identifies the prompt's beginning: a hash for each whole block of Cluster.PrefixTokens tokens, that
	// depends on all tokens before it as well. Requests with equal beginnings share them in the prefix cache. Play
	// holds on to it until the request has ended.
	Prefix []uint64
	// Answer continues Prefix over the blocks that prompt and answer fill together: they are in the cache too once
	// the request has ended, as a conversation's next prompt will find them.
	Answer  []uint64
	Session uint64 // what session affinity goes by; 0 = none
	Adapter int    // 0 = the base model
}

// Objective holds the limits of a good request; a limit of 0 is none.
type Objective struct {
	TTFT, TPOT, E2E time.Duration
}

func (o *Objective) kept(ttft, tpot, e2e float64) bool {
	within := func(v float64, limit time.Duration) bool { return limit == 0 || v <= batching.InMillis(limit) }
	return within(ttft, o.TTFT) && within(tpot, o.TPOT) && within(e2e, o.E2E)
}
