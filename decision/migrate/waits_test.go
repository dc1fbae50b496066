// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/sharing"
)

// small is a cluster of whole GPUs, four to a node: workloads as "name object replicas node=n,node=n", a budget behind
// it where "budget=n" stands.
func small(t *testing.T, nodes int, workloads ...string) *decision.Fleet {
	t.Helper()
	var text, all strings.Builder
	var budgets []string
	held := map[string][]string{}
	for _, line := range workloads {
		f := strings.Fields(line)
		for _, on := range strings.Split(f[3], ",") {
			if node, n, ok := strings.Cut(on, "="); ok {
				held[node] = append(held[node], fmt.Sprintf("{workload: t/%s, replicas: %s}", f[0], n))
			}
		}
		fmt.Fprintf(&text, "  - {name: t/%s, kind: batch, tenant: t, replicas: %s, memory: 60GiB, gpu_busy: 0.7, today: {mechanism: exclusive, object: %s}}\n", f[0], f[2], f[1])
		if len(f) > 4 {
			budgets = append(budgets, fmt.Sprintf("    - {name: b-%s, workload: t/%s, allowed: %s}\n", f[0], f[0], strings.TrimPrefix(f[4], "budget=")))
		}
	}
	for i := range nodes {
		fmt.Fprintf(&all, "    - {name: n%d, pool: a, devices: [{gpu: A100-SXM4-80GB, count: 4, mode: exclusive}], assignments: [%s]}\n", i, strings.Join(held[fmt.Sprint("n", i)], ", "))
	}
	return fleetOf(t, fmt.Sprintf("version: v1\npools:\n  - {name: a, gpu: A100-SXM4-80GB, count: %d, gpus_per_node: 4, price_per_gpu_hour: 3 USD, delivery: gpu-operator}\nworkloads:\n%stoday:\n%s  nodes:\n%s",
		4*nodes, text.String(), section("budgets", budgets), all.String()))
}

func titles(p *Plan) string {
	var out []string
	for i := range p.Steps {
		out = append(out, p.Steps[i].Title())
	}
	return strings.Join(out, "; ")
}

// TestWaits: replicas that wait get what stands free, beside those that run and stay; where there is too little those
// that run stay where they are, and who waits is named.
func TestWaits(t *testing.T) {
	for _, c := range []struct {
		name, waits, steps string
		workloads          []string
	}{
		{"all of them wait", "", "Start 2 replicas of t/w on n0 (2), each on exclusive", []string{"stay Deployment 2 n0=2", "w Deployment 2 -"}},
		{"one of three waits", "", "Start 1 replica of t/w on n0 (1), each on exclusive", []string{"w Deployment 3 n0=2"}},
		{"no device is free", "[t/w]", "", []string{"stay Deployment 4 n0=4", "w Deployment 1 -"}},
		{"one of three has no device", "[t/w]", "", []string{"stay Deployment 2 n0=2", "w Deployment 3 n0=2"}},
	} {
		f := small(t, 1, c.workloads...)
		for i, make := range []func(context.Context, *decision.Fleet, decision.Options) (*Plan, error){Make, Admit} {
			p, err := make(t.Context(), f, decision.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if waits := strings.Replace(fmt.Sprint(p.Waits()), "[]", "", 1); waits != c.waits || titles(p) != c.steps || p.Disturbs() {
				t.Errorf("%s, %d: %s waits; %s; %v", c.name, i, waits, titles(p), p.Stays)
			}
		}
	}
}

// TestOneWithoutPlace: what comes and fits nowhere stands in the way of no other, and of no saving; the device of an
// arrival that fits where nothing moves is its own, though another needs a move.
func TestOneWithoutPlace(t *testing.T) {
	for _, c := range []struct {
		name, make, steps, waits, why string
		workloads                     []string
	}{
		{"one of two fits", "Admit", "Start 1 replica of t/w on n0 (1), each on exclusive", "[t/many]",
			"it has no place: only 1 of 9 replicas find room", []string{"stay Deployment 2 n0=2", "w Deployment 1 -", "many Deployment 9 -"}},
		{"none fits", "Admit", "", "[t/many t/more]",
			"it has no place: ", []string{"stay Deployment 3 n0=3", "many Deployment 9 -", "more Deployment 8 -"}},
		{"a saving", "Make", "Move 1 replica of t/b from n1 (1) to n0 (1), each to exclusive: each new replica is ready before " +
			"an old one stops; Give n1 back: nothing runs on it any more", "[t/many]",
			"it has no place: ", []string{"a Deployment 2 n0=2", "b Deployment 1 n1=1", "many Deployment 9 -"}},
	} {
		f := small(t, 2, c.workloads...)
		if c.make == "Admit" {
			f = small(t, 1, c.workloads...)
		}
		for i := range f.Workloads {
			if w := &f.Workloads[i]; !strings.Contains(fmt.Sprint(c.workloads), strings.TrimPrefix(w.Name, "t/")+" Deployment "+fmt.Sprint(w.Replicas.Max)+" n") {
				w.Today = nil
			}
		}
		plan := map[string]func(context.Context, *decision.Fleet, decision.Options) (*Plan, error){"Admit": Admit, "Make": Make}
		p, err := plan[c.make](t.Context(), f, decision.Options{})
		if err != nil {
			t.Fatal(err)
		}
		told := slices.ContainsFunc(p.Stays, func(s Stay) bool { return strings.HasPrefix(s.Why, c.why) && slices.Contains(s.Workloads, "t/many") })
		if waits := fmt.Sprint(p.Waits()); waits != c.waits || titles(p) != c.steps || !told {
			t.Errorf("%s: %s waits; %s; %s; %v", c.name, waits, titles(p), p.Why, p.Stays)
		}
		if !p.Changes() && !strings.HasPrefix(p.Why, "t/many has no place: ") {
			t.Errorf("%s: %s", c.name, p.Why)
		}
	}
}

// TestOtherDeliveries: nodes whose GPUs HAMi, Volcano, KAI or the DRA driver hands out are left as they are, empty ones
// too, and nothing moves onto them, though another pool's are dearer.
func TestOtherDeliveries(t *testing.T) {
	for _, d := range []sharing.Delivery{sharing.DeliveryHAMi, sharing.DeliveryVolcano, sharing.DeliveryKAI, sharing.DeliveryDRA} {
		f, other := small(t, 3, "a Deployment 1 n0=1", "b Deployment 1 n1=1"), small(t, 2, "c Deployment 1 n0=1", "d Deployment 1 n1=1")
		f.Pools[0].Delivery = d
		p := made(t, f)
		why := fmt.Sprintf("n0 is a node of %v, for which no steps are planned", d)
		if p.Changes() || !slices.ContainsFunc(p.Stays, func(s Stay) bool { return strings.HasPrefix(s.Why, why) && slices.Contains(s.Workloads, "t/a") }) {
			t.Errorf("%v: %s; %v", d, titles(p), p.Stays)
		}
		dearer, err := cost.FromMicros(4e6, "USD")
		if err != nil {
			t.Fatal(err)
		}
		other.Pools[0].Name, other.Pools[0].PricePerGPUHour = "b", sharing.Some(dearer)
		for i := range other.Today.Nodes {
			n := &other.Today.Nodes[i]
			n.Name, n.Pool = fmt.Sprint("m", i), "b"
		}
		f.Pools, f.Workloads, f.Today.Nodes = append(f.Pools, other.Pools...), append(f.Workloads, other.Workloads...), append(f.Today.Nodes, other.Today.Nodes...)
		p = made(t, f)
		check(t, f, p)
		if got := titles(p); !p.Changes() || regexp.MustCompile(`\bn\d`).MatchString(got) {
			t.Errorf("%v: %s, %v", d, got, p.Stays)
		}
	}
}

// TestNoPrices: without prices GPUs are counted, and no money is stated.
func TestNoPrices(t *testing.T) {
	f := small(t, 2, "a Deployment 1 n0=1", "b Deployment 1 n1=1")
	f.Pools[0].PricePerGPUHour = sharing.Optional[cost.Money]{}
	p := made(t, f)
	check(t, f, p)
	text := strings.Join(p.Lines(true), "\n")
	if !p.Changes() || p.Cost.GPUsFreed != 4 || p.Cost.Currency != "" || p.Cost.MonthlySaved != "" || !strings.Contains(text, "Without a price of every pool no money is stated") {
		t.Errorf("%+v\n%s", p.Cost, text)
	}
}

// TestAsksForInstances: what comes and asks for MIG instances by their profile gets those that stand free, whatever is
// known of it, or a node that can make them; else its reason names them.
func TestAsksForInstances(t *testing.T) {
	const text = `version: v1
pools:
  - {name: h, gpu: H100-SXM5-80GB, count: 2, gpus_per_node: 1, price_per_gpu_hour: 3 USD, delivery: gpu-operator}
workloads:
  - {name: t/old, kind: online-inference, replicas: 2, tenant: t, today: {mechanism: mig, profile: 1g.10gb, object: Deployment}}
  - {name: u/new, kind: online-inference, replicas: COUNT, tenant: u, request: {mechanism: mig, profile: PROFILE}}
today:
  nodes:
    - name: n1
      pool: h
      devices: [{gpu: H100-SXM5-80GB, mode: mig, instances: [{profile: 1g.10gb, start: 0}, {profile: 1g.10gb, start: 1}, {profile: 1g.10gb, start: 2}, {profile: 1g.10gb, start: 3}, {profile: 3g.40gb, start: 4}]}]
      assignments: [{workload: t/old, replicas: 2, profile: 1g.10gb}]
    - {name: n2, pool: h, devices: [{gpu: H100-SXM5-80GB, mode: exclusive}]OTHER}
`
	for _, c := range []struct{ count, profile, other, steps, waits, why string }{
		{"2", "1g.10gb", "", "Start 2 replicas of u/new on n1 (2), each on mig 1g.10gb", "[]", ""},
		{"1", "3g.40gb", "", "Start 1 replica of u/new on n1 (1), each on mig 3g.40gb", "[]", ""},
		{"3", "1g.10gb", "", "Drain n2, on which no GPU is in use, and let it hand out 1 x 1g.10gb (today whole GPUs); " +
			"Start 3 replicas of u/new on n1 (2), n2 (1), each on mig 1g.10gb", "[]", ""},
		{"3", "1g.10gb", ", closed: cordoned", "", "[u/new]", "it asks for 3 x 1g.10gb, and no pool has as many free or can make them"},
		{"1", "1g.5gb", "", "", "[u/new]", "it asks for 1 x 1g.5gb, and no pool has as many free or can make them"},
	} {
		f := fleetOf(t, strings.NewReplacer("COUNT", c.count, "PROFILE", c.profile, "OTHER", c.other).Replace(text))
		p, err := Admit(t.Context(), f, decision.Options{})
		if err != nil {
			t.Fatal(err)
		}
		told := slices.ContainsFunc(p.Stays, func(s Stay) bool { return c.why != "" && strings.Contains(s.Why, c.why) })
		if got := titles(p); got != c.steps || fmt.Sprint(p.Waits()) != c.waits || told != (c.why != "") {
			t.Errorf("%s x %s%s: %q, waits %v, %+v", c.count, c.profile, c.other, got, p.Waits(), p.Stays)
		}
	}
}
