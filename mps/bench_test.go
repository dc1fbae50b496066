package mps

import (
	"context"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
)

type recorder struct{ sent *[]string }

func (r recorder) Run(_ context.Context, in Invocation) (Output, error) {
	*r.sent = append(*r.sent, in.Stdin)
	return Output{}, nil
}

func BenchmarkSMs(b *testing.B) {
	for b.Loop() {
		must.Get(SMs(132, 33.3334))(b)
	}
}

func BenchmarkClientEnvironment(b *testing.B) {
	e := ClientEnvironment{GPUs: []GPU{{UUID: "GPU-0"}}, ActiveThreadPercentage: 50, PinnedMemLimits: []DeviceLimit{{"0", 8 << 30}}}
	for b.Loop() {
		must.Get(e.Build())(b)
	}
}
