// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// smallFleet has up to four workloads and twelve replicas, on one to three pools.
func smallFleet(rng *rand.Rand) *Fleet {
	gpus := []string{"A100-SXM4-80GB", "T4", "L4", "H100 80GB HBM3", "A30", "L40S"}
	f := &Fleet{Version: "v1"}
	for i := range 1 + rng.IntN(3) {
		m, _ := cost.FromMicros(int64(500_000+250_000*rng.IntN(20)), "USD")
		f.Pools = append(f.Pools, Pool{Name: fmt.Sprintf("p%d", i), GPU: gpus[rng.IntN(len(gpus))], Count: 1 + rng.IntN(16), PricePerGPUHour: sharing.Some(m)})
	}
	for i := range 1 + rng.IntN(4) {
		w := Workload{Name: fmt.Sprintf("w%d", i), Kind: [...]Kind{KindTraining, KindOnlineInference, KindOnlineInference, KindOnlineInference, KindOfflineInference, KindBatch, KindNotebook, "ci", KindHPC}[rng.IntN(9)], Replicas: Replicas{Max: 1 + rng.IntN(3)},
			Memory: sharing.Some(sharing.Bytes(1+rng.IntN(14)) * sharing.GiB), Tenant: fmt.Sprintf("t%d", rng.IntN(2))}
		if rng.IntN(6) > 0 {
			w.GPUBusy = sharing.Some(float64(1+rng.IntN(16)) / 20)
		}
		switch rng.IntN(4) {
		case 0:
			w.Isolation = hard
		case 1:
			w.Isolation.Fault = sharing.LevelDriver
		}
		if w.Kind == KindOnlineInference && rng.IntN(3) > 0 {
			w.SLO.E2EP99 = sharing.Some(profile.Duration(1e9))
			if rng.IntN(3) > 0 {
				w.Solo.E2EP99 = sharing.Some(profile.Duration(float64(1+rng.IntN(8)) * 1e8))
			}
		}
		if w.Kind == KindOnlineInference && rng.IntN(3) == 0 {
			w.Memory, w.GPUBusy = sharing.Optional[sharing.Bytes]{}, sharing.Optional[float64]{}
			w.Model = &fleet.LanguageModel{Parameters: int64(1+rng.IntN(8)) * 1e9, Weights: "fp16"}
			w.Load = &fleet.Traffic{RequestsPerS: 0.25 * float64(1+rng.IntN(8)), InputTokens: sharing.Some(256), OutputTokens: sharing.Some(64)}
			w.SLO, w.Solo = profile.SLO{TPOTP99: sharing.Some(profile.Duration(60e6)), TTFTP99: sharing.Some(profile.Duration(1e9))}, profile.SLO{}
		}
		f.Workloads = append(f.Workloads, w)
	}
	return f
}

// clone copies a fleet as far as the changes below reach.
func clone(f *Fleet) *Fleet {
	g := *f
	g.Pools, g.Workloads = slices.Clone(f.Pools), slices.Clone(f.Workloads)
	for i := range g.Workloads {
		if l := g.Workloads[i].Load; l != nil {
			copied := *l
			g.Workloads[i].Load = &copied
		}
	}
	return &g
}

// outcome has the figures by which answers are compared: replicas placed, by priority, and the cost to finish.
type outcome struct {
	placed  [fleet.Priorities]int
	monthly float64
}

func outcomeOf(t *testing.T, f *Fleet, r *Result) (o outcome) {
	t.Helper()
	for i := range f.Workloads {
		o.placed[f.Workloads[i].Precedence()] += r.Decision(f.Workloads[i].Name).Placed
	}
	for _, text := range []string{r.Totals.MonthlyAfter, cmp.Or(r.Totals.MonthlyLonger, "0")} {
		money, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		o.monthly += money
	}
	return o
}

// compare is positive where o is the better answer: more replicas placed of the highest priority in which they differ,
// then less money.
func (o *outcome) compare(p *outcome) int {
	for k := len(o.placed) - 1; k >= 0; k-- {
		if c := cmp.Compare(o.placed[k], p.placed[k]); c != 0 {
			return 2 * c
		}
	}
	if math.Abs(o.monthly-p.monthly) < 0.015 { // two roundings
		return 0
	}
	return cmp.Compare(p.monthly, o.monthly)
}

func shown(f *Fleet, r *Result) string {
	var b bytes.Buffer
	for _, p := range f.Pools {
		fmt.Fprintf(&b, "pool %s %d x %s %v\n", p.Name, p.Count, p.GPU, p.PricePerGPUHour)
	}
	for _, w := range f.Workloads {
		fmt.Fprintf(&b, "%s %s x%d mem %v busy %v slo %+v solo %+v tenant %s iso %+v", w.Name, w.Kind, w.Replicas.Max, w.Memory, w.GPUBusy, w.SLO, w.Solo, w.Tenant, w.Isolation)
		if w.Load != nil {
			fmt.Fprintf(&b, " load %v params %d", w.Load.RequestsPerS, w.Model.Parameters)
		}
		d := r.Decision(w.Name)
		fmt.Fprintf(&b, " -> %s %s %s on %s, %d placed, %s\n", d.Status, d.Mechanism, d.Profile, d.Pool, d.Placed, d.Why)
	}
	return b.String()
}

var lowRate = regexp.MustCompile(`of its isolated rate \(([0-9]+) to`)

// crowds reports whether a tenant keeps less than plan.KeepsRate so that others have a place: a lower cost by that is
// no better answer.
func crowds(r *Result) bool {
	return slices.ContainsFunc(r.Decisions, func(d Decision) bool {
		m := lowRate.FindStringSubmatch(d.Why)
		return m != nil && len(m[1]) < 3 && m[1] < strconv.Itoa(100*plan.KeepsRate)
	})
}

// one is some workload that is wanted, or nil.
func one(rng *rand.Rand, f *Fleet, wanted func(*Workload) bool) *Workload {
	for _, i := range rng.Perm(len(f.Workloads)) {
		if w := &f.Workloads[i]; wanted(w) {
			return w
		}
	}
	return nil
}

// worsen are changes that ask for more or offer less, of one workload or pool; they say whether they changed anything.
var worsen = map[string]func(rng *rand.Rand, f *Fleet) bool{
	"more load": func(rng *rand.Rand, f *Fleet) bool {
		w := &f.Workloads[rng.IntN(len(f.Workloads))]
		if w.Load != nil {
			w.Load.RequestsPerS *= 1.5
			return true
		}
		busy, ok := w.GPUBusy.Get()
		w.GPUBusy = sharing.Some(min(1, busy+0.1))
		return ok
	},
	"a tighter objective": func(rng *rand.Rand, f *Fleet) bool {
		w := one(rng, f, func(w *Workload) bool { return w.SLO != (profile.SLO{}) })
		if w == nil {
			return false
		}
		for m, limit := range w.SLO.Limits() {
			*w.SLO.At(m) = sharing.Some(profile.Duration(float64(limit) * 0.7))
		}
		return true
	},
	// Of a workload with an objective: without one that of its kind applies.
	"another objective": func(rng *rand.Rand, f *Fleet) bool {
		w := one(rng, f, func(w *Workload) bool { return !w.SLO.E2EP99.IsZero() && !w.Solo.E2EP99.IsZero() })
		if w == nil {
			return false
		}
		w.SLO.TTFTP99, w.Solo.TTFTP99 = ms200, sharing.Some(profile.Duration(80e6))
		return true
	},
	"stricter isolation": func(rng *rand.Rand, f *Fleet) bool {
		w := &f.Workloads[rng.IntN(len(f.Workloads))]
		if w.Isolation == hard {
			return false
		}
		w.Isolation = hard
		return true
	},
	"a deadline, or a tighter one": func(rng *rand.Rand, f *Fleet) bool {
		w := one(rng, f, func(w *Workload) bool {
			return w.Kind != KindOnlineInference && w.Kind != KindNotebook && w.SLO == (profile.SLO{})
		})
		if w == nil {
			return false
		}
		if w.Job == nil { // that has its figure from wherever it runs
			w.Job = &fleet.Job{Duration: profile.Duration(40 * 3600e9), Deadline: profile.Duration(200 * 3600e9)}
		}
		job := *w.Job
		job.Deadline, w.Job = job.Deadline*7/10, &job
		return true
	},
	"a stranger": func(rng *rand.Rand, f *Fleet) bool {
		w := &f.Workloads[rng.IntN(len(f.Workloads))]
		w.Tenant = "stranger"
		return len(f.Workloads) > 1
	},
	"more memory needed": func(rng *rand.Rand, f *Fleet) bool {
		w := &f.Workloads[rng.IntN(len(f.Workloads))]
		memory, ok := w.Memory.Get()
		w.Memory = sharing.Some(memory + 2*sharing.GiB)
		return ok
	},
	"a dearer GPU": func(rng *rand.Rand, f *Fleet) bool {
		p := &f.Pools[rng.IntN(len(f.Pools))]
		was, _ := p.PricePerGPUHour.Get()
		now, err := was.MulFrac(3, 2)
		p.PricePerGPUHour = sharing.Some(now)
		return err == nil
	},
	"fewer GPUs": func(rng *rand.Rand, f *Fleet) bool {
		p := &f.Pools[rng.IntN(len(f.Pools))]
		p.Count--
		return p.Count > 0
	},
}

// runShort leaves a fleet's pools so few GPUs, one or two of the first and one of each other, that often not all find
// room.
func runShort(rng *rand.Rand, f *Fleet) {
	for i := range f.Pools {
		f.Pools[i].Count = 1 + rng.IntN(2)/(1+i)
	}
}

// tryWorse reports changes by which a fleet's answer gets better, counts those that were tried, and returns whether the
// fleet lacks GPUs.
func tryWorse(t *testing.T, rng *rand.Rand, f *Fleet, names []string, changed map[string]int) (short bool) {
	t.Helper()
	before := decide(t, f)
	was := outcomeOf(t, f, before)
	for _, name := range names {
		g := clone(f)
		if !worsen[name](rng, g) {
			continue
		}
		changed[name]++
		after := decide(t, g)
		is := outcomeOf(t, g, after)
		if c := is.compare(&was); c > 1 || c > 0 && !crowds(after) {
			t.Errorf("%s: %v becomes %v\n%sbecomes\n%s", name, was, is, shown(f, before), shown(g, after))
		}
	}
	return slices.ContainsFunc(before.Decisions, func(d Decision) bool { return d.MoreGPUs != nil })
}

// TestAskingMoreNeverLooksBetter: no change that asks for more or offers less places more replicas of a priority, but
// for fewer of a higher one, or as many at a lower cost to finish, whether all find room or not.
func TestAskingMoreNeverLooksBetter(t *testing.T) {
	t.Parallel()
	race.Long(t)
	names := slices.Sorted(maps.Keys(worsen))
	rng := rand.New(rand.NewPCG(31, 32))
	changed := map[string]int{}
	short := 0
	for i := range nightly.Cases(16, 96) {
		f := smallFleet(rng)
		if i%2 == 1 {
			runShort(rng, f)
		}
		// Larger fleets where GPUs run short too.
		for i%16 == 1 && len(f.Workloads) < 6 {
			w := smallFleet(rng).Workloads[0]
			w.Name = fmt.Sprintf("w%d", len(f.Workloads))
			f.Workloads = append(f.Workloads, w)
		}
		if tryWorse(t, rng, f, names, changed) {
			short++
		}
	}
	for _, name := range names {
		if changed[name] < nightly.Cases(2, 18) {
			t.Errorf("%s was tried %d times", name, changed[name])
		}
	}
	if short < nightly.Cases(3, 24) {
		t.Errorf("GPUs ran short in %d fleets", short)
	}
}

// TestLargerFleetsToo: of fleets of ten to twenty workloads, most of which run short of GPUs, none looks better for
// asking more.
func TestLargerFleetsToo(t *testing.T) {
	t.Parallel()
	race.Long(t)
	rng := rand.New(rand.NewPCG(37, 38))
	changed, short := map[string]int{}, 0
	for i := range nightly.Cases(1, 4) {
		f := smallFleet(rng)
		for n := 10 + rng.IntN(11); len(f.Workloads) < n; {
			w := smallFleet(rng).Workloads[0]
			w.Name = fmt.Sprintf("w%d", len(f.Workloads))
			f.Workloads = append(f.Workloads, w)
		}
		for p := range f.Pools {
			f.Pools[p].Count = 2 + rng.IntN(4)
		}
		var names []string // half of them
		for k, name := range slices.Sorted(maps.Keys(worsen)) {
			if k%2 == i%2 {
				names = append(names, name)
			}
		}
		if tryWorse(t, rng, f, names, changed) {
			short++
		}
	}
	tried := 0
	for _, n := range changed {
		tried += n
	}
	if tried < nightly.Cases(3, 12) || short < nightly.Cases(1, 3) {
		t.Errorf("%d changes, GPUs ran short in %d fleets", tried, short)
	}
}

// TestAnUnknownNeverDecides: a provisional answer stays so, or finds no place, with a statement less in the input.
func TestAnUnknownNeverDecides(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(33, 34))
	provisional := 0
	for range nightly.Cases(10, 40) {
		f := smallFleet(rng)
		before := decide(t, f)
		for i := range f.Workloads {
			was := before.Decision(f.Workloads[i].Name)
			for name, forget := range map[string]func(*Workload){
				"gpu_busy": func(w *Workload) { w.GPUBusy, w.PeakBusy = sharing.Optional[float64]{}, sharing.Optional[float64]{} },
				"load":     func(w *Workload) { w.Load = nil },
				"solo":     func(w *Workload) { w.Solo = profile.SLO{} },
			} {
				g := clone(f)
				forget(&g.Workloads[i])
				after := decide(t, g)
				if is := after.Decision(was.Workload); was.Status == StatusProvisional && is.Status == StatusDecided {
					t.Errorf("%s of %s forgotten: %s becomes %s\n%sbecomes\n%s", name, was.Workload, was.Status, is.Status, shown(f, before), shown(g, after))
				}
			}
			if was.Status == StatusProvisional {
				provisional++
			}
		}
	}
	if provisional < nightly.Cases(2, 10) {
		t.Errorf("%d provisional answers", provisional)
	}
}

// TestNamesAndOrderChangeNothing: the answers of renamed workloads in another order are the same answers.
func TestNamesAndOrderChangeNothing(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(35, 36))
	for range nightly.Cases(16, 80) {
		f := smallFleet(rng)
		before := decide(t, f)
		g := clone(f)
		names := map[string]string{}
		order := rng.Perm(len(g.Workloads))
		for i := range g.Workloads {
			name := fmt.Sprintf("x%d", order[i])
			names[g.Workloads[i].Name], g.Workloads[i].Name = name, name
		}
		rng.Shuffle(len(g.Workloads), func(i, j int) { g.Workloads[i], g.Workloads[j] = g.Workloads[j], g.Workloads[i] })
		rng.Shuffle(len(g.Pools), func(i, j int) { g.Pools[i], g.Pools[j] = g.Pools[j], g.Pools[i] })
		after := decide(t, g)
		for _, d := range before.Decisions {
			o := after.Decision(names[d.Workload])
			if o.Status != d.Status || o.Mechanism != d.Mechanism || o.Profile != d.Profile || o.Pool != d.Pool || o.Placed != d.Placed {
				t.Errorf("%s renamed %s\n%sbecomes\n%s", d.Workload, o.Workload, shown(f, before), shown(g, after))
			}
		}
		if a, b := before.Totals, after.Totals; a.Costs != b.Costs {
			t.Errorf("the money changes: %+v, %+v", a, b)
		}
	}
}

// TestNothingWaitsBesideAnIdleGPU: a replica without a place would have none on the GPUs that are left of any pool.
func TestNothingWaitsBesideAnIdleGPU(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(43, 44))
	waiting, parted := 0, 0
	for i := range nightly.Cases(60, 1000) {
		f := smallFleet(rng)
		runShort(rng, f)
		if i%4 == 0 {
			for p := range f.Pools {
				f.Pools[p].GPUsPerNode = sharing.Some(1 + rng.IntN(2))
			}
		}
		r := decide(t, f)
		for k := range f.Workloads {
			w := f.Workloads[k]
			d := r.Decision(w.Name)
			if len(d.Places) > 0 {
				parted++
			}
			if d.Unplaced == 0 {
				continue
			}
			waiting++
			for p, left := range f.Pools {
				if left.Count -= r.Pools[p].GPUsNeeded; left.Count < max(1, left.GPUsPerNode.Or(1)) {
					continue
				}
				if w.Load != nil {
					l := *w.Load
					l.RequestsPerS /= float64(w.ReplicaCount())
					w.Load = &l
				}
				w.Replicas = Replicas{Max: 1}
				if alone := decide(t, &Fleet{Version: "v1", Pools: []Pool{left}, Workloads: []Workload{w}}); alone.Decisions[0].Placed > 0 {
					t.Errorf("%s waits beside %d idle GPUs of %s\n%s", w.Name, left.Count, left.Name, shown(f, r))
				}
			}
		}
	}
	if waiting < nightly.Cases(10, 160) || parted < nightly.Cases(2, 30) {
		t.Errorf("%d waited, %d are in several places", waiting, parted)
	}
}
