// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestSyntheticTrace draws the embedded trace again. It is made up: five kinds
// of node of which some are short of CPU, and tasks that ask for shares, whole
// GPUs, several GPUs, one GPU model, or none.
func TestSyntheticTrace(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("sn,cpu_milli,memory_mib,gpu,model\n")
	n := 0
	for _, k := range []struct {
		count, cpu, gib, gpus int
		model                 string
	}{{8, 96000, 768, 8, "A100"}, {4, 192000, 1024, 8, "H100"}, {10, 48000, 192, 4, "L4"}, {12, 64000, 256, 2, "T4"}, {4, 16000, 64, 2, "V100"}} {
		for range k.count {
			fmt.Fprintf(&b, "node-%02d,%d,%d,%d,%s\n", n, k.cpu, 1024*k.gib, k.gpus, k.model)
			n++
		}
	}
	if b.String() != syntheticNodes {
		t.Errorf("builtin/nodes.csv is not\n%s", b.String())
	}

	b.Reset()
	b.WriteString("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n")
	rng := rand.New(rand.NewPCG(2026, 7))
	pick := func(of ...int) int { return of[rng.IntN(len(of))] }
	for i := range 160 {
		cpu, mem, gpus, milli, spec := 1000*pick(2, 4, 8), 1024*pick(4, 8, 16), 1, 1000, ""
		switch x := rng.IntN(100); {
		case x < 45: // an inference server or a notebook
			milli = pick(100, 200, 250, 300, 300, 400, 400, 600, 700)
		case x < 75: // a whole GPU
			cpu, mem = 1000*pick(4, 8, 12, 16, 24), 1024*pick(16, 32, 64)
		case x < 85: // training
			gpus = pick(2, 2, 4, 8)
			cpu, mem = 8000*gpus, 1024*32*gpus
		case x < 92: // preprocessing
			cpu, mem, gpus, milli = 1000*pick(8, 16, 32), 1024*pick(16, 64), 0, 0
		default: // built for one model
			spec = [...]string{"T4", "A100|H100", "L4", "V100"}[rng.IntN(4)]
			milli = pick(200, 500, 1000)
		}
		fmt.Fprintf(&b, "task-%03d,%d,%d,%d,%d,%s\n", i, cpu, mem, gpus, milli, spec)
	}
	if b.String() != syntheticTasks {
		t.Errorf("builtin/tasks.csv is not\n%s", b.String())
	}
}
