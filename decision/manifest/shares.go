// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"math"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// share requests the workload's part of a card from HAMi, or from Volcano's vGPU device plugin, which enforces it by
// HAMi's library.
func (m *member) share(p *pod, d sharing.Delivery) {
	number, memory, cores, mode := "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/vgpu-mode"
	if d == sharing.DeliveryVolcano {
		p.Scheduler = "volcano"
		number, memory, cores, mode = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores",
			"volcano.sh/vgpu-mode"
	}
	switch {
	case m.Mechanism == sharing.MechanismHAMiWithMPS:
		p.Annotations = map[string]string{mode: "mps"}
	case usesMIG(m.Mechanism):
		p.Annotations = map[string]string{mode: "mig"}
	case usesHAMi(m.Mechanism):
		p.Annotations = map[string]string{mode: "hami-core"}
	}
	p.Limits = map[string]string{number: strconv.Itoa(m.gpus())}
	if m.memory > 0 {
		p.Limits[memory] = strconv.FormatInt(int64(m.memory/sharing.MiB), 10)
	}
	if m.percent > 0 {
		p.Limits[cores] = formatFloat(math.Ceil(m.percent))
	}
}

// graphsWarning warns of a compute limit that HAMi does not hold.
func (b *builder) graphsWarning(m *member) {
	launches, known := m.framework().CUDAGraphs.Get()
	if m.percent == 0 || known && !launches {
		return
	}
	id := "cuda-graphs/perhaps"
	if known {
		id = "cuda-graphs"
	}
	b.warn(id, m.name)
}

func mebibytes(b sharing.Bytes) string { return strconv.FormatInt(int64(b/sharing.MiB), 10) + "Mi" }

// kaiPod is the workload as KAI places it: on a part of a GPU, or on whole ones.
func (b *builder) kaiPod(p *pod, m *member) error {
	p.Scheduler = "kai-scheduler"
	if !shared(m.Mechanism) {
		p.Limits = map[string]string{gpuResource: strconv.Itoa(m.gpus())}
		return nil
	}
	p.header = append(p.header, "For nodes whose device plugin replicates nothing: KAI divides whole GPUs. Add the label",
		"kai.scheduler/queue with the name of the team's queue.")
	b.warn("not-enforced", m.name)
	p.Annotations = map[string]string{"gpu-memory": strings.TrimSuffix(mebibytes(m.memory), "Mi"),
		"gpu-fraction-container-name": m.name}
	var l problem.List
	l.If(m.memory == 0, m.at, "state its memory", "a part of a GPU is a part of its memory, which is not known")
	return l.Err()
}
