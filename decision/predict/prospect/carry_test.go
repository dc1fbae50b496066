package prospect

import (
	"math"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/costs"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

func gpuRow(t *testing.T, name string) *sharing.GPU {
	t.Helper()
	g, err := sharing.LookupGPU(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestCarryOver: a slower GPU is slower, by what it has less of, and less surely so.
func TestCarryOver(t *testing.T) {
	p := &profile.SoloProfile{}
	p.TTFT.P99, p.TPOT.P99, p.E2E.P99 = profile.Some(10.0), profile.Some(5.0), profile.Some(400.0)
	h200, l4 := gpuRow(t, "H200"), gpuRow(t, "L4")
	same, sigma, ok := CarryOver(p, h200, h200, 2)
	if !ok || same != [costs.LatencyCount]float64{0.01, 0.005, 0.4} || sigma != [costs.LatencyCount]float64{} {
		t.Errorf("the same GPU: %v, %v", same, sigma)
	}
	there, sigma, ok := CarryOver(p, h200, l4, 2)
	if by := there[costs.LatencyTPOT] / 0.005; !ok || by < 12 || by > 16 || sigma[costs.LatencyTPOT] < 0.25 {
		t.Errorf("4800 over 300 GB/s make a token %.3g times as long, sigma %v", by, sigma)
	}
	if by := there[costs.LatencyTTFT] / 0.01; by < 3 || by > 8 {
		t.Errorf("a prefill takes %.3g times as long", by)
	}
	if _, _, ok := CarryOver(p, h200, &sharing.GPU{Name: "unknown"}, 2); ok {
		t.Error("carried over to a GPU of which nothing is known")
	}
	if v := math.Abs(sigma[costs.LatencyE2E]); v == 0 {
		t.Error("no wider")
	}
}
