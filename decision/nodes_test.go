// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// modesOf lists by node the modes of its devices in use.
func modesOf(r *Result, pool string) (out []string) {
	for n := range r.Layout.Nodes() {
		var modes []string
		for i := range n.Devices {
			if n.Tenants(i) > 0 {
				modes = append(modes, n.Devices[i].Mode.String())
			}
		}
		if slices.Sort(modes); n.Pool == pool && len(modes) > 0 {
			out = append(out, strings.Join(slices.Compact(modes), "+"))
		}
	}
	slices.Sort(out)
	return out
}

// TestQuickstartNeedsOneNode by dividing a workload's replicas between time-slicing and MIG; DRA has a node for MPS and
// MIG.
func TestQuickstartNeedsOneNode(t *testing.T) {
	f, err := LoadFleet("../examples/quickstart/fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for delivery, want := range map[sharing.Delivery][]string{
		sharing.DeliveryBare:        {"mig+time-slicing"},
		sharing.DeliveryGPUOperator: {"mig+time-slicing"},
		sharing.DeliveryDRA:         {"mig+mps"},
	} {
		f.Pools[0].Delivery = delivery
		r := decide(t, f)
		checkNodes(t, f, r)
		if got := modesOf(r, "prod"); !slices.Equal(got, want) || r.Pools[1].Costs.NodesAfter != len(want) {
			t.Errorf("%v: nodes of %q, %d paid for", delivery, got, r.Pools[1].Costs.NodesAfter)
		}
	}
	f.Pools[0].Delivery, f.Pools[0].Standalone = sharing.DeliveryBare, true
	if got := modesOf(decide(t, f), "prod"); !slices.Equal(got, []string{"mig+mps"}) {
		t.Errorf("a machine by itself: %q", got)
	}
}

// TestLimitsHoldMembers: the device plugin divides the GPU's memory among clients of MPS by the number of slots; other
// deliveries give them as much as they need. A replica that needs more than its part has no such place.
func TestLimitsHoldMembers(t *testing.T) {
	const fleet = `
pools: [{name: p, gpu: A100-SXM4-80GB, count: 4, gpus_per_node: 2, price_per_gpu_hour: "2.00 USD", mechanisms: [mps], delivery: DELIVERY}]
workloads:
  - {name: large, kind: batch, memory: 36GiB, gpu_busy: 0.1, tenant: t}
  - {name: small, kind: batch, replicas: 4, memory: 5GiB, gpu_busy: 0.05, tenant: t}
`
	for delivery, want := range map[string]int{"gpu-operator": 3, "none": 2} { // those of nodes that are paid for
		r := decideText(t, strings.Replace(fleet, "DELIVERY", delivery, 1))
		gpus := 0
		for n := range r.Layout.Nodes() {
			for i := range n.Devices {
				if n.Tenants(i) > 0 {
					gpus++
				}
			}
		}
		if err := layout.Err(r.Layout.Check()); err != nil || gpus != want {
			t.Errorf("%s: %d GPUs, %v", delivery, gpus, err)
		}
	}
}

// TestNoNodeNoPlace: a group for which there is no node has no place.
func TestNoNodeNoPlace(t *testing.T) {
	const fleet = `
pools: [{name: p, gpu: T4, count: 4, gpus_per_node: 2, price_per_gpu_hour: "0.50 USD"}]
workloads:
  - {name: whole, kind: distributed-training, replicas: 3, memory: 12GiB, gpu_busy: 0.9, tenant: a}
  - {name: turns, kind: notebook, replicas: 3, memory: 3GiB, gpu_busy: 0.05, tenant: b, priority: 5}
`
	r := decideText(t, fleet)
	// Three whole GPUs would leave one on their two nodes, and the delivery shares none of it.
	if d, turns := r.Decision("whole"), r.Decision("turns"); d.Placed != 2 || d.MoreGPUs == nil || d.MoreGPUs.GPUs != 2 || turns.Placed != 3 {
		t.Errorf("%d and %d are placed: %+v", d.Placed, turns.Placed, d.MoreGPUs)
	}
	if r := decideText(t, strings.Replace(fleet, "price", "delivery: dra, price", 1)); r.Decision("whole").Placed != 3 {
		t.Errorf("by DRA %d are placed", r.Decision("whole").Placed)
	}
	if r := decideText(t, strings.Replace(fleet, "gpus_per_node: 2, ", "", 1)); r.Decision("whole").Placed != 3 ||
		len(r.Remarks) != 1 || !strings.Contains(r.Remarks[0], "one sharing mode") {
		t.Errorf("of counted GPUs %d are placed: %q", r.Decision("whole").Placed, r.Remarks)
	}
}

// TestPartsOfTheMoney: the money freed by sharing, that of unused GPUs, the added one and that of GPUs kept for work
// without a place add up to the difference.
func TestPartsOfTheMoney(t *testing.T) {
	const text = `
pools:
  - {name: big, gpu: A100-SXM4-80GB, count: 16, gpus_per_node: 4, price_per_gpu_hour: "1.00 USD"}
  - {name: buy, gpu: L4, count: 8, price_per_gpu_hour: "0.50 USD", owned: false}
workloads:
  - {name: nb, kind: notebook, replicas: 7, memory: 4GiB, gpu_busy: 0.05, tenant: t, pool: big}
  - {name: out, kind: training, replicas: 2, memory: 200GiB, gpu_busy: 0.9, tenant: t, pool: big}
  - {name: new, kind: training, replicas: 1, memory: 16GiB, gpu_busy: 0.9, tenant: t, pool: buy}
`
	b := decideText(t, text).Totals.Costs
	// Of four nodes seven notebooks would use two alone and use one together; two replicas without a place may hold
	// one.
	want := Costs{GPUsToday: 16, GPUsAfter: 5, NodesToday: 4, NodesAfter: 1, MonthlyToday: "11680.00", MonthlyAfter: "3285.00",
		MonthlyFreed: "5475.00", MonthlyFreedBySharing: "2920.00", MonthlyFreedIdle: "2920.00", MonthlyAdded: "365.00", MonthlyUnplaced: "2920.00"}
	if b != want {
		t.Errorf("%+v", b)
	}
	var shown strings.Builder
	r := decideText(t, text)
	if err := r.WriteText(&shown, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(shown.String()), " ")
	for _, part := range []string{"2,920 freed by sharing; 2,920 freed of pools and nodes that nobody used before; 365 added; 2,920 of free GPUs kept",
		"unshared: 8 GPUs, 6,205 USD"} {
		if !strings.Contains(flat, part) {
			t.Errorf("%q is not said: %s", part, flat)
		}
	}
}

// TestFindingsAreSaid: unused capacity of the layout is in the result, and in the text with its money.
func TestFindingsAreSaid(t *testing.T) {
	r := decideText(t, `
pools: [{name: p, gpu: T4, count: 2, gpus_per_node: 2, price_per_gpu_hour: "0.50 USD"}]
workloads:
  - {name: nb, kind: notebook, replicas: 3, memory: 3GiB, gpu_busy: 0.05, tenant: b}
`)
	if len(r.Findings) != 1 || r.Findings[0].Kind != "free-shares" || r.Findings[0].PerHour.Decimal() != "0.25" {
		t.Errorf("%+v", r.Findings)
	}
	var text strings.Builder
	if err := r.WriteText(&text, TextOptions{}); err != nil || !strings.Contains(text.String(), "unused  shares that nobody holds: worth 0.5 GPUs of p, 182.50 a month") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// TestLayoutInJSON: a result is read back with its layout.
func TestLayoutInJSON(t *testing.T) {
	f, err := LoadFleet("../examples/quickstart/fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := decide(t, f)
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(data, &back); err != nil || !back.Layout.Equal(r.Layout) {
		t.Errorf("%v", err)
	}
}

// TestDeliveryInFiles: a machine by itself states none, and a delivery that there is not is named with its path.
func TestDeliveryInFiles(t *testing.T) {
	pool := func(delivery string) (*Fleet, error) {
		return ParseFleet([]byte("version: v1\npools: [{name: p, gpu: T4, count: 2, delivery: " + delivery + "}]\nworkloads: [{name: w, kind: batch}]\n"))
	}
	for _, none := range []string{"none", "bare"} {
		if f, err := pool(none); err != nil || !f.Pools[0].Standalone || f.Pools[0].Delivery != sharing.DeliveryBare {
			t.Errorf("%s: %v", none, err)
		}
	}
	if f, err := pool("kai"); err != nil || f.Pools[0].Standalone || f.Pools[0].Delivery != sharing.DeliveryKAI {
		t.Error(err)
	}
	if _, err := pool("plugin"); err == nil || !strings.Contains(err.Error(), "pools[0].delivery") {
		t.Errorf("%v", err)
	}
}

// TestPartsOfTheMoneyToday: where a fleet says where its replicas run, nodes that none of them is on are idle.
func TestPartsOfTheMoneyToday(t *testing.T) {
	r := decideText(t, `
pools: [{name: p, gpu: A100-SXM4-80GB, count: 16, gpus_per_node: 4, price_per_gpu_hour: "1.00 USD"}]
today:
  nodes:
    - {name: a, pool: p, devices: [{gpu: L4, count: 4, mode: exclusive}], assignments: [{workload: nb}]}
    - {name: b, pool: p, devices: [{gpu: L4, count: 4, mode: exclusive}], assignments: [{workload: nb}]}
    - {name: c, pool: p, devices: [{gpu: L4, count: 4, mode: exclusive}], assignments: [{workload: nb}]}
    - {name: d, pool: p, devices: [{gpu: L4, count: 4, mode: exclusive}]}
workloads:
  - {name: nb, kind: notebook, replicas: 3, memory: 4GiB, gpu_busy: 0.05, tenant: t, today: {mechanism: exclusive, may_weaken: true}}
`)
	if b := r.Totals.Costs; b.MonthlyFreedBySharing != "5840.00" || b.MonthlyFreedIdle != "2920.00" || b.MonthlyFreed != "8760.00" {
		t.Errorf("%+v", b)
	}
}

// TestEveryGPU: the delivery can set up every plan on every GPU of the table.
func TestEveryGPU(t *testing.T) {
	t.Parallel()
	for _, g := range sharing.GPUs() {
		for _, d := range []string{"none", "device-plugin", "hami"} {
			decideText(t, `
pools: [{name: p, gpu: "`+g.Name+`", count: 8, gpus_per_node: 4, delivery: `+d+`, mechanisms: [time-slicing, mps, mig, mig+mps, hami, hami+mps, mig-like-emulation]}]
workloads:
  - {name: a, kind: batch, replicas: 5, memory: 2GiB, gpu_busy: 0.1, tenant: t, isolation: {memory: hardware}}
  - {name: b, kind: batch, replicas: 9, memory: 1GiB, gpu_busy: 0.05, tenant: u}
  - {name: c, kind: notebook, replicas: 9, memory: 1GiB, gpu_busy: 0.05}
`)
		}
	}
}
