// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"errors"
	"fmt"
	"testing"
)

// A GPU that the table does not have is described by the figures of its driver.
func ExampleDescribeGPU() {
	text := DescribeGPU("NVIDIA GeForce RTX 4080", 16376*MiB, ComputeCapability{8, 9}, ArchitectureUnknown)
	gpu, err := LookupGPU(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(gpu.Name)
	fmt.Println(gpu.Architecture, "MIG:", gpu.MIG.Value)
	// Output:
	// GeForce RTX 4080 (16376MiB, 8.9)
	// ada MIG: no
}

func TestDescribedGPUs(t *testing.T) {
	for _, c := range []struct {
		text   string
		arch   Architecture
		mig    Answer
		memory Bytes
	}{
		{"Tesla P4 (7680MiB, 6.1)", ArchitecturePascal, AnswerNo, 7680 * MiB},
		{"NVIDIA GeForce RTX 4070 Ti (12282MiB, ada)", ArchitectureAda, AnswerNo, 12282 * MiB},
		{"RTX A5500 (24564MiB, 8.6)", ArchitectureAmpere, AnswerNo, 24564 * MiB},
		{"Orin (8.7)", ArchitectureAmpere, AnswerNo, 0},
		{"Thor Mini (61GiB, 11.0)", ArchitectureBlackwell, AnswerUnknown, 61 * GiB},
		{"NVIDIA B100 (183359MiB, 10.0)", ArchitectureBlackwell, AnswerUnknown, 183359 * MiB},
		{"RTX PRO 1000 Blackwell (8151MiB, blackwell)", ArchitectureBlackwell, AnswerUnknown, 8151 * MiB},
		{"VR300 (288GiB, 10.7)", ArchitectureRubin, AnswerUnknown, 288 * GiB},
		{"A10-12Q (12GiB, 8.6)", ArchitectureAmpere, AnswerNo, 12 * GiB},
	} {
		g, err := LookupGPU(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		again, err := LookupGPU(c.text)
		if memory, _ := g.Memory.Get(); g != again || err != nil || g.Architecture != c.arch || g.MIG.Value != c.mig || memory != c.memory || g.SMs.Value != 0 {
			t.Errorf("%s: %+v", c.text, g)
		}
	}
	// A board of the table stays the same, whatever the parentheses hold.
	if g, err := LookupGPU("NVIDIA A100-SXM4-80GB (80GiB, 8.0)"); err != nil || g.Name != "A100-SXM4-80GB" {
		t.Errorf("%v, %v", g, err)
	}
	for _, text := range []string{"Gizmo (fast)", "Gizmo ()", "Gizmo (8.9, 8GiB, x)", "AMD Instinct MI300X (192GiB, 9.0)", "(8GiB)", "Gizmo"} {
		var unknown *unknownGPUError
		if g, err := LookupGPU(text); !errors.As(err, &unknown) {
			t.Errorf("%s: %v, %v", text, g, err)
		}
	}
	if got := DescribeGPU("", GiB, ComputeCapability{}, ArchitectureUnknown) + DescribeGPU("Gizmo", 0, ComputeCapability{}, ArchitectureUnknown); got != "" {
		t.Error(got)
	}
}

// TestGPUDescription reads back the stated figures of a GPU, and refuses senseless ones.
func TestGPUDescription(t *testing.T) {
	d := GPUDescription{Name: "My Board", Memory: 61 * GiB, Bandwidth: 204.8, SMs: 16, Compute: "8.7"}
	g, err := LookupGPU(d.String())
	if err != nil || g.Memory.Value != 61*GiB || g.MemoryBandwidthGBps.Value != 204.8 || g.SMs.Value != 16 || g.Architecture != ArchitectureAmpere || g.MIG.Value != AnswerNo {
		t.Errorf("%s: %+v, %v", &d, g, err)
	}
	for _, bad := range []GPUDescription{{Name: "X", Memory: GiB, Bandwidth: -1, SMs: 16, Compute: "8.7"}, {Name: "X", Memory: GiB, Bandwidth: 1, SMs: 0, Compute: "8.7"}, {Name: "X", Memory: GiB, Bandwidth: 1, SMs: 1, Compute: "new"}} {
		if g, err := LookupGPU(bad.String()); err == nil {
			t.Errorf("%s is taken as %+v", &bad, g)
		}
	}
}
