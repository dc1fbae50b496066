package profile

import "testing"

// TestWeightsRead: DRAM traffic tells the size of servers that were measured, and never more than it is.
func TestWeightsRead(t *testing.T) {
	ps, err := LoadProfiles("../testdata/h200-colocation.json")
	if err != nil {
		t.Fatal(err)
	}
	for model, size := range map[string]float64{"1b": 2.47e9, "8b": 16.06e9} {
		s, err := ps.Solo(Server{Model: model}, Load{Concurrency: 1, Prompt: 128, Output: 64})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.WeightsRead(4.8e12); got < 0.75*size || got > size {
			t.Errorf("%s: %.3g bytes, it has %.3g", model, got, size)
		}
	}
}
