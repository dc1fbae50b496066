// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/score"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

var anyKind = []decision.Kind{"distributed-training", "training", "online-inference", "offline-inference", "batch", "notebook", "ci", "hpc"}

// randomWorkload is a workload of any kind, with demands of any kind.
func randomWorkload(rng *rand.Rand) *decision.Workload {
	w := &decision.Workload{Name: "w", Kind: anyKind[rng.IntN(len(anyKind))], GPUs: 1 + rng.IntN(9)/7,
		Tenant: fmt.Sprint("t", rng.IntN(3)), Replicas: decision.Replicas{Max: 1 + rng.IntN(4)}}
	memory := sharing.Bytes(1+rng.IntN(48)) * sharing.GiB / 2
	w.Memory = sharing.Some(memory)
	if rng.IntN(4) > 0 {
		w.GPUBusy = sharing.Some(float64(rng.IntN(70)) / 100)
	}
	if rng.IntN(4) == 0 {
		w.Isolation = fleet.Isolation{Memory: sharing.Level(rng.IntN(6)), Fault: sharing.Level(rng.IntN(6))}
	}
	if rng.IntN(4) == 0 {
		limit, solo := sharing.Some(profile.Duration(1+rng.IntN(2e9))), sharing.Some(profile.Duration(1+rng.IntN(1e9)))
		w.SLO.E2EP99 = limit
		if rng.IntN(3) > 0 {
			w.Solo.E2EP99 = solo
		}
	}
	if rng.IntN(4) == 0 {
		w.Framework = &fleet.Framework{Name: []string{"vllm", "pytorch"}[rng.IntN(2)], Privileged: rng.IntN(2) == 0, MemoryFraction: sharing.Some(0.9)}
	}
	if rng.IntN(20) == 0 {
		w.Pool = "another"
	}
	if rng.IntN(3) == 0 {
		w.Trust = []string{"t0", "t1"}
	}
	return w
}

// replica returns the request of one replica of a workload for a GPU that runs m.
func replica(w *score.CompiledWorkload, m sharing.Mechanism, profile string) *Request {
	of := &layout.Workload{Name: "w", Tenant: w.Workload().Tenant, Trusts: w.Workload().Trust}
	return RequestOf("w", of, w.Demand(), m, profile)
}

// TestBothDoors puts random workloads and nodes through decision's door, an empty pool, and placement's, GPUs of which
// most run the mechanism already and half have tenants. Both give the same verdict, unless the reason that decides is
// of a scope that only one of them asks.
func TestBothDoors(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	gpus := []string{"A100-SXM4-80GB", "H100 80GB HBM3", "H200", "A30", "T4", "L4", "L40S", "A10", "V100-SXM2-16GB", "B300"}
	same, pairs := 0, 0
	differences := map[string]int{}
	for pairs < 2000 {
		name := gpus[rng.IntN(len(gpus))]
		m := placeable[rng.IntN(len(placeable))]
		count := 1 + rng.IntN(4)
		pool := &decision.Pool{Name: "pool", GPU: name, Count: count}
		p := must.Get(score.CompilePool(pool))(t)
		var model *mig.Model
		if m == sharing.MechanismMIG {
			if model = p.Target().Model(); model == nil || !model.PlacementsKnown() {
				continue // such a node can't be in MIG mode
			}
		}
		w := score.CompileWorkload(randomWorkload(rng))
		occupied, fixed := rng.IntN(2) == 0, model != nil || rng.IntN(4) > 0
		mode := sharing.MechanismNone
		if fixed {
			mode = m
		}
		n := nodeOf("n", "pool", p.Target(), count, mode)
		n.CPUMilli, n.Memory = 64_000, 512*sharing.GiB
		for i := range n.Devices {
			if !occupied {
				continue
			}
			tenant := layout.Assignment{Key: fmt.Sprint("on", i), Device: int16(i), Mode: m, Compute: int16(100 + rng.IntN(900)),
				Workload: &layout.Workload{Tenant: fmt.Sprint("t", rng.IntN(3)), Trusts: []string{"t0", "t1", "t2"}}}
			switch m {
			case sharing.MechanismExclusive:
				tenant.Compute = 1000
			case sharing.MechanismMIG:
				prof := model.Profiles[rng.IntN(len(model.Profiles))]
				if len(prof.Placements) == 0 {
					continue
				}
				tenant.Compute, tenant.Profile, tenant.Start = 0, prof, int8(prof.Placements[0].Start)
			default:
				tenant.Memory = n.Devices[i].GPU.Memory / sharing.Bytes(2+rng.IntN(3))
			}
			n.Assignments = append(n.Assignments, tenant)
		}
		pairs++

		// The neighbours that there may be, at the first door.
		nb := filter.Neighbours{Trusted: rng.IntN(3), Untrusted: rng.IntN(3)}
		var c score.Scored
		score.Evaluate(w, p, nb, m, &c)
		first := worst(&c.Report)
		profile := c.Profile()
		if profile == "" && model != nil {
			profile = model.Profiles[len(model.Profiles)-1].Name
			if parts := p.Target().Slices(); len(parts) > 0 {
				profile = parts[len(parts)-1].Profile.Name
			}
		}

		r := replica(w, m, profile)
		c2, _ := layout.Observe([]layout.Node{n})
		scorer := NewScorer(BestFit, nil)
		scorer.Targets = map[string]*filter.Target{"pool": p.Target()}
		second := scorer.Filter(c2.At(0), r)
		if _, again := scorer.Score(c2.At(0), r); again != second {
			t.Fatalf("the scorer says %v, the filter %v", again, second)
		}
		if first.Verdict == second.Verdict {
			same++
			continue
		}
		// The door with the worse verdict must have asked what the other can't.
		why, door := first, "an empty pool only"
		ok := slices.Contains([]codes.Scope{codes.Empty, codes.Neighbours}, codes.Words[why.Code].Scope) || (fixed || occupied) && codes.Words[why.Code].Scope == codes.Choice
		if second.Verdict.Severity() > first.Verdict.Severity() {
			why, door = second, "an occupied node only"
			ok = occupied && slices.Contains([]codes.Scope{codes.Left, codes.Neighbours}, codes.Words[why.Code].Scope)
		}
		if !ok {
			t.Errorf("%v on %s, occupied %v, %+v beside %+v: the pool says %v %v (%v), the node %v %v (%v)", m, name, occupied, *w.Workload(), nb,
				first.Verdict, first.Code, first, second.Verdict, second.Code, second)
		}
		differences[fmt.Sprintf("%s: %v", door, why.Code)]++
	}
	if same < pairs/2 {
		t.Errorf("only %d of %d pairs have the same verdict", same, pairs)
	}
	t.Logf("%d of %d alike; %v", same, pairs, differences)
}

// worst is the reason that decides a report.
func worst(r *filter.Report) filter.Reason {
	for i := range r.Len() {
		if why := r.Reason(i); why.Verdict == r.Verdict {
			return why
		}
	}
	return filter.Reason{Verdict: r.Verdict}
}

// corpus reads the experts' fleets.
func corpus(t *testing.T) map[string]*decision.Fleet {
	t.Helper()
	files, err := filepath.Glob("../testdata/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	out := map[string]*decision.Fleet{}
	for _, file := range files {
		data := must.Get(os.ReadFile(file))(t)
		var cases []struct {
			Name  string    `yaml:"name"`
			Fleet yaml.Node `yaml:"fleet"`
		}
		if err := yaml.Unmarshal(data, &cases); err != nil {
			t.Fatal(file, err)
		}
		for _, c := range cases {
			if data, err = yaml.Marshal(&c.Fleet); err != nil {
				t.Fatal(err)
			}
			if out[c.Name], err = decision.ParseFleet(data); err != nil {
				t.Fatal(c.Name, err)
			}
		}
	}
	return out
}

// TestWhatDecidePlaces runs the replicas that Decide places, of the experts' fleets and of random ones, through
// placement's filter, GPU by GPU. It accepts them, or answers unknown where that takes a prediction with neighbours.
func TestWhatDecidePlaces(t *testing.T) {
	race.Long(t)
	fleets := corpus(t)
	rng := rand.New(rand.NewPCG(41, 42))
	for i := range nightly.Cases(60, 600) {
		f := &decision.Fleet{Version: "v1"}
		for k := range 1 + rng.IntN(3) {
			gpu := []string{"A100-SXM4-80GB", "H100 80GB HBM3", "T4", "L4", "A30"}[rng.IntN(5)]
			f.Pools = append(f.Pools, decision.Pool{Name: fmt.Sprint("p", k), GPU: gpu, Count: 1 + rng.IntN(8)})
		}
		for k := range 1 + rng.IntN(10) {
			w := randomWorkload(rng)
			w.Name, w.Pool = fmt.Sprint("w", k), ""
			w.Trust = slices.DeleteFunc(w.Trust, func(name string) bool { return name == w.Tenant })
			f.Workloads = append(f.Workloads, *w)
		}
		fleets[fmt.Sprint("drawn ", i)] = f
	}
	taken, unknown := 0, map[filter.Code]int{}
	for name, f := range fleets {
		if f.Validate() != nil && strings.HasPrefix(name, "drawn") {
			continue
		}
		r, err := decision.Decide(t.Context(), f, decision.Options{})
		if err != nil {
			t.Fatal(name, err)
		}
		for i := range r.Pools {
			d := door{Result: r, fleet: f, pool: &r.Pools[i], scorer: NewScorer(BestFit, nil), t: t}
			p := must.Get(score.CompilePool(&f.Pools[slices.IndexFunc(f.Pools, func(p decision.Pool) bool { return p.Name == d.pool.Pool })]))(t)
			d.target = p.Target()
			d.scorer.Targets = map[string]*filter.Target{d.pool.Pool: d.target}
			for k := range d.pool.Groups {
				for _, why := range d.group(&d.pool.Groups[k]) {
					switch {
					case why.Verdict == filter.VerdictPass:
						taken++
					case why.Verdict == filter.VerdictUnknown && codes.Words[why.Code].Scope == codes.Neighbours:
						unknown[why.Code]++
					default:
						t.Errorf("%s, %v in %s: %v, %v", name, d.pool.Groups[k].Mechanism, d.pool.Pool, why.Verdict, why)
					}
				}
			}
		}
	}
	if taken < 300 {
		t.Errorf("%d taken", taken)
	}
	t.Logf("%d taken; unknown: %v", taken, unknown)
}

// door carries out what Decide says of one pool.
type door struct {
	*decision.Result
	fleet  *decision.Fleet
	pool   *decision.PoolResult
	target *filter.Target
	scorer *Scorer
	c      *layout.Cluster
	t      *testing.T
}

// group places the replicas of a group where they are said to be, and returns what the filter says of each.
func (d *door) group(g *decision.GroupResult) (whys []filter.Reason) {
	d.c = cluster(d.t)
	mode := sharing.MechanismNone
	if g.Mechanism == sharing.MechanismVGPU {
		mode = g.Mechanism
	}
	node := func(gpus int) string {
		name := fmt.Sprint("n", d.c.Len())
		d.c, _ = d.c.WithNode(nodeOf(name, d.pool.Pool, d.target, gpus, mode))
		return name
	}
	for _, l := range g.Layouts {
		for _, tenant := range l.Tenants {
			for range tenant.Replicas {
				if g.Mechanism == sharing.MechanismExclusive {
					whys = append(whys, d.assign(g, tenant.Workload, node(d.Decision(tenant.Workload).GPUs), "", -1))
				}
			}
		}
		for range l.GPUs {
			if g.Mechanism == sharing.MechanismExclusive {
				break
			}
			on := node(1)
			for _, tenant := range l.Tenants {
				for range tenant.Replicas {
					whys = append(whys, d.assign(g, tenant.Workload, on, "", -1))
				}
			}
			for _, in := range l.Instances {
				for range in.Replicas {
					whys = append(whys, d.assign(g, in.Workload, on, in.Profile, in.Start))
				}
			}
		}
	}
	return whys
}

func (d *door) assign(g *decision.GroupResult, workload, node, profile string, start int) filter.Reason {
	w := &d.fleet.Workloads[slices.IndexFunc(d.fleet.Workloads, func(w decision.Workload) bool { return w.Name == workload })]
	of := &layout.Workload{Name: workload, Tenant: w.Tenant, Trusts: w.Trust}
	if d.fleet.Trust == "all" && of.Tenant == "" {
		of.Tenant = "all"
	}
	q := fresh(*RequestOf(workload, of, score.CompileWorkload(w).Demand(), g.Mechanism, profile))
	why := d.scorer.Filter(d.c.Node(node), q)
	if why.Verdict != filter.VerdictPass {
		return why
	}
	o, _ := d.scorer.Score(d.c.Node(node), q)
	if start >= 0 {
		o.Start = start
	}
	next, _, err := d.scorer.Assign(d.c, q, o)
	if err != nil {
		d.t.Errorf("%s: %v", workload, err)
		return why
	}
	d.c = next
	return why
}
