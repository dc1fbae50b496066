package manifest

import (
	"math"
	"strconv"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// HAMiMode names the way in which HAMi gives a pod its share. The zero value is HAMiModeCore, HAMi's default.
type HAMiMode uint8

// The modes.
const (
	HAMiModeCore HAMiMode = iota // limits by the preloaded library
	HAMiModeMIG                  // a MIG instance that HAMi makes for the pod
	HAMiModeMPS                  // an MPS share
)

var hamiModes = enum.Of[HAMiMode](ErrInvalid, "HAMi mode", "hami-core", "mig", "mps")

// HAMiShare is a pod's request to HAMi or to Volcano's vGPU device plugin, whose
// enforcement is HAMi's. The zero value asks for one card and no limits.
type HAMiShare struct {
	Mode HAMiMode
	GPUs int // cards; 0 stands for 1
	// Memory of each card, in whole mebibytes (a rest is rounded up), or MemoryPercent of it, 1 to 100; not both.
	Memory        sharing.Bytes
	MemoryPercent int
	Cores         int    // percent of each card's compute, 1 to 100; 0 sets no limit
	LowPriority   bool   // HAMi: nvidia.com/priority 1
	GPUType       string // HAMi: cards whose name contains it
}

// Validate returns nil, or an error that matches ErrInvalid.
func (s HAMiShare) Validate() error {
	var l problem.List
	l.If(!hamiModes.Has(s.Mode), "mode", "use hami-core, mig or mps", "%v is not known", s.Mode)
	l.If(s.GPUs < 0, "gpus", "", "must be 1 or more, not %d", s.GPUs)
	l.If(s.Memory < 0, "memory", "", "must not be negative")
	l.If(s.MemoryPercent < 0 || s.MemoryPercent > 100, "memory_percent", "", "must be 1 to 100, not %d", s.MemoryPercent)
	l.If(s.Memory > 0 && s.MemoryPercent > 0, "memory_percent", "give one of them", "stands beside memory")
	l.If(s.Cores < 0 || s.Cores > 100, "cores", "", "must be 1 to 100, not %d", s.Cores)
	return l.Under(ErrInvalid)
}

// limits writes the amounts above 0 as a container's limits.
func limits(amounts map[string]int) map[string]string {
	out := map[string]string{}
	for name, n := range amounts {
		if n > 0 {
			out[name] = strconv.Itoa(n)
		}
	}
	return out
}

// HAMiResources returns the limits of the container for HAMi, by resource name.
func (s HAMiShare) HAMiResources() map[string]string {
	priority := 0
	if s.LowPriority {
		priority = 1
	}
	return limits(map[string]int{"nvidia.com/gpu": max(s.GPUs, 1), "nvidia.com/gpumem": int(wholeMiB(s.Memory)),
		"nvidia.com/gpumem-percentage": s.MemoryPercent, "nvidia.com/gpucores": s.Cores, "nvidia.com/priority": priority})
}

// HAMiAnnotations returns the annotations of the pod for HAMi.
func (s HAMiShare) HAMiAnnotations() map[string]string {
	out := map[string]string{"nvidia.com/vgpu-mode": s.Mode.String()}
	if s.GPUType != "" {
		out["nvidia.com/use-gputype"] = s.GPUType
	}
	return out
}

// VolcanoResources returns the limits of the container for Volcano's vGPU device plugin, by resource name.
func (s HAMiShare) VolcanoResources() map[string]string {
	return limits(map[string]int{"volcano.sh/vgpu-number": max(s.GPUs, 1),
		"volcano.sh/vgpu-memory":            int(wholeMiB(s.Memory)),
		"volcano.sh/vgpu-memory-percentage": s.MemoryPercent, "volcano.sh/vgpu-cores": s.Cores})
}

// VolcanoAnnotations returns the annotations of the pod for Volcano.
func (s HAMiShare) VolcanoAnnotations() map[string]string {
	return map[string]string{"volcano.sh/vgpu-mode": s.Mode.String()}
}

// share is the request of a workload under HAMi or Volcano.
func (m *member) share() HAMiShare {
	s := HAMiShare{GPUs: m.gpus(), Memory: m.memory, Cores: int(math.Ceil(m.percent))}
	if m.Mechanism == sharing.MechanismHAMiWithMPS {
		s.Mode = HAMiModeMPS
	}
	return s
}

// graphsWarning warns of a compute limit that HAMi does not hold.
func (b *builder) graphsWarning(m *member) {
	launches, known := m.framework().CUDAGraphs.Get()
	if m.percent == 0 || known && !launches {
		return
	}
	msg := "gpucores does not limit CUDA graphs; whether this workload launches them is not known (vLLM does by default)"
	if known {
		msg = "gpucores does not limit CUDA graphs, and this workload launches them"
	}
	b.warn(sharing.Warning{Code: WarnCUDAGraphs, Path: m.name, Source: "hami-core-graphs", Message: msg,
		Remedy: "do not count on the compute limit, or turn graphs off"})
}
