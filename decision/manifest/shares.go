package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/sharing/driverconf"
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
	b.warn(WarnCUDAGraphs, m.name, "hami-core-graphs", "do not count on the compute limit, or turn graphs off", "%s", msg)
}

// HAMiGPU is a GPU as the device plugins of HAMi and Volcano register it in an annotation of its node.
type HAMiGPU struct {
	ID      string `json:"id"`
	Count   int    `json:"count"`   // pods that may share it
	Memory  int64  `json:"devmem"`  // MiB, scaled
	Cores   int    `json:"devcore"` // percent; 0 where it is not said
	Type    string `json:"type"`
	Mode    string `json:"mode"` // hami-core, mps, mig; empty where it is not said
	Healthy *bool  `json:"health"`
}

// ParseHAMiRegister reads such an annotation: a JSON list (HAMi since 2.5), or GPUs divided by colons and their
// fields by commas. HAMi before 2.5 has seven fields of a GPU, or nine with its index and mode, and its first
// version six; Volcano has five, or six with the mode. The GPUs before one that cannot be read are returned beside
// the error. Values are not judged, only read.
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

// KAIMode names the way in which a cluster's KAI scheduler shares GPUs: global.gpuSharingMode of its chart from
// 0.18. The zero value is KAIModeNotEnforced, the default there and all that versions before 0.17 have.
type KAIMode uint8

// The modes, with KAI's names.
const (
	KAIModeNotEnforced KAIMode = iota // NonMemoryEnforced: KAI places by the share and enforces none of it
	KAIModeHAMiCore                   // HamiCore: HAMi-core holds the memory; in 0.17 the binder's plugin hamicore
	KAIModeNvFractions                // NvFractions, from 0.18: the driver holds the memory, and compute has a mode
)

var kaiModes = enum.Of[KAIMode](ErrInvalid, "KAI mode", "NonMemoryEnforced", "HamiCore", "NvFractions")

// KAIShare is a pod's request to the KAI scheduler for a part of a GPU. The pod
// must not ask for nvidia.com/gpu besides.
type KAIShare struct {
	Mode KAIMode
	// Memory, in whole mebibytes (a rest is rounded up), or Fraction of a GPU's memory, above 0 and below 1; not both.
	Memory   sharing.Bytes
	Fraction float64
	// Limit is up to where the container may grow while memory is free, at
	// least Memory; 0 stands for Memory. Only KAIModeNvFractions has it.
	Limit sharing.Bytes
	// SMSharing runs the container's kernels beside those of others, through
	// MPS, instead of in turn with them. Only KAIModeNvFractions has it.
	SMSharing bool
	GPUs      int    // on so many GPUs at once; 0 stands for 1
	Container string // the one that gets the GPU; "" is the first, where KAI lets it be left out
}

// maxContainer bounds a container's name within an annotation's key,
// of which Kubernetes allows 63 characters: container.NAME.gpu-memory.request.
const maxContainer = 63 - len("container.") - len(".gpu-memory.request")

// Validate returns nil, or an error that matches ErrInvalid. The rules are those of KAI's admission.
func (s KAIShare) Validate() error {
	var l problem.List
	l.If(!kaiModes.Has(s.Mode), "mode", "", "%v is not known", s.Mode)
	l.If(s.Memory < 0, "memory", "", "must not be negative")
	l.If(s.Memory > 0 && s.Fraction != 0, "fraction", "give one of them", "stands beside memory")
	l.If(s.Memory <= 0 && !(s.Fraction > 0 && s.Fraction < 1), "fraction",
		"ask for a whole GPU by nvidia.com/gpu, or give memory", "a part of a GPU lies between 0 and 1; %v does not",
		s.Fraction)
	l.If(s.GPUs < 0, "gpus", "", "must be 1 or more, not %d", s.GPUs)
	if s.Mode == KAIModeNvFractions {
		l.If(s.Limit != 0 && s.Limit < s.Memory, "limit", "", "lies below memory")
		l.If(s.Limit > 0 && s.Memory <= 0, "limit", "give memory too", "a limit needs a request of memory")
		named := s.Memory > 0 || s.SMSharing // the container's name stands in the key
		l.If(named && s.Container == "", "container", "", "the container must be named")
		l.If(len(s.Container) > maxContainer, "container", fmt.Sprintf("give the container a name of at most %d characters",
			maxContainer), "%q makes the annotation's key too long", s.Container)
	} else {
		l.If(s.Limit != 0, "limit", "install KAI 0.18 in mode NvFractions", "%v has no limit beside the request", s.Mode)
		l.If(s.SMSharing, "sm_sharing", "install KAI 0.18 in mode NvFractions", "%v has no compute mode", s.Mode)
	}
	return invalid(l.Err())
}

// Annotations returns the annotations of the pod. Of a share that Validate refuses they mean nothing.
func (s KAIShare) Annotations() map[string]string {
	out := map[string]string{}
	key := "nvidia.com/container." + s.Container
	switch {
	case s.Fraction > 0:
		out["gpu-fraction"] = formatFloat(s.Fraction)
	case s.Mode == KAIModeNvFractions:
		out[key+".gpu-memory.request"] = mebibytes(s.Memory)
		out[key+".gpu-memory.limit"] = mebibytes(max(s.Memory, s.Limit))
	default:
		out["gpu-memory"] = strconv.FormatInt(wholeMiB(s.Memory), 10)
	}
	if s.Mode == KAIModeNvFractions && s.SMSharing {
		out[key+".gpu-compute.mode"] = "sm-sharing"
	}
	if _, legacy := out[key+".gpu-memory.request"]; !legacy && s.Container != "" {
		out["gpu-fraction-container-name"] = s.Container
	}
	if s.GPUs > 1 {
		out["gpu-fraction-num-devices"] = strconv.Itoa(s.GPUs)
	}
	return out
}

func wholeMiB(b sharing.Bytes) int64 { return int64((b + sharing.MiB - 1) / sharing.MiB) }

func mebibytes(b sharing.Bytes) string { return strconv.FormatInt(wholeMiB(b), 10) + "Mi" }

// can reports whether a delivery delivers a mechanism here; for KAI that depends on its mode.
func (b *builder) can(d sharing.Delivery, m sharing.Mechanism) bool {
	if d == sharing.DeliveryKAI && m == sharing.MechanismMPS {
		return b.opts.KAIMode == KAIModeNvFractions
	}
	return sharing.Delivers(d, m).Answer == sharing.AnswerYes
}

// kaiPod is the workload as KAI places it: on a part of a GPU, or on whole ones.
func (b *builder) kaiPod(p *pod, m *member) error {
	p.scheduler, p.queue = "kai-scheduler", b.opts.KAIQueue
	if !shared(m.Mechanism) {
		p.limits = map[string]string{driverconf.GPU: strconv.Itoa(m.gpus())}
		return nil
	}
	p.header = append(p.header, "For nodes whose device plugin replicates nothing: KAI divides whole GPUs.")
	s := KAIShare{Mode: b.opts.KAIMode, Memory: m.memory, Container: m.container(), GPUs: m.gpus(),
		SMSharing: usesMPS(m.Mechanism)}
	switch s.Mode {
	case KAIModeHAMiCore:
		p.header = append(p.header, "Needs KAI 0.18 in mode HamiCore, or 0.17 with the binder's plugin hamicore, and "+
			"kai-resource-isolator.",
			"HAMi-core holds the memory, which KAI rounds to a hundredth of the GPU's.")
	case KAIModeNvFractions:
		p.header = append(p.header, "Needs KAI 0.18 in mode NvFractions: GPU Operator 26.7.1, driver r615, a runtime with "+
			"NRI.",
			"The driver ends a container that takes more than its limit.")
		p.env = nil // the mode sets the clients' limits itself
	default:
		b.warn(WarnNotEnforced, m.name, "kai-gpu-sharing",
			"trust the tenants, or install KAI 0.18 in mode NvFractions or HamiCore [kai-gpu-sharing-modes] and say so",
			"KAI places the pod by this share and enforces none of it, as all versions before 0.17 and later ones in mode "+
				"NonMemoryEnforced, their default")
	}
	if err := s.Validate(); err != nil {
		return err
	}
	p.annotations = s.Annotations()
	return nil
}
