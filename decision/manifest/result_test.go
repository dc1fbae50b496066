package manifest_test

import (
	"fmt"
	"log"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/manifest"
)

const twoTeams = `
version: v1
pools:
  - {name: GPU_Pool, gpu: A100-SXM4-80GB, count: 2}
workloads:
  - {name: Chat_7B, kind: online-inference, replicas: 2, memory: 18GiB, gpu_busy: 0.2, isolation: {memory: hardware}, framework: {name: vllm, memory_fraction: 0.9}}
  - {name: chat-7b, kind: online-inference, replicas: 2, memory: 8GiB, gpu_busy: 0.1, isolation: {memory: hardware}}
  - {name: huge, kind: training, memory: 200GiB, gpu_busy: 0.5}
`

func decided() (*decision.Fleet, *decision.Result) {
	f, err := decision.ParseFleet([]byte(twoTeams))
	if err != nil {
		log.Fatal(err)
	}
	r, err := decision.Decide(f, decision.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return f, r
}

// ForResult writes the documents of a decision, in memory.
func ExampleForResult() {
	fleet, result := decided()
	files, _, err := manifest.ForResult(fleet, result, manifest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.Path, "pods/") || f.Path == "plan.md" {
			fmt.Println(f.Path)
		}
	}
	// Output:
	// plan.md
	// pods/chat-7b-2.yaml
	// pods/chat-7b.yaml
}

// TestFleetOf: names are folded apart, what fits nowhere is said, a fraction
// is raised where a slice needs it.
func TestFleetOf(t *testing.T) {
	fleet, notes := manifest.FleetOf(decided())
	said := strings.Join(notes, "\n")
	for _, want := range []string{`The pool "GPU_Pool" is called gpu-pool`, "huge fits nowhere", `"Chat_7B" is called chat-7b-2`} {
		if !strings.Contains(said, want) {
			t.Errorf("notes lack %q:\n%s", want, said)
		}
	}
	if len(fleet.Workloads) != 2 || len(fleet.Groups) != 1 {
		t.Fatalf("%+v", fleet)
	}
	for _, w := range fleet.Workloads {
		if w.Framework.Name == "vllm" && w.Framework.MemoryFraction != 0.93 {
			t.Errorf("18 GiB of a slice of 19.5 GiB is a fraction of %v", w.Framework.MemoryFraction)
		}
	}
	if err := fleet.Validate(); err != nil {
		t.Error(err)
	}
}
