// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
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

// HAMiGPU is a GPU as the device plugins of HAMi and Volcano register it in an annotation of its node.
type HAMiGPU struct {
	ID      string `json:"id"`
	Count   int    `json:"count"`   // pods that may share it
	Memory  int64  `json:"devmem"`  // MiB, scaled
	Cores   int    `json:"devcore"` // percent; 0 where it is not given
	Type    string `json:"type"`
	Mode    string `json:"mode"` // hami-core, mps, mig; empty where it is not given
	Healthy *bool  `json:"health"`
}

// ParseHAMiRegister reads such an annotation: a JSON list (HAMi since 2.5), or GPUs divided by colons and their
// fields by commas. HAMi before 2.5 has seven fields of a GPU, or nine with its index and mode, and its first
// version six; Volcano has five, or six with the mode. The GPUs before one that cannot be read are returned with the
// error. Values are not checked.
func ParseHAMiRegister(text string) ([]HAMiGPU, error) {
	var out []HAMiGPU
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			return nil, fmt.Errorf("it is no list of devices: %w", err)
		}
		return out, nil
	}
	for part := range strings.SplitSeq(text, ":") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		f := strings.Split(part, ",")
		if len(f) < 5 {
			return out, fmt.Errorf("%.60q has %d fields; at least five belong there", part, len(f))
		}
		d := HAMiGPU{ID: f[0]}
		var errs [4]error
		d.Count, errs[0] = strconv.Atoi(f[1])
		d.Memory, errs[1] = strconv.ParseInt(f[2], 10, 64)
		cores, noCores := strconv.Atoi(f[3])
		var health string
		switch {
		case len(f) >= 7:
			d.Cores, d.Type, health, errs[2] = cores, f[4], f[6], noCores
			if len(f) >= 9 {
				d.Mode = f[8]
			}
		case len(f) == 6 && noCores == nil:
			d.Cores, d.Type, health = cores, f[4], f[5]
		default:
			d.Type, health = f[3], f[4]
			if len(f) == 6 {
				d.Mode = f[5]
			}
		}
		healthy, err := strconv.ParseBool(health)
		d.Healthy, errs[3] = &healthy, err
		if err := errors.Join(errs[:]...); err != nil {
			return out, fmt.Errorf("%.60q: %w", part, err)
		}
		out = append(out, d)
	}
	return out, nil
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
