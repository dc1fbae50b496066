package gate

import (
	"fmt"
	"math"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// word holds the sentence of a code.
type word struct {
	name   string
	source sharing.SourceID
	scope  Scope
	text   func(r *Reason) string
}

func fixed(s string) func(*Reason) string { return func(*Reason) string { return s } }

// words holds every code's text, in the order of the codes.
var words = [codeCount]word{
	CodeFits: {"fits", "cotenant-reading", ScopeKind, func(r *Reason) string {
		if r.ground != nil {
			return "no gate speaks against it"
		}
		return "it fits"
	}},
	CodeCPU: {"cpu", "", ScopeLeft, func(r *Reason) string {
		return fmt.Sprintf("needs %dm CPU, %dm are free", r.Need, r.Have)
	}},
	CodeMemory: {"memory", "cotenant-mig-catalogue", ScopeLeft, func(r *Reason) string {
		return fmt.Sprintf("needs %v of memory, %v are free", sharing.Bytes(r.Need), sharing.Bytes(r.Have))
	}},
	CodeModel: {"model", "", ScopeKind, fixed("the GPU's model is not among those asked for")},
	CodeGPUCount: {"gpu-count", "", ScopeLeft, func(r *Reason) string {
		if r.ground != nil {
			return fmt.Sprintf("a replica needs %d GPUs and %d are together%s", r.Need, r.Have, r.overNodes())
		}
		return fmt.Sprintf("needs %d GPUs with one mechanism, %d would do", r.Need, r.Have)
	}},
	CodePinnedElsewhere: {"pinned-elsewhere", "", ScopeKind, func(r *Reason) string {
		return fmt.Sprintf("the workload is pinned to pool %s", r.about().Pool)
	}},
	CodeNotAllowedInPool: {"not-allowed-in-pool", "", ScopeChoice, func(r *Reason) string {
		return fmt.Sprintf("pool %s does not allow %s", r.on().name, r.Mechanism)
	}},
	CodeNotDelivered: {"not-delivered", "cotenant-reading", ScopeChoice, func(r *Reason) string {
		g := r.on()
		if g.delivery == sharing.DeliveryBare {
			return fmt.Sprintf("pool %s states no delivery that carries out %s; state it once it is installed, or list the "+
				"mechanism", g.name, r.Mechanism)
		}
		return fmt.Sprintf("delivery %s of pool %s does not carry out %s: %s", g.delivery, g.name, r.Mechanism,
			sharing.Delivers(g.delivery, r.Mechanism).Text)
	}},
	CodeResearch: {"research-only", "cotenant-reading", ScopeKind,
		fixed("no research system can be had as a supported product: single-framework, rewriting kernels, or needing a " +
			"profile of each")},
	CodeHardware: {"hardware", "cotenant-reading", ScopeChoice, func(r *Reason) string {
		return r.on().available[r.Mechanism].Text
	}},
	CodeHardwareUnknown: {"hardware-unknown", "cotenant-reading", ScopeChoice, func(r *Reason) string {
		return r.on().available[r.Mechanism].Text + "; probe a GPU of the pool to settle it"
	}},
	CodeNeedsVGPUHost: {"needs-vgpu-host", "nvidia-vgpu-guide", ScopeChoice,
		fixed("needs a hypervisor with the vGPU manager and licences; set vgpu: true on the pool once it has them")},
	CodeNoEncoder: {"no-encoder", "cotenant-mig-catalogue", ScopeKind,
		fixed("the workload uses video encoders (nvenc_busy), and this GPU has none")},
	CodeMIGMPSDelivery: {"mig-mps-delivery", "k8s-device-plugin", ScopeChoice,
		fixed("the device plugin refuses MPS on MIG devices; deliver by DRA with static MIG (delivery: dra)")},
	CodeMIGMode: {"mig-mode", "", ScopeKind, fixed("the GPU is in MIG mode: ask for a profile")},
	CodeNotMIG:  {"not-mig", "", ScopeKind, fixed("a MIG instance is asked for and the GPU is not in MIG mode")},
	CodeProfile: {"profile", "", ScopeKind, fixed("the GPU has no such MIG profile")},
	CodeNoMechanism: {"no-mechanism", "", ScopeKind,
		fixed("the GPU runs no sharing mechanism yet and the request names none")},
	CodeMechanism: {"mechanism", "", ScopeKind, fixed("the GPU runs a mechanism that the request does not accept")},
	CodeNotAServer: {"not-a-server", "cotenant-reading", ScopeKind,
		fixed("only a model server can multiplex its own requests")},
	CodeOneReplica: {"one-replica", "cotenant-reading", ScopeEmpty,
		fixed("one replica multiplexes its own requests already")},
	CodeMergeReplicas: {"merge-replicas", "cotenant-reading", ScopeEmpty, func(r *Reason) string {
		return fmt.Sprintf("if the %d replicas serve one model, one server with continuous batching (or one adapter each) "+
			"takes their place: merge them", r.Have)
	}},
	CodeGang: {"gang", "asleekgeek-sharing", ScopeKind,
		fixed("distributed training runs on whole GPUs: its slowest member sets the pace, so schedule it as a gang and do " +
			"not share")},
	CodeBusyUnknown: {"busy-unknown", "nvidia-nvml-api-utilization", ScopeKind,
		fixed("gpu_busy is not stated; measure SM activity alone on the GPU (not NVML utilisation) and state it")},
	CodeBusyPrior: {"busy-prior", "alibaba-genai-trace", ScopeKind, func(r *Reason) string {
		return fmt.Sprintf("gpu_busy is not stated; %s is assumed for its kind, %s (prior)", share(r.Have), r.about().Kind)
	}},
	CodeSaturated: {"saturated", "nvidia-mps-guide", ScopeKind, func(r *Reason) string {
		return fmt.Sprintf("one replica keeps %s of the GPU busy; from %s on sharing only makes %s slower", share(r.Have),
			share(r.Need), r.about().Kind)
	}},
	CodeIsolation: {"isolation", "cotenant-reading", ScopeKind, func(r *Reason) string {
		prop := &r.on().isolation[r.Mechanism][r.Axis]
		return fmt.Sprintf("%s isolation must be %s and is %s: %s", r.Axis, r.Level, prop.Level, prop.Text)
	}},
	CodeWeaker: {"weaker-than-today", "cotenant-reading", ScopeKind, func(r *Reason) string {
		return fmt.Sprintf("%s isolation is %s today under %s and would be %s; today.may_weaken: true allows it", r.Axis,
			r.Level, r.about().Today, r.on().isolation[r.Mechanism][r.Axis].Level)
	}},
	CodeIsolationUnknown: {"isolation-unknown", "cotenant-reading", ScopeKind, func(r *Reason) string {
		return fmt.Sprintf("%s isolation must be %s and no source says what it is here: %s", r.Axis, r.Level,
			r.on().isolation[r.Mechanism][r.Axis].Text)
	}},
	CodeUntrusted: {"untrusted", "nvidia-gpu-operator-sharing", ScopeEmpty, func(r *Reason) string {
		return fmt.Sprintf("all %d possible neighbours belong to tenants that it does not trust, or that do not trust it; "+
			"untrusted tenants never share by %s alone", r.Have, r.Mechanism)
	}},
	CodeAlone: {"alone", "", ScopeEmpty, fixed("there is no other replica to share a GPU with")},
	CodeMultiGPU: {"multi-gpu", "nvidia-mig-guide-deployment", ScopeKind, func(r *Reason) string {
		return fmt.Sprintf("a replica spans %d GPUs, and shares or slices of them cannot be relied on to lie on different "+
			"GPUs or to reach one another", r.Need)
	}},
	CodeHAMiBypass: {"hami-bypass", "hami-core", ScopeKind,
		fixed("a privileged container or statically linked driver calls get round the preloaded library; drop privileged " +
			"and static linking")},
	CodeNoMemoryFraction: {"no-memory-fraction", "jabrayilov-gpushare", ScopeKind,
		fixed("emulation needs a framework with a memory fraction (vllm, tgi, sglang)")},
	CodeMIGIsThere: {"mig-is-there", "jabrayilov-gpushare", ScopeChoice,
		fixed("this GPU has MIG: emulation is for GPUs without")},
	CodeMemoryUnknown: {"memory-unknown", "cotenant-reading", ScopeKind, func(r *Reason) string {
		if r.Verdict == VerdictPass {
			return "neither memory nor model is stated: a whole GPU of its own is the only place that needs no neighbour's " +
				"memory to fit"
		}
		return "neither memory nor model is stated, so nobody knows who fits beside it; measure its most memory in use and " +
			"state it"
	}},
	CodeKVPrior: {"kv-cache-prior", "lucaberton-sharing", ScopeKind, func(r *Reason) string {
		return fmt.Sprintf("model.kv_cache is not stated; %s is assumed (prior)", sharing.Bytes(r.Have))
	}},
	CodeMemoryForTwo: {"memory-for-two", "k8s-device-plugin", ScopeEmpty, func(r *Reason) string {
		return fmt.Sprintf("needs %s, so no second one fits the %s of %s: memory is not divided by sharing", r.need(),
			sharing.Bytes(r.Have), problem.A(r.on().gpuName()))
	}},
	CodeBusyForTwo: {"busy-for-two", "nvidia-mps-guide", ScopeEmpty, func(r *Reason) string {
		return fmt.Sprintf("two replicas of %s each want more than the %s of a GPU that is to be had", share(r.Have),
			share(r.Need))
	}},
	CodeProfilesUnknown: {"profiles-unknown", "cotenant-mig-catalogue", ScopeChoice,
		fixed("no source gives this GPU's MIG profiles and placements; read them from the device")},
	CodeSliceSaturated: {"slice-saturated", "nos-gpu-sharing", ScopeKind, func(r *Reason) string {
		return fmt.Sprintf("work that keeps %s of a whole GPU busy is more than a slice does, even %s (prior: 3.88 times "+
			"slower on 1g of an A100)", share(r.Have), r.slice())
	}},
	CodeMemorySlice: {"memory-slice", "cotenant-mig-catalogue", ScopeKind, func(r *Reason) string {
		return fmt.Sprintf("needs %s and the largest slice, %s, has %s", r.need(), r.slice(), r.sliceMemory())
	}},
	CodeSliceTooSmall: {"slice-too-small", "cotenant-mig-catalogue", ScopeKind, func(r *Reason) string {
		return fmt.Sprintf("does not fit the memory of %s: needs %s and it has %s", r.slice(), r.need(), r.sliceMemory())
	}},
	CodeSliceFits: {"slice-fits", "cotenant-mig-catalogue", ScopeKind, func(r *Reason) string {
		perGPU := 0
		if r.Profile != nil {
			perGPU = r.Profile.MaxInstances
		}
		return fmt.Sprintf("fits %s (%s), of which %d stand on an empty GPU", r.slice(), r.sliceMemory(), perGPU)
	}},
	CodeSliceLoad: {"slice-load", "nos-gpu-sharing", ScopeKind, func(r *Reason) string {
		law := "as YOLOS-small on A100 slices does"
		if r.demand != nil && r.demand.Decodes {
			law = "by its share of the memory bandwidth"
		}
		return fmt.Sprintf("will keep the slice %s busy, if it runs %.2f times slower there %s (prior); measure it",
			share(r.Have), r.on().slowdown(r.Profile, r.demand), law)
	}},
	CodeFraction: {"memory-fraction", "dynamo-mps-limits", ScopeKind, func(r *Reason) string {
		d := r.about()
		f, _ := d.MemoryFraction.Get()
		return fmt.Sprintf("a memory fraction of %.2f leaves %s of %s to %s, which needs %s: the written configuration "+
			"raises it to %.2f",
			f, sharing.Bytes(f*float64(r.Have)), sharing.Bytes(r.Have), d.Framework, sharing.Bytes(r.Need),
			math.Ceil(100*float64(r.Need)/float64(max(1, r.Have)))/100)
	}},
	CodeGPUMemoryUnknown: {"gpu-memory-unknown", "cotenant-mig-catalogue", ScopeKind, func(r *Reason) string {
		if r.ground != nil {
			return fmt.Sprintf("needs %s, and no source gives the memory that is there; read it from the device",
				sharing.Bytes(r.Need))
		}
		return "whether GPU memory suffices is not known: state the GPU's memory"
	}},
	CodeTenants: {"tenants", "", ScopeLeft, fixed("the GPU has as many tenants as it takes")},
	CodeTrust: {"trust", "", ScopeNeighbours,
		fixed("a tenant on the GPU is not trusted and the mechanism does not isolate")},
	CodeSlices: {"slices", "", ScopeLeft, fixed("no start of the profile is free")},
	CodeGPUMemory: {"gpu-memory", "cotenant-mig-catalogue", ScopeLeft, func(r *Reason) string {
		if r.ground != nil {
			return fmt.Sprintf("needs %s and %s has %s", r.need(), problem.A(r.ground.gpuName()), sharing.Bytes(r.Have))
		}
		return fmt.Sprintf("needs %v of GPU memory, the most free is %v", sharing.Bytes(r.Need), sharing.Bytes(r.Have))
	}},
	CodeGPUShare: {"gpu-share", "", ScopeLeft, func(r *Reason) string {
		return fmt.Sprintf("needs %d thousandths of a GPU, the most free is %d", r.Need, r.Have)
	}},
	CodePoolFull: {"pool-full", "", ScopeLeft, func(r *Reason) string {
		return fmt.Sprintf("pool %s has %d GPUs and would need %d", r.on().name, r.Have, r.Need)
	}},
	CodeSLOMissed: {"slo-missed", "kleinrock-processor-sharing", ScopeKind, func(r *Reason) string {
		return fmt.Sprintf("%s is at least %.4g ms here and may be %.4g ms", ObjectiveName(r.Metric), millis(r.Have),
			millis(r.Need))
	}},
	CodeSLOOpen: {"slo-open", "cotenant-h200-colocation", ScopeNeighbours, func(r *Reason) string {
		return fmt.Sprintf("%s may be as high as %.4g ms against a limit of %.4g ms; measure it beside its neighbours",
			ObjectiveName(r.Metric), millis(r.Have), millis(r.Need))
	}},
	CodeSLOTurns: {"slo-turns", "cotenant-h200-quantum", ScopeNeighbours,
		fixed("tenants take turns at the GPU, milliseconds each: a latency objective is not kept unless measured figures " +
			"prove it")},
	CodeSLOUnmeasured: {"slo-unmeasured", "cotenant-reading", ScopeNeighbours, func(r *Reason) string {
		return fmt.Sprintf("no latency was given for it alone (solo:), so the objective is not checked with %d on a GPU; "+
			"measure before roll-out", r.Have)
	}},
	CodeSLOPredicted: {"slo-predicted", "cotenant-interference-model", ScopeNeighbours,
		fixed("its objectives are judged beside its neighbours, from its load, its latencies alone or its profile")},
	CodeSlowdownUnknown: {"slowdown-unknown", "", ScopeNeighbours,
		fixed("how much neighbours slow it down, or it them, is not known and there is an objective")},
	CodeTTFT:     {"ttft", "cotenant-interference-model", ScopeNeighbours, predicted},
	CodeTPOT:     {"tpot", "cotenant-interference-model", ScopeNeighbours, predicted},
	CodeE2E:      {"e2e", "cotenant-interference-model", ScopeNeighbours, predicted},
	CodeSlowdown: {"slowdown", "cotenant-interference-model", ScopeNeighbours, predicted},
	CodeFloor: {"floor", "roofline-model", ScopeKind, func(r *Reason) string {
		where := r.on().gpuName()
		if r.Profile != nil {
			where = r.slice() + " of " + where
		}
		return fmt.Sprintf("%s cannot be below %.4g ms on %s, at its peak bandwidth and rate; the objective is %.4g ms",
			ObjectiveName(r.Metric), millis(r.Have), where, millis(r.Need))
	}},
	CodeOverloaded: {"overloaded", "cotenant-interference-model", ScopeNeighbours, func(r *Reason) string {
		return fmt.Sprintf("would be %.0f%% busy there, or as much as %.0f%%: it could not keep up", float64(r.Have)/10,
			float64(r.High)/10)
	}},
	CodeTradeOff: {"trade-off", "", ScopeKind, fixed("what a choice accepts")},
}
