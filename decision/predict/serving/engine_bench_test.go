package serving_test

import (
	"context"
	"iter"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/sharing"
)

// llama8B is the shape of an 8B model with grouped queries.
var llama8B = costs.Model{Parameters: 8.03e9, Layers: 32, KVHeads: 8, HeadDim: 128, Hidden: 4096, Heads: 32, Intermediate: 14336}

func machineOf(tb testing.TB, name string) costs.Machine {
	tb.Helper()
	g, err := sharing.LookupGPU(name)
	if err != nil {
		tb.Fatal(err)
	}
	return costs.MachineOf(g)
}

// conversations are n requests of sessions whose prompts begin alike: a system
// prompt that many share, and the session's own history in blocks of 512 tokens.
func conversations(n int, perS float64) iter.Seq[serving.Request] {
	return func(yield func(serving.Request) bool) {
		rng := rand.New(rand.NewPCG(7, 7))
		at := 0.0
		prefix := make([]uint64, 0, 1<<16)
		for i := range n {
			at += rng.ExpFloat64() / perS
			session := uint64(i/8*4+rng.IntN(64)) + 1
			turns := 1 + rng.IntN(6)
			if cap(prefix)-len(prefix) < turns+2 {
				prefix = make([]uint64, 0, 1<<16) // requests hold on to theirs
			}
			from := len(prefix)
			prefix = append(prefix, 1+session%50)
			for k := range turns {
				prefix = append(prefix, 1000+session*16+uint64(k))
			}
			r := serving.Request{At: time.Duration(at * 1e9), Input: 512*(turns+1) + 1 + rng.IntN(300), Output: 1 + rng.IntN(300), Session: session, Prefix: prefix[from:len(prefix):len(prefix)]}
			if !yield(r) {
				return
			}
		}
	}
}

// inBlocksOf16 cuts the blocks of 512 tokens into blocks of 16.
func inBlocksOf16(requests iter.Seq[serving.Request]) iter.Seq[serving.Request] {
	return func(yield func(serving.Request) bool) {
		for r := range requests {
			fine := make([]uint64, 0, 32*len(r.Prefix))
			for _, h := range r.Prefix {
				for k := range uint64(32) {
					fine = append(fine, 32*h+k)
				}
			}
			r.Prefix = fine
			if !yield(r) {
				return
			}
		}
	}
}

// BenchmarkMillionRequests plays a million requests through 16 replicas with
// prefix cache; the memory that it holds at the end is reported.
func BenchmarkMillionRequests(b *testing.B) {
	for _, c := range []struct {
		name   string
		n      int
		tokens int // of a block
	}{{"100k,blocks of 512", 100_000, 512}, {"100k,blocks of 16", 100_000, 16}, {"1M,blocks of 512", 1_000_000, 512}, {"1M,blocks of 16", 1_000_000, 16}} {
		if c.n > 100_000 && testing.Short() {
			continue
		}
		b.Run(c.name, func(b *testing.B) {
			e := costs.NewEngine(llama8B, machineOf(b, "H100-SXM5-80GB"))
			cluster := oneService(e, 16, 80*sharing.GiB)
			cluster.PrefixTokens = c.tokens
			cluster.Services[0].Routing.Policy = serving.RoutePolicyPrefixApproximate
			for b.Loop() {
				requests := conversations(c.n, 100)
				if c.tokens == 16 {
					requests = inBlocksOf16(requests)
				}
				report, err := cluster.Play(context.Background(), requests)
				if err != nil {
					b.Fatal(err)
				}
				s := &report.Services[0]
				if s.Completed != int64(c.n) {
					b.Fatalf("%d of %d requests ended", s.Completed, c.n)
				}
				b.ReportMetric(100*s.HitFraction(), "hit_%")
				b.ReportMetric(100*report.Services[0].Replicas[0].BusyFraction, "busy_%")
				b.ReportMetric(s.TTFT.P99.Or(0), "ttft_p99_ms")
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.Sys)/1e6, "MB_from_OS")
		})
	}
}
