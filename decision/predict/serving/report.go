package serving

import (
	"maps"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict/internal/batching"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// Report holds the outcome of a played trace. All of it is simulated.
type Report struct {
	Basis     sharing.Basis
	Simulated time.Duration // counted: without the warm-up
	Services  []ServiceReport
	GPUs      []GPUReport
}

// ServiceReport holds the figures that the clients of one service saw.
type ServiceReport struct {
	Name string
	Served
	GoodPerS float64 // good requests a second
	// Foreseen are the metrics, GoodPerSRange the good requests a second and GoodFractionRange and HitFractionRange the
	// shares of good requests and of cached tokens, with the bounds that uncertain costs leave; absent from Play.
	Foreseen          map[profile.Metric]profile.Interval
	GoodPerSRange     profile.Optional[profile.Interval]
	GoodFractionRange profile.Optional[profile.Interval]
	HitFractionRange  profile.Optional[profile.Interval]
	Replicas          []ReplicaReport
	Adapters          []AdapterReport // of servers with adapters, by id
}

// Served counts requests by their fate, without those that came in the warm-up.
type Served struct {
	Requests, Completed, Rejected, Unfinished int64
	Good                                      int64 // completed within the objective
	Preemptions                               int64
	InputTokens, CachedTokens                 int64
	OutputTokens                              int64 // given within the counted time
	profile.Outcome
}

// HitFraction is the share of the prompts' tokens that were in the prefix cache.
func (s *Served) HitFraction() float64 {
	if s.InputTokens == 0 {
		return 0
	}
	return float64(s.CachedTokens) / float64(s.InputTokens)
}

// GoodFraction is the share of the requests that were good, of those that came and are not still under way.
func (s *Served) GoodFraction() float64 {
	if n := s.Completed + s.Rejected; n > 0 {
		return float64(s.Good) / float64(n)
	}
	return 0
}

// AdapterReport holds the figures that the clients of one adapter saw.
type AdapterReport struct {
	Adapter   int // 0 = the base model, -1 = all beyond the first few thousand
	Completed int64
	Good      int64
	profile.Outcome
}

// ReplicaReport sums up the work of one replica in the whole simulation.
type ReplicaReport struct {
	BusyFraction            float64 // of the time it computed something
	KVCapacity, KVHighWater int     // tokens
	QueueHighWater          int     // requests that waited at once
	HitFraction             float64 // of its prompts' tokens
	Completed               int64
	Preemptions, Evictions  int64
	AdapterLoads            int64
	Wakes                   int
	// Requests that had to wait first for a place in the batch, for KV cache, or
	// for an adapter's slot, and not only for the step to end.
	WaitedForSequences, WaitedForKV, WaitedForAdapter int64
}

// GPUReport sums up the work of one GPU.
type GPUReport struct {
	BusyFraction float64 // of the time some replica computed on it
	WorkFraction float64 // of the time that its kernels would take alone: above 1 it is overloaded
}

func (p *play) report() *Report {
	counted, whole := (p.now-p.from)/1e3, p.now/1e3
	out := &Report{Basis: sharing.BasisSimulated, Simulated: batching.Millis(max(0, p.now-p.from))}
	perS := func(n int64) float64 {
		if counted <= 0 {
			return 0
		}
		return float64(n) / counted
	}
	for _, v := range p.services {
		t := v.tally
		r := ServiceReport{Name: v.s.Name, GoodPerS: perS(t.Good), Served: t.served()}
		r.Unfinished = r.Requests - r.Completed - r.Rejected
		if rate := perS(t.OutputTokens); rate > 0 {
			r.TokensPerS = profile.Some(rate)
		}
		for _, q := range v.replicas {
			r.Replicas = append(r.Replicas, replicaReport(q, whole*1e3))
		}
		for _, id := range slices.Sorted(maps.Keys(v.adapters)) {
			a := v.adapters[id]
			r.Adapters = append(r.Adapters, AdapterReport{Adapter: int(id), Completed: a.Completed, Good: a.Good,
				Outcome: a.served().Outcome})
			a.release()
		}
		t.release()
		out.Services = append(out.Services, r)
	}
	for _, g := range p.gpus {
		g.Account(p.now)
		var r GPUReport
		if p.now > 0 {
			r.BusyFraction = g.Active / p.now
			for _, q := range g.Replicas {
				r.WorkFraction += q.Stats.GPU / p.now
			}
		}
		out.GPUs = append(out.GPUs, r)
	}
	return out
}

// served returns what was counted, with the latencies.
func (t *tally) served() Served {
	t.TTFT, t.TPOT, t.ITL, t.E2E = t.ttft.ms(), t.tpot.ms(), t.gap.ms(), t.e2e.ms()
	return t.Served
}

func replicaReport(r *batching.Replica, ms float64) ReplicaReport {
	s := &r.Stats
	out := ReplicaReport{
		KVCapacity: r.KV.Total * r.Size, KVHighWater: r.KV.Most * r.Size, QueueHighWater: s.QueueHigh, Completed: s.Completed,
		Preemptions: s.Preemptions, Evictions: r.KV.Evicted, AdapterLoads: s.AdapterLoads, Wakes: r.Rest.Wakes,
		WaitedForSequences: s.Blocked[batching.BlockedSequences], WaitedForKV: s.Blocked[batching.BlockedKV],
		WaitedForAdapter: s.Blocked[batching.BlockedAdapter],
	}
	if ms > 0 {
		out.BusyFraction = s.Busy / ms
	}
	if s.Prompt > 0 {
		out.HitFraction = float64(s.Cached) / float64(s.Prompt)
	}
	return out
}
