package predict

import (
	"testing"

	"github.com/cotenant/cotenant/sharing"
	"github.com/google/go-cmp/cmp"
)

// What a simulation leaves behind changes nothing for the next, whose tenants are
// more, fewer or of other kinds.
func TestStageIsAsNew(t *testing.T) {
	llm := Tenant{Serving: &Serving{PerS: 2, Input: 500, Output: 100, Weights: 16e9, Parameters: 8e9, KVPerToken: 131072, Layers: 32}, Limits: [LatencyCount]float64{LatencyTTFT: 1, LatencyTPOT: 0.1}}
	server := Tenant{Busy: 0.2, Online: true, Alone: [LatencyCount]float64{LatencyE2E: 0.2}, Limits: [LatencyCount]float64{LatencyE2E: 0.5}}
	batch := Tenant{Busy: 0.3}
	played := func(on *stage, tenants ...Tenant) (out [][LatencyCount][]float64) {
		e := evaluation{machine: Machine{Bandwidth: 2e12, FLOPs: 3e14}, share: Share{Mechanism: sharing.MechanismMPS, SMs: 1, Bandwidth: 1}, tenants: tenants}
		for _, p := range e.play(on) {
			out = append(out, [LatencyCount][]float64{})
			for k, s := range p.samples {
				out[len(out)-1][k] = append([]float64(nil), s...)
			}
		}
		return out
	}
	used := new(stage)
	for _, tenants := range [][]Tenant{{llm}, {llm, server, batch, llm}, {batch, llm}, {server, server}, {llm, server, batch, llm}} {
		if d := cmp.Diff(played(new(stage), tenants...), played(used, tenants...)); d != "" {
			t.Fatalf("%d tenants: %.400s", len(tenants), d)
		}
	}
	if alone, beside := played(new(stage), llm)[0], played(used, llm)[0]; len(alone[LatencyE2E]) < fewestSimulated || !cmp.Equal(alone, beside) {
		t.Errorf("%d requests were played", len(alone[LatencyE2E]))
	}
}
