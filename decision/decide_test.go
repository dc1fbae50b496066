// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

var (
	busy10 = sharing.Some(0.10)
	busy25 = sharing.Some(0.25)
	busy95 = sharing.Some(0.95)
	gib8   = sharing.Some(8 * sharing.GiB)
	gib40  = sharing.Some(40 * sharing.GiB)
	ms50   = sharing.Some(profile.Duration(50e6))
	ms200  = sharing.Some(profile.Duration(200e6))
	s1     = sharing.Some(profile.Duration(1e9))
	hard   = fleet.Isolation{Memory: sharing.LevelHardware, Fault: sharing.LevelHardware}
	online = Workload{Name: "w", Kind: KindOnlineInference, Replicas: Replicas{Max: 4}, Memory: gib8, GPUBusy: busy10}
	batch  = Workload{Name: "w", Kind: KindBatch, Replicas: Replicas{Max: 4}, Memory: gib8, GPUBusy: busy25}
	gang   = Workload{Name: "w", Kind: KindDistributedTraining, Replicas: Replicas{Max: 2}, GPUs: 4, Memory: gib40, GPUBusy: busy95}
)

func with(w Workload, f func(*Workload)) Workload {
	f(&w)
	return w
}

func mechs(ms ...sharing.Mechanism) []sharing.Mechanism { return ms }

func price(t testing.TB, s string) cost.Money {
	t.Helper()
	m, err := cost.ParseMoney(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func decide(t testing.TB, f *Fleet) *Result {
	t.Helper()
	r, err := Decide(t.Context(), f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sevenB is one team's 7B model in FP16.
func sevenB(name string) Workload {
	return Workload{Name: name, Kind: KindOnlineInference, Model: &fleet.LanguageModel{Parameters: 7e9, Weights: "fp16"}, GPUBusy: sharing.Some(0.2), Tenant: name, Isolation: hard}
}

// TestFourTeams: four 7B models in FP16 do not fit 1g.10gb and
// fit one A100-80GB as four 1g.20gb, which costs 2,372.50 instead of 9,490.00.
func TestFourTeams(t *testing.T) {
	f := &Fleet{Version: "v1", Pools: []Pool{{Name: "prod", GPU: "A100-SXM4-80GB", Count: 4, PricePerGPUHour: sharing.Some(price(t, "3.25 USD"))}}}
	for _, team := range []string{"a", "b", "c", "d"} {
		f.Workloads = append(f.Workloads, sevenB(team))
	}
	r := decide(t, f)
	want := Totals{Costs: Costs{GPUsToday: 4, GPUsAfter: 1, MonthlyToday: "9490.00", MonthlyAfter: "2372.50", MonthlyFreed: "7117.50", MonthlyFreedBySharing: "7117.50"}, UnsharedGPUs: 4, MonthlyUnshared: "9490.00",
		Currency: "USD", HoursPerMonth: 730, WorkloadsTotal: 4}
	if diff := cmp.Diff(want, r.Totals); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	for _, d := range r.Decisions {
		if d.Mechanism != sharing.MechanismMIG || d.Profile != "1g.20gb" {
			t.Errorf("%s: %s %s", d.Workload, d.Mechanism, d.Profile)
		}
		if d.Cost == nil || d.Cost.PerWorkloadHour != "0.8125" || d.Cost.ExclusiveHour != "3.25" {
			t.Errorf("%s costs %+v", d.Workload, d.Cost)
		}
		found := false
		for _, reason := range d.Candidates[0].Reasons {
			found = found || reason.Code == codes.SliceTooSmall && strings.Contains(reason.Message, "does not fit the memory of 1g.10gb")
		}
		if !slices.ContainsFunc(d.Candidates, func(c Candidate) bool { return c.Profile == "1g.10gb" && c.Verdict == filter.VerdictReject }) {
			t.Errorf("%s: 1g.10gb is no rejected candidate", d.Workload)
		}
		if !found {
			t.Errorf("%s: no reason says that 1g.10gb is too small: %+v", d.Workload, d.Candidates[0].Reasons)
		}
	}
	if n := len(r.Pools[0].Groups[0].Layouts[0].Instances); n != 4 {
		t.Errorf("%d instances on the GPU", n)
	}
}

// TestContextOnSlices: memory that fits a slice without the context of its process does not fit it with that.
func TestContextOnSlices(t *testing.T) {
	d := decideText(t, `
pools: [{name: p, gpu: A30, count: 4, mechanisms: [mig, exclusive]}]
workloads: [{name: w, kind: training, replicas: 2, memory: 11.3GiB, gpu_busy: 0.3}]
`).Decisions[0]
	at := slices.IndexFunc(d.Candidates, func(c Candidate) bool { return c.Mechanism == sharing.MechanismMIG })
	if c := d.Candidates[at]; c.Verdict != filter.VerdictReject || !strings.Contains(fmt.Sprint(c.Reasons), "needs 11.8GiB and the largest slice, 2g.12gb, has 11.69GiB") {
		t.Errorf("%+v", c)
	}
}

func TestMemoryNeed(t *testing.T) {
	for _, c := range []struct {
		w    Workload
		want sharing.Bytes
	}{
		{Workload{Memory: sharing.Some(18 * sharing.GiB)}, 18 * sharing.GiB},
		{Workload{Model: &fleet.LanguageModel{Parameters: 8e9, Weights: "fp16", KVCache: sharing.Some(2 * sharing.GiB)}}, 16e9 + 2*sharing.GiB + 512*sharing.MiB},
		{Workload{Model: &fleet.LanguageModel{Parameters: 7e9, Weights: "fp16"}}, 14e9 + 16384*fleet.PriorKVPerToken(7e9) + 512*sharing.MiB},
		{Workload{Model: &fleet.LanguageModel{Parameters: 7e9, Weights: "int4", KVCache: sharing.Some(sharing.GiB)}}, 3.5e9 + sharing.GiB + 512*sharing.MiB},
		{Workload{GPUs: 4, Model: &fleet.LanguageModel{Parameters: 70e9, Weights: "fp16", KVCache: sharing.Some(sharing.GiB)}}, 35e9 + sharing.GiB + 512*sharing.MiB},
		{Workload{Framework: &fleet.Framework{Name: "pytorch", Processes: 3}, Model: &fleet.LanguageModel{Parameters: 1e9, Weights: "fp32", KVCache: sharing.Some(sharing.GiB)}}, 4e9 + sharing.GiB + 3*512*sharing.MiB},
	} {
		if got := c.w.MemoryNeed().Total; got != c.want {
			t.Errorf("%+v needs %d, want %d", c.w, got, c.want)
		}
	}
}

// TestEveryMechanismIsACandidate: of every workload, on every pool.
func TestEveryMechanismIsACandidate(t *testing.T) {
	f := &Fleet{Version: "v1", Pools: []Pool{{Name: "a", GPU: "A100-SXM4-80GB", Count: 2}, {Name: "b", GPU: "T4", Count: 2}}, Workloads: []Workload{online, gang}}
	f.Workloads[1].Name = "gang"
	for _, d := range decide(t, f).Decisions {
		seen := map[string]int{}
		for _, c := range d.Candidates {
			if c.Mechanism == sharing.MechanismMIG && c.Profile != "" && c.Verdict == filter.VerdictReject {
				continue // a smaller profile than the candidate's
			}
			seen[c.Pool+" "+c.Mechanism.String()]++
			if len(c.Reasons) == 0 {
				t.Errorf("%s: %s on %s has no reason", d.Workload, c.Mechanism, c.Pool)
			}
		}
		if len(seen) != 2*len(sharing.Mechanisms()) {
			t.Errorf("%s has %d candidates", d.Workload, len(seen))
		}
	}
}

// randomFleet makes a fleet of many kinds of input.
var someKinds = []Kind{KindDistributedTraining, KindTraining, KindOnlineInference, KindOfflineInference, KindBatch, KindNotebook, "ci", KindHPC}

func randomFleet(rng *rand.Rand, pools, workloads int) *Fleet {
	gpus := []string{"A100-SXM4-80GB", "T4", "L4", "H100 80GB HBM3", "A10", "H200", "L40S", "A30"}
	f := &Fleet{Version: "v1"}
	for i := range pools {
		m, _ := cost.FromMicros(int64(500_000+rng.IntN(5_000_000)), "USD")
		f.Pools = append(f.Pools, Pool{Name: fmt.Sprintf("p%d", i), GPU: gpus[rng.IntN(len(gpus))], Count: 1 + rng.IntN(20), PricePerGPUHour: sharing.Some(m)})
	}
	for i := range workloads {
		w := Workload{Name: fmt.Sprintf("w%d", i), Kind: someKinds[rng.IntN(len(someKinds))], Replicas: Replicas{Max: 1 + rng.IntN(4)},
			Memory: sharing.Some(sharing.Bytes(1+rng.IntN(30)) * sharing.GiB), Tenant: fmt.Sprintf("t%d", rng.IntN(3))}
		if rng.IntN(5) > 0 {
			w.GPUBusy = sharing.Some(float64(rng.IntN(100)) / 100)
		}
		if rng.IntN(4) == 0 {
			w.Isolation = hard
		}
		if rng.IntN(4) == 0 && w.Kind.Serves() {
			w.SLO.E2EP99 = sharing.Some(profile.Duration(1e9))
		}
		if rng.IntN(6) == 0 {
			w.Pool = f.Pools[rng.IntN(pools)].Name
		}
		if rng.IntN(3) == 0 {
			for _, other := range []string{"t0", "t1", "t2"} {
				if other != w.Tenant {
					w.Trust = append(w.Trust, other)
				}
			}
		}
		f.Workloads = append(f.Workloads, w)
	}
	return f
}

// TestOrderDoesNotMatter: a shuffled fleet gives the same bytes.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	race.Long(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, d := range decidedFleets(t)[:nightly.Cases(2, 16)] {
		want, err := json.MarshalIndent(d.result, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		f := *d.fleet
		f.Pools, f.Workloads = slices.Clone(f.Pools), slices.Clone(f.Workloads)
		rng.Shuffle(len(f.Pools), func(i, j int) { f.Pools[i], f.Pools[j] = f.Pools[j], f.Pools[i] })
		rng.Shuffle(len(f.Workloads), func(i, j int) { f.Workloads[i], f.Workloads[j] = f.Workloads[j], f.Workloads[i] })
		got, err := json.MarshalIndent(decide(t, &f), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Fatalf("shuffled input differs:\n%s", diff)
		}
	}
}

// decidedFleet is a random fleet with its result, to be read only.
type decidedFleet struct {
	fleet  *Fleet
	result *Result
}

// decideFleets decides them once for all tests that hold for any fleet, several at a time, as a service would.
var decideFleets = sync.OnceValues(func() ([]decidedFleet, error) {
	out := make([]decidedFleet, nightly.Cases(6, 42))
	errs := make([]error, len(out))
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range out {
		out[i].fleet = randomFleet(rng, 1+rng.IntN(5), 1+rng.IntN(25))
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(out); i = next.Add(1) - 1 {
				out[i].result, errs[i] = Decide(context.Background(), out[i].fleet, Options{})
			}
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
})

func decidedFleets(t *testing.T) []decidedFleet {
	t.Helper()
	out, err := decideFleets()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPlansHold checks the invariants of plans on random fleets.
func TestPlansHold(t *testing.T) {
	t.Parallel()
	race.Long(t)
	for _, d := range decidedFleets(t) {
		f, r := d.fleet, d.result
		workloads := map[string]*Workload{}
		for i := range f.Workloads {
			workloads[f.Workloads[i].Name] = &f.Workloads[i]
		}
		placed := map[string]int{}
		for _, p := range r.Pools {
			if p.GPUsNeeded > p.GPUs {
				t.Errorf("pool %s needs %d of %d GPUs", p.Pool, p.GPUsNeeded, p.GPUs)
			}
			sum := 0
			for _, g := range p.Groups {
				gpus := 0
				for _, l := range g.Layouts {
					gpus += l.GPUs
					checkLayout(t, p, g, l, workloads)
					for _, in := range l.Instances {
						placed[in.Workload] += l.GPUs * in.Replicas
					}
					for _, tn := range l.Tenants {
						placed[tn.Workload] += l.GPUs * tn.Replicas
					}
				}
				if gpus != g.GPUs {
					t.Errorf("%s on %s: layouts of %d GPUs, group of %d", g.Mechanism, p.Pool, gpus, g.GPUs)
				}
				sum += g.GPUs
			}
			if sum != p.GPUsNeeded {
				t.Errorf("pool %s: groups have %d GPUs, the pool %d", p.Pool, sum, p.GPUsNeeded)
			}
		}
		total := int64(0)
		for _, d := range r.Decisions {
			want := d.Placed * d.GPUs
			if d.Placed+d.Unplaced != d.Replicas || (d.Mechanism == sharing.MechanismNone) != (d.Placed == 0) {
				t.Errorf("%s (%s): %d placed and %d unplaced of %d replicas", d.Workload, d.Mechanism, d.Placed, d.Unplaced, d.Replicas)
			}
			if placed[d.Workload] != want {
				t.Errorf("%s (%s): %d replicas placed, want %d", d.Workload, d.Mechanism, placed[d.Workload], want)
			}
			if d.Cost != nil {
				total += price(t, d.Cost.PerWorkloadHour+" USD").Micros()
			}
		}
		after := price(t, r.Totals.MonthlyAfter+" USD").Micros()
		if total*cost.HoursPerMonth != after {
			t.Errorf("workloads cost %d a month together, the GPUs %d", total*cost.HoursPerMonth, after)
		}
	}
}

func checkLayout(t *testing.T, p PoolResult, g GroupResult, l LayoutResult, workloads map[string]*Workload) {
	t.Helper()
	tenants := map[string]*Workload{}
	memory := sharing.Bytes(0)
	for _, tn := range l.Tenants {
		w := workloads[tn.Workload]
		tenants[tn.Workload] = w
		memory += w.MemoryNeed().Total * sharing.Bytes(tn.Replicas)
	}
	gpu, err := sharing.LookupGPU(p.GPU)
	if err != nil {
		t.Fatal(err)
	}
	if total, known := gpu.Memory.Get(); known && memory > total {
		t.Errorf("%s on %s: tenants need %s of %s", g.Mechanism, p.Pool, memory, total)
	}
	if !traits.Of(g.Mechanism).Trusting {
		return
	}
	for _, a := range tenants {
		for _, b := range tenants {
			if a.Tenant != b.Tenant && !(slices.Contains(a.Trust, b.Tenant) && slices.Contains(b.Trust, a.Tenant)) {
				t.Errorf("%s on %s: %s (%s) beside %s (%s)", g.Mechanism, p.Pool, a.Name, a.Tenant, b.Name, b.Tenant)
			}
		}
		if a.Isolation.Fault == sharing.LevelHardware {
			t.Errorf("%s on %s: %s demands hardware isolation", g.Mechanism, p.Pool, a.Name)
		}
	}
}

// TestEvidenceNeedsItsProfile: a workload that names a profile which is not
// there is an error that names it, not a guess.
func TestEvidenceNeedsItsProfile(t *testing.T) {
	w := online
	w.Profile = &profile.ProfileRef{Server: profile.Server{Model: "9b"}, Load: profile.Load{Concurrency: 4, Prompt: 128, Output: 64}}
	f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: "H200", Count: 4}}, Workloads: []Workload{w}}
	if _, err := Decide(t.Context(), f, Options{Profiles: &profile.Profiles{}}); err == nil || !strings.Contains(err.Error(), `workload "w"`) {
		t.Errorf("err = %v", err)
	}
	if _, err := Decide(t.Context(), f, Options{}); err != nil {
		t.Errorf("without profiles the reference is not used: %v", err)
	}
}

// TestManySinglesShare: workloads of one replica share GPUs in a fleet of hundreds as they do in one of a dozen.
func TestManySinglesShare(t *testing.T) {
	t.Parallel()
	race.Long(t)
	gpus := func(n, tenants int) int {
		f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: "L40S", Count: n, PricePerGPUHour: sharing.Some(price(t, "1.20 USD"))}}}
		for i := range n {
			f.Workloads = append(f.Workloads, Workload{Name: fmt.Sprintf("w%03d", i), Kind: KindBatch, Memory: sharing.Some(4 * sharing.GiB), GPUBusy: sharing.Some(0.1), Tenant: fmt.Sprint(i % tenants)})
		}
		return decide(t, f).Totals.GPUsAfter
	}
	few := gpus(24, 1)
	for _, c := range []struct{ n, tenants, most int }{{60, 20, 20}, {61, 12, 12}, {240, 1, few * 240 / 20}}[:nightly.Cases(2, 3)] {
		if many := gpus(c.n, c.tenants); many > c.most {
			t.Errorf("24 workloads of one tenant take %d GPUs; %d of %d tenants take %d, over %d", few, c.n, c.tenants, many, c.most)
		}
	}
}
