package migrate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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
	shape map[string]string         // what a node hands out, as steps call it
	seats map[string]map[string]int // by node and kind of device
	run   map[string]map[string]int // by node and workload
	kind  map[string]string         // the device that a workload's pods hold, by workload and node
}

func newWorld(t *testing.T, f *decision.Fleet) *world {
	w := &world{t, f, map[string]string{}, map[string]map[string]int{}, map[string]map[string]int{}, map[string]string{}}
	for i := range f.Today.Nodes {
		n := &f.Today.Nodes[i]
		w.run[n.Name], w.seats[n.Name] = map[string]int{}, handsOut(n)
		seen := map[string]bool{}
		for _, a := range n.Assignments {
			if !seen[a.Key] {
				w.run[n.Name][a.Workload.Name]++
			}
			seen[a.Key] = true
			today := w.workload(a.Workload.Name).Today
			w.kind[a.Workload.Name+" "+n.Name] = strings.TrimSpace(today.Mechanism.String() + " " + today.Profile)
		}
	}
	return w
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

// used counts a node's devices of a kind that are held.
func (w *world) used(node, kind string) (n int) {
	for v, k := range w.run[node] {
		if w.kind[v+" "+node] == kind {
			n += k * max(1, w.workload(v).GPUs)
		}
	}
	return n
}

func (w *world) replicas(name string) (n int) {
	for _, of := range w.run {
		n += of[name]
	}
	return n
}

// start and stop are what a step on a workload does, one replica after another.
func (w *world) start(s *Step, place Place, kind string) {
	v := w.workload(s.Workload)
	if had := w.kind[s.Workload+" "+place.Node]; had != kind && w.run[place.Node][s.Workload] > 0 {
		w.t.Errorf("%s would hold %s and %s on %s", s.Workload, had, kind, place.Node)
	}
	if free := w.seats[place.Node][kind] - w.used(place.Node, kind); free < place.Replicas*max(1, v.GPUs) {
		w.t.Errorf("%s: %d of %s start on %s, where %d of %s are free", s.Workload, place.Replicas, kind, place.Node, free, kind)
	}
	w.kind[s.Workload+" "+place.Node] = kind
	w.run[place.Node][s.Workload] += place.Replicas
}

func (w *world) stop(s *Step, place Place) {
	if w.run[place.Node][s.Workload] -= place.Replicas; w.run[place.Node][s.Workload] < 0 {
		w.t.Errorf("%s: %d leave %s, where fewer run", s.Workload, place.Replicas, place.Node)
	}
	if w.run[place.Node][s.Workload] == 0 {
		delete(w.run[place.Node], s.Workload)
	}
}

// take takes a step; a replica that stops before another started needs the budget that the step names.
func (w *world) take(s *Step) {
	switch s.Action {
	case ActionMove:
		v, before := w.workload(s.Workload), w.replicas(s.Workload)
		if s.Object == "Job" || s.Object == "RayCluster" {
			w.t.Errorf("%s, a %s, is moved", s.Workload, s.Object)
		}
		if s.Object == "StatefulSet" && !slices.ContainsFunc(w.fleet.Today.Budgets, func(b decision.Budget) bool {
			return b.Name == s.Budget && b.Workload == s.Workload && b.Allowed > 0
		}) {
			w.t.Errorf("%s is interrupted without a budget", s.Workload)
		}
		w.rollOut(s)
		for _, to := range s.To {
			w.start(s, to, s.Seat)
		}
		for _, from := range s.From {
			w.stop(s, from)
		}
		if after := w.replicas(s.Workload); after != before && v.Today != nil {
			w.t.Errorf("%s has %d replicas after the step and %d before", s.Workload, after, before)
		}
	case ActionConfigure:
		if len(w.run[s.Node]) > 0 {
			w.t.Errorf("%s is configured, and %v run there", s.Node, w.run[s.Node])
		}
		w.seats[s.Node] = handsOut(s.Gets)
	case ActionFree:
		if len(w.run[s.Node]) > 0 {
			w.t.Errorf("%s is freed, and %v run there", s.Node, w.run[s.Node])
		}
	}
}

// rollOut checks that a Deployment's controller finds its way, which replaces the replicas that stay too, each after
// another has started, and may stop those that leave first.
func (w *world) rollOut(s *Step) {
	nodes, stay, leave := map[string]bool{}, 0, map[string]int{}
	for _, from := range s.From {
		leave[from.Node] += from.Replicas
	}
	for node, run := range w.run {
		if n := run[s.Workload] - leave[node]; n > 0 {
			nodes[node], stay = true, stay+n
		}
	}
	free, each := 0, max(1, w.workload(s.Workload).GPUs)
	for _, to := range s.To {
		nodes[to.Node] = true
	}
	for node := range nodes {
		free += (w.seats[node][s.Seat] - w.used(node, s.Seat)) / each
	}
	if s.Object != "StatefulSet" && !s.Request && stay > 0 && free <= s.Replicas {
		w.t.Errorf("%s: %d replicas move and %d stay on %v, where %d devices are free", s.Workload, s.Replicas, stay, nodes, free)
	}
}

// undo takes a step back.
func (w *world) undo(s *Step) {
	switch s.Action {
	case ActionMove:
		back := Step{Workload: s.Workload}
		v := w.workload(s.Workload)
		for _, from := range s.From {
			w.start(&back, from, strings.TrimSpace(v.Today.Mechanism.String()+" "+v.Today.Profile))
		}
		for _, to := range s.To {
			w.stop(&back, to)
		}
	case ActionConfigure:
		if len(w.run[s.Node]) > 0 {
			w.t.Errorf("%s is set back, and %v run there", s.Node, w.run[s.Node])
		}
		w.seats[s.Node] = newWorld(w.t, w.fleet).seats[s.Node]
	}
}

func dump(w *world) string {
	text, _ := json.Marshal([]any{w.run, w.seats})
	return string(text)
}

// check plays a plan: at every step each running replica has a device, each changed node is configured or freed once,
// what stays stays, and the way back works from every step.
func check(t *testing.T, f *decision.Fleet, p *Plan) {
	t.Helper()
	w, seen := newWorld(t, f), map[string]bool{}
	before := dump(w)
	for i := range p.Steps {
		s := &p.Steps[i]
		w.take(s)
		if s.Node != "" {
			if seen[s.Node] {
				t.Errorf("%s is changed twice", s.Node)
			}
			seen[s.Node] = true
		}
		back := newWorld(t, f)
		for k := range p.Steps[:i+1] {
			back.take(&p.Steps[k])
		}
		for k := i; k >= 0; k-- {
			back.undo(&p.Steps[k])
		}
		if got := dump(back); got != before {
			t.Errorf("after step %d and back:\n%s\nbefore:\n%s", i+1, got, before)
		}
	}
	for _, stay := range p.Stays {
		for _, name := range stay.Workloads {
			for node, run := range newWorld(t, f).run {
				if w.run[node][name] != run[name] {
					t.Errorf("%s is to stay on %s: %s", name, node, stay.Why)
				}
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
	for _, name := range now.moved() {
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
	changed, freed, configured, moved := 0, 0, 0, 0
	randomClusters := nightly.Cases(10, 50)
	seeds := []uint64{39} // one of the nightly run
	for seed := range uint64(randomClusters) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 32))
		known := seed%10 != 9
		f := fleetOf(t, randomCluster(rng, 4+int(seed)%5*9, known))
		p := made(t, f)
		check(t, f, p)
		if t.Failed() {
			for _, s := range p.Steps {
				text, _ := json.Marshal(s)
				t.Logf("%s", text)
			}
			t.Fatalf("seed %d", seed)
		}
		if !known && p.Changes() {
			t.Errorf("seed %d: nothing is known, and %s", seed, p.Why)
		}
		if p.Changes() {
			changed++
		}
		t.Logf("seed %d: %d nodes, %d workloads, %d stay, %d steps: %s", seed, len(f.Today.Nodes), len(f.Workloads), len(p.Stays), len(p.Steps), p.Why)
		for _, s := range p.Steps {
			switch s.Action {
			case ActionFree:
				freed++
			case ActionConfigure:
				configured++
			case ActionMove:
				moved++
			}
		}
	}
	t.Logf("%d of %d change: %d moves, %d nodes freed, %d configured", changed, randomClusters, moved, freed, configured)
	if changed*5 < randomClusters || freed == 0 || configured == 0 {
		t.Error("the plans hardly change anything")
	}
}

// TestBuiltIn plays the plans of the program's built-in cluster, as known and as not: at every step each of its 26 pods
// has a device.
func TestBuiltIn(t *testing.T) {
	for name, steps := range map[string]int{"nothing": 0, "known": 2} {
		f, err := decision.LoadFleet("testdata/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		p := made(t, f)
		check(t, f, p)
		w, pods := newWorld(t, f), 0
		for i := range p.Steps {
			w.take(&p.Steps[i])
		}
		for _, run := range w.run {
			for _, n := range run {
				pods += n
			}
		}
		if pods != 26 || len(p.Steps) != steps {
			t.Errorf("%s: %d of 26 pods run after %d steps", name, pods, len(p.Steps))
		}
	}
}

// TestStepJSON: places are written as everything else is, and read as looks wrote them before.
func TestStepJSON(t *testing.T) {
	text, err := json.Marshal(Step{Workload: "w", To: []Place{{Node: "n", Replicas: 2}}})
	if err != nil || !strings.Contains(string(text), `"to":[{"node":"n","replicas":2}]`) {
		t.Errorf("%s, %v", text, err)
	}
	var s Step
	if err := json.Unmarshal([]byte(`{"action":"move","to":[{"Node":"n","Replicas":2}]}`), &s); err != nil || count(s.To) != 2 || s.To[0].Node != "n" {
		t.Errorf("%+v, %v", s, err)
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

// TestLarge plans 2,000 nodes and 20,000 pods. What is shown stays under 1 MB.
func TestLarge(t *testing.T) {
	race.Long(t)
	var nodes, workloads strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&nodes, "    - {name: n%04d, pool: a, devices: [{gpu: A100-SXM4-80GB, count: 8, mode: time-slicing, slots: 4}], assignments: [{workload: t/w%04d, replicas: 10}]}\n", i, i)
		known := ""
		if i%40 == 0 {
			known = ", memory: 8GiB, gpu_busy: 0.05"
		}
		fmt.Fprintf(&workloads, "  - {name: t/w%04d, kind: batch, replicas: 10, tenant: t, today: {mechanism: time-slicing, object: Deployment}%s}\n", i, known)
	}
	f := fleetOf(t, "version: v1\npools:\n  - {name: a, gpu: A100-SXM4-80GB, count: 16000, gpus_per_node: 8, price_per_gpu_hour: 3 USD}\nworkloads:\n"+workloads.String()+"today:\n  nodes:\n"+nodes.String())
	began := time.Now()
	p := made(t, f)
	check := newWorld(t, f)
	for i := range p.Steps {
		check.take(&p.Steps[i])
	}
	text := strings.Join(p.Lines(), "\n")
	doc, err := json.Marshal(p)
	if err != nil || len(text) > 100_000 || len(doc) > 1_000_000 {
		t.Errorf("%d bytes of text, %d of JSON, %v", len(text), len(doc), err)
	}
	t.Logf("%v, %d steps, %s", time.Since(began), len(p.Steps), p.Why)
}
