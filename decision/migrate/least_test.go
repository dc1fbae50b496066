// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/race"
)

// TestNothingMovesForNothing: what earns no part of the saving stays, on better hardware at that: of two pools the one
// with the cheaper GPUs is put together, and the service on whole H100s, whose node another workload keeps, is left
// alone although its share of an A100 would do. The same service moves where that frees its node.
func TestNothingMovesForNothing(t *testing.T) {
	const text = `version: v1
pools:
  - {name: h100, gpu: H100-SXM5-80GB, count: 8, gpus_per_node: 8, price_per_gpu_hour: 6 USD, delivery: gpu-operator}
  - {name: a100, gpu: A100-SXM4-80GB, count: 16, gpus_per_node: 4, price_per_gpu_hour: 3 USD, delivery: gpu-operator}
workloads:
  - {name: prod/chat, kind: batch, replicas: 4, tenant: prod, memory: 30GiB, gpu_busy: 0.1, today: {mechanism: exclusive, may_weaken: true, object: Deployment}}
  - {name: prod/fit, kind: training, replicas: 1, tenant: prod, today: {mechanism: exclusive, object: KEEPER}}
  - {name: lab/a, kind: batch, replicas: 2, tenant: lab, memory: 30GiB, gpu_busy: 0.1, today: {mechanism: exclusive, may_weaken: true, object: Deployment}}
  - {name: lab/b, kind: batch, replicas: 2, tenant: lab, memory: 30GiB, gpu_busy: 0.1, today: {mechanism: exclusive, may_weaken: true, object: Deployment}}
today:
  nodes:
    - {name: h1, pool: h100, devices: [{gpu: H100-SXM5-80GB, count: 8, mode: exclusive}], assignments: [{workload: prod/chat, replicas: 4}KEPT]}
    - {name: a1, pool: a100, devices: [{gpu: A100-SXM4-80GB, count: 4, mode: exclusive}], assignments: [{workload: lab/a, replicas: 2}]}
    - {name: a2, pool: a100, devices: [{gpu: A100-SXM4-80GB, count: 4, mode: exclusive}], assignments: [{workload: lab/b, replicas: 2}]}
    - {name: a3, pool: a100, devices: [{gpu: A100-SXM4-80GB, count: 4, mode: exclusive}]}
    - {name: a4, pool: a100, devices: [{gpu: A100-SXM4-80GB, count: 4, mode: exclusive}]}
`
	for _, c := range []struct {
		keeper, kept string
		moves        bool
	}{{"Job", ", {workload: prod/fit}", false}, {"Job", "", true}} {
		f := fleetOf(t, strings.NewReplacer("KEEPER", c.keeper, "KEPT", c.kept).Replace(text))
		p := made(t, f)
		check(t, f, p)
		if got := strings.Contains(titles(p), "prod/chat from"); got != c.moves || !strings.Contains(titles(p), "back") {
			t.Errorf("kept %q: chat moves %t: %s", c.kept, got, titles(p))
		}
	}
}

// TestPartsApart: steps that can't be ordered in one part of a cluster stop no other part. A plan, in the nightly run
// also of 5,000 nodes, allocates at most 2 MiB a node in total, and its text and JSON stay short.
func TestPartsApart(t *testing.T) {
	race.Long(t)
	nodes := nightly.Cases(120, 5000)
	for _, n := range slices.Compact([]int{120, nodes}) {
		var lines []string
		for i := range n / 2 {
			lines = append(lines, fmt.Sprintf("a%d Deployment 1 n%d=1", i, 2*i), fmt.Sprintf("b%d Deployment 2 n%d=2", i, 2*i+1))
		}
		f := small(t, n, lines...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p := made(t, f)
		runtime.ReadMemStats(&after)
		allocated := (after.TotalAlloc - before.TotalAlloc) / uint64(n)
		t.Logf("%d nodes: %d steps, %d bytes a node", n, len(p.Steps), allocated)
		if allocated > 2<<20 {
			t.Errorf("%d nodes: %d bytes are allocated for each", n, allocated)
		}
		if n == 120 {
			check(t, f, p)
		}
		text := strings.Join(p.Lines(true), "\n")
		if doc, err := json.Marshal(p); err != nil || len(text) > 100_000 || len(doc) > 1000*n {
			t.Errorf("%d bytes of text, %d of JSON, %v", len(text), len(doc), err)
		}
		if freed := p.Cost.NodesToday - p.Cost.NodesAfter; freed < n*5/12 {
			t.Errorf("%d of %d nodes are freed: %s", freed, n, p.Why)
		}
	}
}
