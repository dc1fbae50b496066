package predict

import (
	"math"
	"testing"

	"github.com/cotenant/cotenant/sharing"
)

func gpuNamed(t *testing.T, name string) *sharing.GPU {
	t.Helper()
	g, err := sharing.LookupGPU(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// An 8B server of 16 bits, 1000 tokens in and 11 out, by hand.
func TestFloor(t *testing.T) {
	l := Least{Weights: 16e9, KV: 1e9, Prompt: 2 * 8e9 * 1000, Width: 2, Output: 11}
	m := Machine{Bandwidth: 1e12, FLOPs: 100e12}
	prompt := 16e12 / (100e12 * boost)
	is := func(name string, sms, bandwidth, ttft, tpot float64) {
		t.Helper()
		got := m.Floor(Share{SMs: sms, Bandwidth: bandwidth}, l)
		for k, want := range [LatencyCount]float64{ttft, tpot, ttft + 10*tpot} {
			if math.Abs(got[k]-want) > 1e-12 {
				t.Errorf("%s: %s %v, want %v", name, LatencyName(k), got[k], want)
			}
		}
	}
	is("the whole GPU", 1, 1, prompt, 17e-3)
	is("a slice", 0.5, 0.125, 2*prompt, 8*17e-3)
	l.Width = 1
	is("8 bits", 1, 1, prompt/2, 17e-3)
	if got := (Machine{}).Floor(Share{SMs: 1, Bandwidth: 1}, l); got != [LatencyCount]float64{} {
		t.Errorf("a machine of which nothing is known: %v", got)
	}
	l.Width, l.Prompt = 0.5, 1e15
	if h100, b200 := MachineOf(gpuNamed(t, "H100-80GB")), MachineOf(gpuNamed(t, "B200")); h100.rate(0.5) != 2*h100.FLOPs || b200.rate(0.5) != 4*b200.FLOPs {
		t.Errorf("Hopper has no 4-bit rate, Blackwell has: %v, %v", h100.rate(0.5)/h100.FLOPs, b200.rate(0.5)/b200.FLOPs)
	}
}

// What was predicted too fast is lifted, percentile by percentile, and the rest stays.
func TestRaise(t *testing.T) {
	var p Prediction
	p.set(MetricTPOTP50, 5, 0.1)
	p.set(MetricTPOTP99, 50, 0.1)
	p.set(MetricTokensPerSecond, 1, 0.1)
	before := p
	p.Raise([LatencyCount]float64{LatencyTPOT: 0.02})
	if i, _ := p.Get(MetricTPOTP50); i != (Interval{20, 20, 20}) {
		t.Errorf("median %v", i)
	}
	if p.value[MetricTPOTP99] != before.value[MetricTPOTP99] || p.value[MetricTokensPerSecond] != before.value[MetricTokensPerSecond] {
		t.Errorf("%v became %v", before, p)
	}
}

// TestWeightsRead: DRAM traffic tells the size of servers that were measured, and
// never more than it is.
func TestWeightsRead(t *testing.T) {
	ps, err := LoadProfiles("../../examples/predict/testdata/h200-colocation.json")
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

// TestCarryOver: a slower GPU is slower, by what it has less of, and less surely so.
func TestCarryOver(t *testing.T) {
	p := &SoloProfile{}
	p.TTFT.P99, p.TPOT.P99, p.E2E.P99 = Some(10.0), Some(5.0), Some(400.0)
	h200, l4 := gpuNamed(t, "H200"), gpuNamed(t, "L4")
	same, sigma, ok := p.CarryOver(h200, h200, 2)
	if !ok || same != [LatencyCount]float64{0.01, 0.005, 0.4} || sigma != [LatencyCount]float64{} {
		t.Errorf("the same GPU: %v, %v", same, sigma)
	}
	there, sigma, ok := p.CarryOver(h200, l4, 2)
	if by := there[LatencyTPOT] / 0.005; !ok || by < 12 || by > 16 || sigma[LatencyTPOT] < 0.25 {
		t.Errorf("4800 over 300 GB/s make a token %.3g times as long, sigma %v", by, sigma)
	}
	if by := there[LatencyTTFT] / 0.01; by < 3 || by > 8 {
		t.Errorf("a prefill takes %.3g times as long", by)
	}
	if _, _, ok := p.CarryOver(h200, &sharing.GPU{Name: "unknown"}, 2); ok {
		t.Error("carried over to a GPU of which nothing is known")
	}
	if v := math.Abs(sigma[LatencyE2E]); v == 0 {
		t.Error("no wider")
	}
}
