package decision

import (
	"fmt"
	"math"

	"github.com/cotenant/cotenant/sharing"
)

// Code says what a reason is about. Codes are stable: their texts are part of
// the JSON output.
type Code uint8

// The codes.
const (
	CodeNone Code = iota
	CodePinnedElsewhere
	CodeNotAllowedInPool
	CodeTooManyGPUs
	CodeResearch
	CodeHardware
	CodeHardwareUnknown
	CodeNeedsVGPUHost
	CodeMIGMPSDelivery
	CodeNotAServer
	CodeOneReplica
	CodeMergeReplicas
	CodeGang
	CodeBusyUnknown
	CodeBusyPrior
	CodeSaturated
	CodeIsolation
	CodeIsolationUnknown
	CodeUntrusted
	CodeAlone
	CodeMultiGPU
	CodeHAMiBypass
	CodeNoMemoryFraction
	CodeMIGIsThere
	CodeKVPrior
	CodeMemoryUnknown
	CodeMemory
	CodeMemoryForTwo
	CodeBusyForTwo
	CodeProfilesUnknown
	CodeSliceSaturated
	CodeMemorySlice
	CodeSliceTooSmall
	CodeSliceFits
	CodeSliceLoad
	CodeSLOMissed
	CodeSLOOpen
	CodeSLOTurns
	CodeSLOUnmeasured
	CodePoolFull
	CodeFraction
	CodeSLOPredicted
	CodeSLOPredictedMiss
	CodeSLOPredictedOpen
	codeCount
)

// Reason is one gate's word on a candidate, as operands; [Reason.Text] puts it
// into words.
type Reason struct {
	Code      Code
	Mechanism sharing.Mechanism
	Verdict   Verdict
	A, B      int64
}

// ReasonText is a reason in words.
type ReasonText struct {
	Code    string           `json:"code"`
	Message string           `json:"message"`
	Source  sharing.SourceID `json:"source,omitempty"` // of what the reason rests on; none where that is the input
	// Verdict is what this reason alone would make of the candidate.
	Verdict Verdict `json:"verdict"`
}

// String returns the code's text, for example "memory-slice".
func (c Code) String() string {
	if c >= codeCount {
		return fmt.Sprintf("code-%d", c)
	}
	return reasons[c].name
}

// MarshalText returns the code's text.
func (c Code) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

type wording struct {
	name   string
	source sharing.SourceID
	text   func(r Reason, w *CompiledWorkload, p *CompiledPool) string
}

func fixed(s string) func(Reason, *CompiledWorkload, *CompiledPool) string {
	return func(Reason, *CompiledWorkload, *CompiledPool) string { return s }
}

func profileName(p *CompiledPool, i int64) string {
	if i < 0 || int(i) >= len(p.profiles) {
		return "a slice"
	}
	return p.profiles[i].profile.Name
}

func profileMemory(p *CompiledPool, i int64) sharing.Bytes {
	if i < 0 || int(i) >= len(p.profiles) {
		return 0
	}
	return p.profiles[i].memory
}

func pct(permille int64) string { return fmt.Sprintf("%.3g%%", float64(permille)/10) }

var sloNames = [...]string{"TTFT P99", "TPOT P99", "E2E P99"}

func sloName(i int64) string { return sloNames[min(max(i, 0), 2)] }

func (w *CompiledWorkload) needText(total int64) string {
	n := w.need
	if n.Weights == 0 {
		return sharing.Bytes(total).String()
	}
	return fmt.Sprintf("%s (weights %s, KV cache %s, contexts %s)", sharing.Bytes(total), n.Weights, n.KVCache, n.Context)
}

var reasons = [codeCount]wording{
	CodeNone: {"none", "", fixed("")},
	CodePinnedElsewhere: {"pinned-elsewhere", "", func(_ Reason, w *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("the workload is pinned to pool %s", w.workload.Pool)
	}},
	CodeNotAllowedInPool: {"not-allowed-in-pool", "", func(r Reason, _ *CompiledWorkload, p *CompiledPool) string {
		return fmt.Sprintf("pool %s does not allow %s", p.pool.Name, r.Mechanism)
	}},
	CodeTooManyGPUs: {"too-many-gpus", "", func(r Reason, _ *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("a replica needs %d GPUs and %d are together", r.A, r.B)
	}},
	CodeResearch: {"research-only", "cotenant-reading", fixed("no research system can be had as a supported product: single-framework, rewriting kernels, or needing a profile of each")},
	CodeHardware: {"hardware", "cotenant-reading", func(r Reason, _ *CompiledWorkload, p *CompiledPool) string {
		return p.available[r.Mechanism].Text
	}},
	CodeHardwareUnknown: {"hardware-unknown", "cotenant-reading", func(r Reason, _ *CompiledWorkload, p *CompiledPool) string {
		return p.available[r.Mechanism].Text + "; probe a GPU of the pool to settle it"
	}},
	CodeNeedsVGPUHost:  {"needs-vgpu-host", "nvidia-vgpu-guide", fixed("needs a hypervisor with the vGPU manager and licences; set vgpu: true on the pool once it has them")},
	CodeMIGMPSDelivery: {"mig-mps-delivery", "k8s-device-plugin", fixed("the device plugin refuses MPS on MIG devices; deliver by DRA with static MIG (delivery: dra)")},
	CodeNotAServer:     {"not-a-server", "cotenant-reading", fixed("only a model server can multiplex its own requests")},
	CodeOneReplica:     {"one-replica", "cotenant-reading", fixed("one replica multiplexes its own requests already")},
	CodeMergeReplicas: {"merge-replicas", "cotenant-reading", func(r Reason, _ *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("if the %d replicas serve one model, one server with continuous batching (or one adapter each) takes their place: merge them", r.A)
	}},
	CodeGang:        {"gang", "asleekgeek-sharing", fixed("distributed training runs on whole GPUs: its slowest member sets the pace, so schedule it as a gang and do not share")},
	CodeBusyUnknown: {"busy-unknown", "nvidia-nvml-api-utilization", fixed("gpu_busy is not stated; measure SM activity alone on the GPU (not NVML utilisation) and state it")},
	CodeBusyPrior: {"busy-prior", "alibaba-genai-trace", func(r Reason, w *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("gpu_busy is not stated; %s is assumed for a %s (prior)", pct(r.A), w.workload.Kind)
	}},
	CodeSaturated: {"saturated", "nvidia-mps-guide", func(r Reason, w *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("one replica keeps %s of the GPU busy; from %s on sharing only makes %s slower", pct(r.A), pct(r.B), w.workload.Kind)
	}},
	CodeIsolation: {"isolation", "cotenant-reading", func(r Reason, _ *CompiledWorkload, p *CompiledPool) string {
		prop := &p.isolation[r.Mechanism][sharing.Axis(r.A)]
		return fmt.Sprintf("%s isolation must be %s and is %s: %s", sharing.Axis(r.A), sharing.Level(r.B), prop.Level, prop.Text)
	}},
	CodeIsolationUnknown: {"isolation-unknown", "cotenant-reading", func(r Reason, _ *CompiledWorkload, p *CompiledPool) string {
		prop := &p.isolation[r.Mechanism][sharing.Axis(r.A)]
		return fmt.Sprintf("%s isolation must be %s and no source says what it is here: %s", sharing.Axis(r.A), sharing.Level(r.B), prop.Text)
	}},
	CodeUntrusted: {"untrusted", "nvidia-gpu-operator-sharing", func(r Reason, _ *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("all %d possible neighbours belong to tenants that it does not trust, or that do not trust it; untrusted tenants never share by %s alone", r.A, r.Mechanism)
	}},
	CodeAlone: {"alone", "", fixed("there is no other replica to share a GPU with")},
	CodeMultiGPU: {"multi-gpu", "nvidia-mig-guide-deployment", func(r Reason, _ *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("a replica spans %d GPUs, and shares or slices of them cannot be relied on to lie on different GPUs or to reach one another", r.A)
	}},
	CodeHAMiBypass:       {"hami-bypass", "hami-core", fixed("a privileged container or statically linked driver calls get round the preloaded library; drop privileged and static linking")},
	CodeNoMemoryFraction: {"no-memory-fraction", "jabrayilov-gpushare", fixed("emulation needs a framework with a memory fraction (vllm, tgi, sglang)")},
	CodeMIGIsThere:       {"mig-is-there", "jabrayilov-gpushare", fixed("this GPU has MIG: emulation is for GPUs without")},
	CodeKVPrior: {"kv-cache-prior", "lucaberton-sharing", func(r Reason, _ *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("model.kv_cache is not stated; %s is assumed (prior)", sharing.Bytes(r.A))
	}},
	CodeMemoryUnknown: {"memory-unknown", "cotenant-mig-catalogue", func(r Reason, _ *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("needs %s, and no source gives the memory that is there; read it from the device", sharing.Bytes(r.A))
	}},
	CodeMemory: {"memory", "cotenant-mig-catalogue", func(r Reason, w *CompiledWorkload, p *CompiledPool) string {
		return fmt.Sprintf("needs %s and a %s has %s", w.needText(r.A), p.gpu.Name, sharing.Bytes(r.B))
	}},
	CodeMemoryForTwo: {"memory-for-two", "k8s-device-plugin", func(r Reason, w *CompiledWorkload, p *CompiledPool) string {
		return fmt.Sprintf("needs %s, so no second one fits the %s of a %s: memory is not divided by sharing", w.needText(r.A), sharing.Bytes(r.B), p.gpu.Name)
	}},
	CodeBusyForTwo: {"busy-for-two", "nvidia-mps-guide", func(r Reason, _ *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("two replicas of %s each want more than the %s of a GPU that is to be had", pct(r.A), pct(r.B))
	}},
	CodeProfilesUnknown: {"profiles-unknown", "cotenant-mig-catalogue", fixed("no source gives this GPU's MIG profiles and placements; read them from the device")},
	CodeSliceSaturated: {"slice-saturated", "nos-gpu-sharing", func(r Reason, _ *CompiledWorkload, p *CompiledPool) string {
		return fmt.Sprintf("work that keeps %s of a whole GPU busy is more than a slice does, even %s (prior: 3.88 times slower on 1g of an A100)", pct(r.A), profileName(p, r.B))
	}},
	CodeMemorySlice: {"memory-slice", "cotenant-mig-catalogue", func(r Reason, w *CompiledWorkload, p *CompiledPool) string {
		return fmt.Sprintf("needs %s and the largest slice, %s, has %s", w.needText(r.A), profileName(p, r.B), profileMemory(p, r.B))
	}},
	CodeSliceTooSmall: {"slice-too-small", "cotenant-mig-catalogue", func(r Reason, w *CompiledWorkload, p *CompiledPool) string {
		return fmt.Sprintf("does not fit the memory of %s: needs %s and it has %s", profileName(p, r.B), w.needText(r.A), profileMemory(p, r.B))
	}},
	CodeSliceFits: {"slice-fits", "cotenant-mig-catalogue", func(r Reason, w *CompiledWorkload, p *CompiledPool) string {
		return fmt.Sprintf("fits %s (%s), of which %d stand on an empty GPU", profileName(p, r.B), profileMemory(p, r.B), p.profiles[r.B].capacity)
	}},
	CodeSliceLoad: {"slice-load", "nos-gpu-sharing", func(r Reason, _ *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("will keep the slice %s busy, if it runs %.2f times slower there as YOLOS-small on A100 slices does (prior); measure it", pct(r.A), float64(r.B)/100)
	}},
	CodeSLOMissed: {"slo-missed", "kleinrock-processor-sharing", func(r Reason, w *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("%s is at least %.4g ms here and may be %.4g ms", sloName(r.A), float64(r.B)/1e3, w.slo[r.A]*1e3)
	}},
	CodeSLOOpen: {"slo-open", "cotenant-h200-colocation", func(r Reason, w *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("%s may be as high as %.4g ms against a limit of %.4g ms; measure it beside its neighbours", sloName(r.A), float64(r.B)/1e3, w.slo[r.A]*1e3)
	}},
	CodeSLOTurns: {"slo-turns", "cotenant-h200-quantum", fixed("tenants take turns at the GPU, milliseconds each: a latency objective is not kept unless measured figures prove it")},
	CodeSLOUnmeasured: {"slo-unmeasured", "cotenant-reading", func(r Reason, _ *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("no latency was given for it alone (solo:), so the objective is not checked with %d on a GPU; measure before roll-out", r.A)
	}},
	CodeFraction: {"memory-fraction", "dynamo-mps-limits", func(r Reason, w *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("a memory fraction of %.2f leaves %s of %s to %s, which needs %s: the written configuration raises it to %.2f",
			*w.workload.Framework.MemoryFraction, sharing.Bytes(*w.workload.Framework.MemoryFraction*float64(r.B)), sharing.Bytes(r.B), w.workload.Framework.Name,
			sharing.Bytes(r.A), math.Ceil(100*float64(r.A)/float64(r.B))/100)
	}},
	CodeSLOPredicted: {"slo-predicted", "cotenant-interference-model", fixed("its objectives are judged by a prediction from its measured profile beside the neighbours it is given")},
	CodeSLOPredictedMiss: {"slo-predicted-miss", "cotenant-interference-model", func(r Reason, w *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("even with one neighbour %s is predicted above its limit of %.4g ms (90%% interval up to %.4g ms)", sloName(r.A), w.slo[r.A]*1e3, float64(r.B)/1e3)
	}},
	CodeSLOPredictedOpen: {"slo-predicted-open", "cotenant-interference-model", func(r Reason, w *CompiledWorkload, _ *CompiledPool) string {
		return fmt.Sprintf("with one neighbour the 90%% interval of %s reaches to %.4g ms and holds the limit of %.4g ms: measure the pair to settle it", sloName(r.A), float64(r.B)/1e3, w.slo[r.A]*1e3)
	}},
	CodePoolFull: {"pool-full", "", func(r Reason, _ *CompiledWorkload, p *CompiledPool) string {
		return fmt.Sprintf("pool %s has %d GPUs and would need %d", p.pool.Name, r.B, r.A)
	}},
}

// Text puts the reason into words for the workload and pool that it was given
// for. The source is that of the statement the gate rests on.
func (r Reason) Text(w *CompiledWorkload, p *CompiledPool) ReasonText {
	if r.Code >= codeCount {
		return ReasonText{Code: r.Code.String()}
	}
	def := &reasons[r.Code]
	t := ReasonText{Code: def.name, Message: def.text(r, w, p), Source: def.source, Verdict: r.Verdict}
	switch r.Code {
	case CodeIsolation, CodeIsolationUnknown:
		if s := p.isolation[r.Mechanism][sharing.Axis(r.A)].Source; s != "" {
			t.Source = s
		}
	case CodeHardware, CodeHardwareUnknown:
		if s := p.available[r.Mechanism].Source; s != "" {
			t.Source = s
		}
	}
	return t
}
