package discover_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
)

// aCluster writes nodes of whole A100s, time-sliced and in MIG mode, and pods on
// them at random, and hints that say everything of the workloads.
func aCluster(rng *rand.Rand) (objects, hints string) {
	var items []string
	var known strings.Builder
	known.WriteString("trust: all\nworkloads:\n")
	kinds := []string{"notebook", "batch", "online-inference"}
	n := 0
	for i := range 2 + rng.IntN(5) {
		labels, resource, seats := `"nvidia.com/gpu.product":"NVIDIA-A100-SXM4-80GB","nvidia.com/gpu.count":"4"`, "nvidia.com/gpu", 4
		switch rng.IntN(3) {
		case 0:
			labels = `"nvidia.com/gpu.product":"NVIDIA-A100-SXM4-80GB-SHARED","nvidia.com/gpu.count":"4","nvidia.com/gpu.replicas":"4","nvidia.com/gpu.sharing-strategy":"time-slicing"`
			seats = 16
		case 1:
			labels += `,"nvidia.com/mig.strategy":"mixed"`
			resource, seats = "nvidia.com/mig-3g.40gb", 8
		}
		items = append(items, fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n%d","labels":{%s}},"status":{"capacity":{"%s":"%d"}}}`, i, labels, resource, seats))
		for seats > 0 && rng.IntN(4) > 0 {
			k := 1 + rng.IntN(min(seats, 4))
			seats -= k
			name := fmt.Sprintf("w%d", n)
			n++
			for r := range k {
				items = append(items, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%s-%d","namespace":"t","ownerReferences":[{"kind":"StatefulSet","name":"%s","controller":true}]},
					"spec":{"nodeName":"n%d","containers":[{"image":"i","resources":{"limits":{"%s":"1"}}}]},"status":{"phase":"Running"}}`, name, r, name, i, resource))
			}
			fmt.Fprintf(&known, "  t/%s: {kind: %s, memory: %dGiB, gpu_busy: 0.%02d}\n", name, kinds[rng.IntN(3)], 2+rng.IntN(20)+75*(rng.IntN(8)/7), 2+rng.IntN(30))
		}
	}
	if n == 0 {
		return aCluster(rng)
	}
	return `{"kind":"List","items":[` + strings.Join(items, ",") + `]}`, known.String()
}

// TestMigration replays plans on random clusters: a node is changed only when it
// is empty, every replica leaves from where it is, no workload loses one without
// the step saying so, and what a step says to be interrupted had no free node.
func TestMigration(t *testing.T) {
	moved, interrupted, freed := 0, 0, 0
	for seed := range uint64(race.Fewer(migrations)) {
		objects, hints := aCluster(rand.New(rand.NewPCG(seed, 1)))
		h, err := discover.ParseHints([]byte(hints))
		if err != nil {
			t.Fatal(err)
		}
		d, err := read(t, discover.Options{Hints: h}, "cluster", objects)
		if err != nil {
			t.Fatal(err)
		}
		r, err := decision.Decide(t.Context(), &d.Fleet, decision.Options{Confidence: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		here := map[string]map[string]int{} // by node and workload
		for pod, node := range podsOf(objects) {
			if here[node] == nil {
				here[node] = map[string]int{}
			}
			here[node][d.Workload(pod)]++
		}
		left := map[string]bool{}
		for i, s := range d.Migrate(r) {
			switch s.Action {
			case discover.ActionMove:
				if here[s.Node][s.Workload] != s.Replicas || left[s.Node] {
					t.Errorf("seed %d step %d: %s, and %d are there", seed, i+1, s.Do, here[s.Node][s.Workload])
				}
				delete(here[s.Node], s.Workload)
				moved++
				if len(s.Interrupts) > 0 {
					interrupted++
				}
			case discover.ActionConfigure, discover.ActionFree:
				if len(here[s.Node]) > 0 {
					t.Errorf("seed %d step %d: %s, and %v run there", seed, i+1, s.Do, here[s.Node])
				}
				if s.Action == discover.ActionFree {
					freed++
				}
			case discover.ActionLeave:
				left[s.Node] = true
			}
		}
		// Whoever stayed somewhere is where the decision wants it, or was left.
		for node, tenants := range here {
			for w, n := range tenants {
				v := r.Decision(w)
				if v != nil && !left[node] && n > 0 && v.Mechanism == sharing.MechanismMPS {
					t.Errorf("seed %d: %s stays on %s and is decided to go under MPS, which no node has", seed, w, node)
				}
			}
		}
	}
	t.Logf("%d moves, %d of them interrupt, %d nodes freed", moved, interrupted, freed)
	if moved == 0 || freed == 0 || interrupted*2 > moved {
		t.Error("the plans hardly move anything, or interrupt most")
	}
}
