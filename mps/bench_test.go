package mps

import (
	"context"
	"testing"
)

type recorder struct{ sent *[]string }

func (r recorder) Run(_ context.Context, in Invocation) (Output, error) {
	*r.sent = append(*r.sent, in.Stdin)
	return Output{}, nil
}

func BenchmarkSMs(b *testing.B) {
	for b.Loop() {
		if _, err := SMs(132, 33.3334); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClientEnvironment(b *testing.B) {
	e := ClientEnvironment{GPUs: []GPU{{UUID: "GPU-0"}}, ActiveThreadPercentage: 50, PinnedMemLimits: []DeviceLimit{{"0", 8 << 30}}}
	for b.Loop() {
		if _, err := e.Build(); err != nil {
			b.Fatal(err)
		}
	}
}
