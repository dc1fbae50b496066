package serving

import (
	"time"

	"github.com/cotenant/cotenant/decision/predict/internal/batching"
)

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

// Objective is what a good request keeps; a limit of 0 is none.
type Objective struct {
	TTFT, TPOT, E2E time.Duration
}

// kept says whether latencies in ms keep the objective.
func (o *Objective) kept(ttft, tpot, e2e float64) bool {
	within := func(v float64, limit time.Duration) bool { return limit == 0 || v <= batching.InMillis(limit) }
	return within(ttft, o.TTFT) && within(tpot, o.TPOT) && within(e2e, o.E2E)
}
