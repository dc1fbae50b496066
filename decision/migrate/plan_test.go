package migrate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// randomCluster writes a fleet file of up to 40 nodes and who runs on them. With known unset nothing is said of what
// the workloads need.
func randomCluster(rng *rand.Rand, most int, known bool) string {
	var nodes, workloads, budgets []string
	objects := append(slices.Repeat([]string{"Deployment"}, 12), "StatefulSet", "StatefulSet", "Job", "RayCluster")
	n := 0
	for i := range 2 + rng.IntN(most-1) {
		name := fmt.Sprintf("n%02d", i)
		shape, today, seats, profile := "mode: exclusive", "mechanism: exclusive, may_weaken: true", 4, ""
		switch rng.IntN(4) {
		case 0:
			shape, today, seats = "mode: time-slicing, slots: 4", "mechanism: time-slicing", 16
		case 1:
			shape, today, seats, profile = "mode: mig, instances: [{profile: 3g.40gb, start: 0}, {profile: 3g.40gb, start: 4}]", "mechanism: mig, profile: 3g.40gb", 8, ", profile: 3g.40gb"
		}
		closed := ""
		if rng.IntN(20) == 0 {
			closed = "closed: cordoned, "
		}
		var held []string
		for seats > 0 && rng.IntN(5) > 1 {
			k := 1 + rng.IntN(min(seats, 3))
			seats -= k
			w := fmt.Sprintf("t%d/w%d", rng.IntN(2), n)
			n++
			object := objects[rng.IntN(len(objects))]
			if object == "StatefulSet" && rng.IntN(3) > 0 {
				budgets = append(budgets, fmt.Sprintf("    - {name: b%d, workload: %s, allowed: %d}\n", n, w, rng.IntN(3)))
			}
			text := fmt.Sprintf("  - {name: %s, kind: batch, replicas: %d, tenant: %s, today: {%s, object: %s}", w, k, w[:2], today, object)
			held = append(held, fmt.Sprintf("{workload: %s, replicas: %d%s}", w, k, profile))
			if known && rng.IntN(12) > 0 {
				text += fmt.Sprintf(", memory: %dGiB, gpu_busy: 0.%02d", 2+rng.IntN(16), 2+rng.IntN(30))
			}
			workloads = append(workloads, text+"}\n")
		}
		nodes = append(nodes, fmt.Sprintf("    - {name: %s, pool: a, %sdevices: [{gpu: A100-SXM4-80GB, count: 4, %s}], assignments: [%s]}\n", name, closed, shape, strings.Join(held, ", ")))
	}
	if n == 0 {
		return randomCluster(rng, most, known)
	}
	return fmt.Sprintf("version: v1\npools:\n  - {name: a, gpu: A100-SXM4-80GB, count: %d, gpus_per_node: 4, price_per_gpu_hour: 3 USD, delivery: gpu-operator}\nworkloads:\n%stoday:\n  nodes:\n%s%s",
		4*len(nodes), strings.Join(workloads, ""), strings.Join(nodes, ""), section("budgets", budgets))
}

func section(key string, lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "  " + key + ":\n" + strings.Join(lines, "")
}

// world is a cluster that takes a plan's steps and knows nothing of how they were found.
type world struct {
	t     *testing.T
	fleet *decision.Fleet
	seats map[string]map[string]int // by node and kind of device
	run   map[[3]string]int         // replicas by node, kind of device and workload
}

func newWorld(t *testing.T, f *decision.Fleet) *world {
	w := &world{t, f, map[string]map[string]int{}, map[[3]string]int{}}
	for i := range f.Today.Nodes {
		n := &f.Today.Nodes[i]
		w.seats[n.Name] = handsOut(n)
		for _, a := range firsts(n) {
			w.run[[3]string{n.Name, today(w.workload(a.Workload.Name)), a.Workload.Name}]++
		}
	}
	return w
}

func today(v *decision.Workload) string {
	return strings.TrimSpace(v.Today.Mechanism.String() + " " + v.Today.Profile)
}

// handsOut counts a node's devices by kind.
func handsOut(n *layout.Node) map[string]int {
	out := map[string]int{}
	for i := range n.Devices {
		d := &n.Devices[i]
		if d.Mode != sharing.MechanismMIG {
			out[d.Mode.String()] += int(max(1, d.Slots))
		}
		for _, in := range d.Instances {
			out["mig "+in.Profile.Name]++
		}
	}
	return out
}

func (w *world) workload(name string) *decision.Workload {
	i := slices.IndexFunc(w.fleet.Workloads, func(v decision.Workload) bool { return v.Name == name })
	return &w.fleet.Workloads[i]
}

// free counts a node's devices of a kind that nobody holds.
func (w *world) free(node, kind string) int {
	n := w.seats[node][kind]
	for at, k := range w.run {
		if at[0] == node && at[1] == kind {
			n -= k * max(1, w.workload(at[2]).GPUs)
		}
	}
	return n
}

// on counts replicas by node, all of them or those of one workload.
func (w *world) on(name string) map[string]int {
	out := map[string]int{}
	for at, n := range w.run {
		if name == "" || at[2] == name {
			out[at[0]] += n
		}
	}
	return out
}

// put starts replicas, or stops them where n is negative.
func (w *world) put(s *Step, node, kind string, n int) {
	at := [3]string{node, kind, s.Workload}
	if w.run[at] += n; w.run[at] == 0 {
		delete(w.run, at)
	}
	if w.run[at] < 0 || n > 0 && (w.free(node, kind) < 0 || w.on(s.Workload)[node] != w.run[at]) {
		w.t.Errorf("%s: %d replicas on %s: %d run there, and %d of %s are left", s.Title(), n, node, w.on(s.Workload)[node], w.free(node, kind), kind)
	}
}

// take takes a step or takes it back; a replica that stops before another started needs the budget that the step names.
func (w *world) take(s *Step, back bool) {
	if s.Action != ActionMove {
		if n := w.on("")[s.Node]; n > 0 {
			w.t.Errorf("%s: %d replicas run there (back: %v)", s.Title(), n, back)
		}
		if s.Action == ActionConfigure && back {
			w.seats[s.Node] = newWorld(w.t, w.fleet).seats[s.Node]
		} else if s.Action == ActionConfigure {
			w.seats[s.Node] = handsOut(s.Gets)
		}
		return
	}
	v := w.workload(s.Workload)
	if s.Object == "Job" || s.Object == "RayCluster" || s.Object == "StatefulSet" && !slices.ContainsFunc(w.fleet.Today.Budgets, func(b decision.Budget) bool {
		return b.Name == s.Budget && b.Workload == s.Workload && b.Allowed > 0
	}) {
		w.t.Errorf("%s: it must not be interrupted", s.Title())
	}
	from, to, leaves, gets := s.From, s.To, today(v), s.Seat
	if back {
		from, to, leaves, gets = to, from, gets, leaves
	} else {
		w.rollOut(s)
	}
	for _, p := range to {
		w.put(s, p.Node, gets, p.Replicas)
	}
	for _, p := range from {
		w.put(s, p.Node, leaves, -p.Replicas)
	}
	if v.Today != nil && count(from) != count(to) && len(s.From) > 0 {
		w.t.Errorf("%s: replicas come or go", s.Title())
	}
}

// rollOut checks that a Deployment's controller finds its way, which replaces the replicas that stay too, each after
// another has started, and may stop those that leave first.
func (w *world) rollOut(s *Step) {
	stay := w.on(s.Workload)
	for _, p := range s.From {
		stay[p.Node] -= p.Replicas
	}
	stays, free := 0, 0
	for _, p := range s.To {
		stay[p.Node] += 0
	}
	for node, n := range stay {
		if to := slices.ContainsFunc(s.To, func(p Place) bool { return p.Node == node }); n > 0 || to {
			stays, free = stays+n, free+w.free(node, s.Seat)/max(1, w.workload(s.Workload).GPUs)
		}
	}
	if s.Object != "StatefulSet" && !s.Request && stays > 0 && free <= s.Replicas {
		w.t.Errorf("%s: %d replicas stay on %v, where %d devices are free", s.Title(), stays, stay, free)
	}
}

// check plays a plan: at every step each running replica has a device, each changed node is configured or freed once,
// what stays stays, and the way back works from every step.
func check(t *testing.T, f *decision.Fleet, p *Plan) {
	t.Helper()
	w, before, seen := newWorld(t, f), newWorld(t, f), map[string]bool{}
	for i := range p.Steps {
		s := &p.Steps[i]
		w.take(s, false)
		if seen[s.Node] {
			t.Errorf("%s is changed twice", s.Node)
		}
		seen[s.Node] = s.Node != ""
		back := &world{t, f, maps.Clone(w.seats), maps.Clone(w.run)}
		for k := i; k >= 0; k-- {
			back.take(&p.Steps[k], true)
		}
		if d := cmp.Diff(before.run, back.run) + cmp.Diff(before.seats, back.seats); d != "" {
			t.Errorf("after step %d and back:\n%s", i+1, d)
		}
	}
	for _, stay := range p.Stays {
		for _, name := range stay.Workloads {
			if d := cmp.Diff(before.on(name), w.on(name)); d != "" {
				t.Errorf("%s is to stay, %s:\n%s", name, stay.Why, d)
			}
		}
	}
	if p.Changes() && len(p.Mends) == 0 && p.Bill.saved <= p.Bill.uncertain {
		t.Errorf("the plan saves %d and %d is uncertain", p.Bill.saved, p.Bill.uncertain)
	}
	c, err := read(t.Context(), f, decision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.layout, c.runs = p.Today, replicas(p.Today)
	now := c.newSearch(&decision.Result{})
	now.layout = p.After
	for _, name := range c.moved(now.layout) {
		if back := now.copy(); !slices.Contains(p.Mends, name) && back.putBack(name) && now.dearer(back, name) <= 0 {
			t.Errorf("%s moves for nothing", name)
		}
	}
	for _, a := range p.Answers {
		if a.Today == sharing.AnswerYes && a.After != a.Today || a.After == sharing.AnswerNo && a.Today != a.After {
			t.Errorf("%s: %v today and %v after", a.Workload, a.Today, a.After)
		}
	}
}

func fleetOf(t *testing.T, text string) *decision.Fleet {
	t.Helper()
	f, err := decision.ParseFleet([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return f
}

// made makes the plan of a fleet.
func made(t *testing.T, f *decision.Fleet) *Plan {
	t.Helper()
	p, err := Make(t.Context(), f, decision.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRandomClusters plays the plans of random clusters. Where nothing is known all stays as it is.
func TestRandomClusters(t *testing.T) {
	race.Long(t)
	changed, steps := 0, map[Action]int{}
	seeds := []uint64{39} // one of the nightly run
	for seed := range uint64(nightly.Cases(10, 50)) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		known := seed%10 != 9
		f := fleetOf(t, randomCluster(rand.New(rand.NewPCG(seed, 32)), 4+int(seed)%5*9, known))
		p := made(t, f)
		check(t, f, p)
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, titles(p))
		}
		if !known && slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Request }) {
			t.Errorf("seed %d: nothing is known, and %s", seed, p.Why)
		}
		if p.Changes() {
			changed++
		}
		for _, s := range p.Steps {
			steps[s.Action]++
		}
	}
	t.Logf("%d of %d change: %v", changed, len(seeds), steps)
	if changed*5 < len(seeds) || steps[ActionFree] == 0 || steps[ActionConfigure] == 0 {
		t.Error("the plans hardly change anything")
	}
}

// TestBuiltIn plays the plans of the program's built-in cluster, as known and as not.
func TestBuiltIn(t *testing.T) {
	for name, steps := range map[string]int{"nothing": 0, "known": 2} {
		f, err := decision.LoadFleet("testdata/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		p := made(t, f)
		check(t, f, p)
		if len(p.Steps) != steps {
			t.Errorf("%s: %d steps", name, len(p.Steps))
		}
	}
}

// TestReservedPools: more of a pool may be reserved or spot than of it may move, what is reserved is paid for on nodes
// that nothing needs too, and what is spot by its price.
func TestReservedPools(t *testing.T) {
	b, err := os.ReadFile("testdata/known.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plain := fleetOf(t, string(b))
	want := made(t, plain)
	for _, c := range []struct {
		tariff, today, saved string
		steps                int
	}{ // 16 A100s, of which 8 are not needed, and 8 T4s for 7.82 USD an hour
		{"reserved: {count: 8, price_per_gpu_hour: 2 USD}", "36368.60", "18980.00", len(want.Steps)},
		{"reserved: {count: 12, price_per_gpu_hour: 2 USD}", "32718.60", "9490.00", len(want.Steps)},
		{"reserved: {count: 16, price_per_gpu_hour: 2 USD}", "29068.60", "2854.30", 2}, // a T4 node is not needed, and its tenant fits free instances of what is paid for
		{"spot: {count: 16, price_per_gpu_hour: 2 USD}", "29068.60", "11680.00", len(want.Steps)},
		{"spot: {count: 4, price_per_gpu_hour: 2 USD}", "40018.60", "15330.00", len(want.Steps)},               // 4 for 2 USD and 4 for 3.25 are not needed
		{"spot: {price_per_gpu_hour: 2 USD}", want.Bill.MonthlyToday, want.Bill.MonthlySaved, len(want.Steps)}, // none is stated to be
	} {
		f := fleetOf(t, strings.Replace(string(b), "    price_per_gpu_hour: 3.25 USD", "    "+c.tariff+"\n    price_per_gpu_hour: 3.25 USD", 1))
		p := made(t, f)
		if len(p.Steps) != c.steps || p.Bill.MonthlyToday != c.today || p.Bill.MonthlySaved != c.saved {
			t.Errorf("%s: %d steps, %+v", c.tariff, len(p.Steps), p.Bill)
		}
	}
}
