package serving_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// tinyModel has a KV cache of one byte a token and weights of no size, so that
// tests choose the capacity.
var tinyModel = costs.Model{Parameters: 1, Layers: 1, KVHeads: 1, HeadDim: 1, KVBits: 4, WeightBits: 8}

// exact is a cost without doubt.
func exact(v float64) costs.Cost {
	return costs.Cost{Value: v, Basis: sharing.BasisMeasured}
}

// oneService is a service with so many replicas, each on a GPU of its own.
func oneService(e costs.Engine, replicas int, memory sharing.Bytes) serving.Cluster {
	c := serving.Cluster{Services: []serving.Service{{Name: "m", Engine: e}}}
	for i := range replicas {
		c.GPUs = append(c.GPUs, serving.SharedGPU{Mechanism: sharing.MechanismExclusive, Memory: memory})
		c.Services[0].Replicas = append(c.Services[0].Replicas, serving.Replica{GPU: i})
	}
	return c
}

// poisson are n requests at a mean rate a second, filled in by what.
func poisson(n int, perS float64, seed uint64, what func(*rand.Rand, *serving.Request)) iter.Seq[serving.Request] {
	return func(yield func(serving.Request) bool) {
		rng := rand.New(rand.NewPCG(seed, 0))
		at := 0.0
		for range n {
			at += rng.ExpFloat64() / perS
			r := serving.Request{At: time.Duration(at * 1e9), Input: 1, Output: 1}
			what(rng, &r)
			if !yield(r) {
				return
			}
		}
	}
}

func played(tb testing.TB, c serving.Cluster, requests iter.Seq[serving.Request]) *serving.Report {
	tb.Helper()
	r, err := c.Play(context.Background(), requests)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func near(tb testing.TB, what string, got, want, tolerance float64) {
	tb.Helper()
	if off := got/want - 1; math.Abs(off) > tolerance || math.IsNaN(off) {
		tb.Errorf("%s is %.5g, theory says %.5g: %+.2f%%, at most %.0f%% off", what, got, want, 100*off, 100*tolerance)
	} else {
		tb.Logf("%s: %.5g, theory %.5g (%+.2f%%)", what, got, want, 100*off)
	}
}

// A batch of c places whose steps take the same time however full it is, with
// exponential lengths, is M/M/c.
func TestMMc(t *testing.T) {
	t.Parallel()
	race.Long(t)
	for _, c := range []struct {
		servers int
		load    float64
	}{{1, 0.5}, {2, 0.8}, {8, 0.7}, {8, 0.9}} {
		t.Run(fmt.Sprintf("c=%d,rho=%g", c.servers, c.load), func(t *testing.T) {
			const meanTokens, step = 400.0, 0.1 // ms
			e := costs.Engine{Model: tinyModel, Step: exact(step), Sequences: c.servers, NoPrefixCache: true}
			service := meanTokens * step / 1e3 // s
			rate := c.load * float64(c.servers) / service
			report := played(t, oneService(e, 1, 1<<40), poisson(400_000, rate, 1, func(rng *rand.Rand, r *serving.Request) {
				r.Output = 1 + int(math.Ceil(meanTokens*rng.ExpFloat64()-0.5))
			}))
			want := erlangC(c.servers, c.load*float64(c.servers))*service/(float64(c.servers)*(1-c.load)) + service
			near(t, "mean response in ms", report.Services[0].E2E.Mean.Or(0), 1e3*want, 0.02)
		})
	}
}

// erlangC is the probability that all c servers are busy.
func erlangC(c int, offered float64) float64 {
	b := 1.0 // Erlang B, by recursion
	for k := 1; k <= c; k++ {
		b = offered * b / (float64(k) + offered*b)
	}
	rho := offered / float64(c)
	return b / (1 - rho*(1-b))
}

// A batch without limit whose steps take as long as there are sequences in it shares
// the processor: the mean response of M/D/1-PS is x/(1-rho), and so is that of any
// other distribution of x.
func TestMD1ProcessorSharing(t *testing.T) {
	t.Parallel()
	race.Long(t)
	for _, load := range []float64{0.3, 0.6, 0.8} {
		for _, c := range []struct {
			name   string
			tokens func(*rand.Rand) int
		}{
			{"deterministic", func(*rand.Rand) int { return 500 }},
			{"exponential", func(r *rand.Rand) int { return int(math.Ceil(500 * r.ExpFloat64())) }},
		} {
			t.Run(fmt.Sprintf("%s,rho=%g", c.name, load), func(t *testing.T) {
				const step = 0.02
				e := costs.Engine{Model: tinyModel, StepSequence: exact(step), Sequences: 1 << 14, NoPrefixCache: true}
				service := 500 * step / 1e3
				var work, last float64 // what chance made of service and rate
				report := played(t, oneService(e, 1, 1<<40), poisson(400_000, load/service, 2, func(rng *rand.Rand, r *serving.Request) {
					r.Output = 1 + c.tokens(rng)
					work += float64(r.Output-1) * step
					last = r.At.Seconds() * 1e3
				}))
				near(t, "mean response in ms", report.Services[0].E2E.Mean.Or(0), work/400_000/(1-work/last), 0.02)
			})
		}
	}
}

// Prompts of one block each, drawn by Zipf's law, hit an LRU cache as often as Che's
// approximation says.
func TestLRUByChe(t *testing.T) {
	t.Parallel()
	race.Long(t)
	const items = 5000
	for _, c := range []struct {
		exponent float64
		capacity int
	}{{0.8, 100}, {0.8, 1000}, {1.1, 300}} {
		t.Run(fmt.Sprintf("zipf=%g,c=%d", c.exponent, c.capacity), func(t *testing.T) {
			weights, sum := make([]float64, items), 0.0
			cumulated := make([]float64, items)
			for i := range weights {
				weights[i] = math.Pow(float64(i+1), -c.exponent)
				sum += weights[i]
				cumulated[i] = sum
			}
			e := costs.Engine{Model: tinyModel, Step: exact(0.001), Sequences: 1}
			// One more block than the cache: a prompt's last token is always computed,
			// so that prompts have a block of their own beside the shared one.
			cluster := oneService(e, 1, sharing.Bytes(16*(c.capacity+1)+1))
			report := played(t, cluster, poisson(500_000, 1e4, 3, func(rng *rand.Rand, r *serving.Request) {
				u := rng.Float64() * sum
				lo, hi := 0, items-1
				for lo < hi {
					if mid := (lo + hi) / 2; cumulated[mid] < u {
						lo = mid + 1
					} else {
						hi = mid
					}
				}
				r.Input, r.Prefix = 17, []uint64{uint64(lo + 1)}
			}))
			// Che: the time T in which as many different items are asked for as fit.
			lowT, highT := 0.0, 1e9
			for range 200 {
				mid := (lowT + highT) / 2
				filled := 0.0
				for _, w := range weights {
					filled += -math.Expm1(-w / sum * mid)
				}
				if filled < float64(c.capacity) {
					lowT = mid
				} else {
					highT = mid
				}
			}
			hit := 0.0
			for _, w := range weights {
				hit += w / sum * -math.Expm1(-w/sum*lowT)
			}
			near(t, "hit rate", report.Services[0].HitFraction()*17/16, hit, 0.02)
		})
	}
}
