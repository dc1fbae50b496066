package sharing

func said(src SourceID, b Basis, texts ...string) []Statement {
	s := make([]Statement, len(texts))
	for i, t := range texts {
		s[i] = Statement{t, b, src}
	}
	return s
}

var noOverhead = Overhead{Known: true, Text: "the workload has the GPU as without sharing", Basis: BasisDerived,
	Source: "cotenant-reading"}

var mpsOverhead = Overhead{0, 0.40, true, "a lone client: nothing for a vision model on A100, 4 to 40% of the time " +
	"per token for LLM servers on H200", BasisMeasured, "cotenant-h200-colocation"}

var mpsOverheads = []Overhead{
	{0.04, 0.40, true, "time per token of a lone LLM server on H200; a constant per step, so most at batch 1",
		BasisMeasured, "cotenant-h200-colocation"},
	{0, 0, true, "lone vision model on A100: 0.0880 s against 0.0882 s without", BasisMeasured, "nos-gpu-sharing"},
	{0.05, 0.05, true, "printed as ~5%", BasisPopular, "lucaberton-sharing"},
}

var infos = []Info{
	{Mechanism: MechanismNone, Title: "None", Summary: "the workload fits nowhere as it is",
		Overhead: Overhead{Source: "cotenant-reading", Basis: BasisDerived, Text: "nothing runs"}},
	{Mechanism: MechanismExclusive, Title: "Exclusive GPU",
		Summary:    "one workload has the whole GPU; the answer whenever sharing would not pay",
		Overhead:   noOverhead,
		MaxTenants: KnownCell(1, "cotenant-reading"),
		BestFor: said("asleekgeek-sharing", BasisPopular, "large distributed training",
			"workloads that keep a GPU busy by themselves", "a latency target that no shared mechanism meets"),
		AvoidWhen: said("asleekgeek-sharing", BasisPopular, "workloads that leave the GPU idle most of the time"),
		Hardware:  said("cotenant-reading", BasisDerived, "any GPU")},
	{Mechanism: MechanismTimeSlicing, Title: "Time-slicing",
		Summary: "the driver gives each busy context the whole GPU in turn, about 2 ms at a time",
		Overhead: Overhead{0.01, 0.11, true, "saturated device: 1% with long kernels on L40S, 11% with short ones on A100",
			BasisDerived, "nos-gpu-sharing"},
		Overheads: []Overhead{
			{0.073, 0.073, true, "0.153 ms of switching for every 2.09 ms of work on H200, 6.8% of the device", BasisMeasured,
				"cotenant-h200-quantum"},
			{0.108, 0.110, true, "short vision kernels on A100, 3 to 7 pods", BasisMeasured, "nos-gpu-sharing"},
			{0.01, 0.01, true, "the author's own baseline report", BasisMeasured, "myitbasics-eks-sharing"},
			{0.08, 0.08, true, "inferred from the calculator's printed figures", BasisInferred, "asleekgeek-sharing"},
			{0.10, 0.15, true, "printed as ~10-15%", BasisPopular, "lucaberton-sharing"}},
		BestFor: said("asleekgeek-sharing", BasisPopular, "notebooks and development",
			"bursty work that is idle most of the time", "GPUs without MIG"),
		AvoidWhen: said("asleekgeek-sharing", BasisPopular, "online inference with a latency target",
			"tenants that do not trust one another", "workloads whose busy shares add up to more than one GPU"),
		Hardware: said("nvidia-kernel-timeslice-setting", BasisDocumented,
			"any CUDA GPU; the length of a slice can be set from Turing on")},
	{Mechanism: MechanismMPS, Title: "CUDA MPS",
		Summary:  "contexts of several processes run at the same time and share SMs",
		Overhead: mpsOverhead, Overheads: mpsOverheads,
		MaxTenants: KnownCell(60, "nvidia-mps-guide-limits"),
		BestFor: said("asleekgeek-sharing", BasisPopular, "online inference of tenants that trust one another",
			"many small models whose kernels leave SMs idle", "MPI ranks of one job"),
		AvoidWhen: said("nvidia-mps-guide", BasisDocumented, "tenants that do not trust one another",
			"fault isolation is demanded", "a job fills the GPU by itself"),
		Hardware: said("nvidia-mps-guide", BasisDocumented, "compute capability 3.5 and later; Volta and later for address "+
			"spaces of one's own; Linux or QNX")},
	{Mechanism: MechanismMIG, Title: "Multi-Instance GPU",
		Summary: "the GPU is cut into instances with SMs and memory of their own",
		Overhead: Overhead{0, 0.102, true, "SMs that MIG mode leaves unused: none on H200, 10 of 108 on A100; an " +
			"instance is slower than the GPU by its size besides", BasisDerived, "cotenant-mig-catalogue"},
		Overheads:  []Overhead{{0, 0, true, "printed as ~0%", BasisPopular, "lucaberton-sharing"}},
		MaxTenants: KnownCell(7, "nvidia-mig-guide"),
		BestFor: said("lucaberton-sharing", BasisPopular, "tenants that do not trust one another",
			"online inference with a latency target", "models that fit a slice"),
		AvoidWhen: said("nvidia-mig-guide-deployment", BasisDocumented,
			"sizes change often: an instance must be idle to be destroyed", "a model needs more than an instance",
			"peer-to-peer between GPUs is needed"),
		Hardware: said("cotenant-mig-catalogue", BasisDocumented, "A30, A100, A800, H20, H100, H800, H200, GH200, B200, "+
			"GB200, B300, GB300, RTX PRO Blackwell; not A10, A16, A40, L4, L40, L40S, T4, V100 or GeForce")},
	{Mechanism: MechanismMIGWithMPS, Title: "MPS inside a MIG instance",
		Summary:  "trusted processes share one instance by MPS; instances stay apart in hardware",
		Overhead: mpsOverhead,
		BestFor:  said("parvagpu-paper", BasisDocumented, "several small models of one tenant in each instance"),
		AvoidWhen: said("nvidia-mig-guide", BasisDocumented, "the device plugin is the only way to deliver it",
			"processes in an instance do not trust one another"),
		Hardware: said("nvidia-mig-guide", BasisDocumented, "GPUs with MIG")},
	{Mechanism: MechanismHAMi, Title: "HAMi", Summary: "a scheduler and a preloaded library that limits memory and, " +
		"less surely, compute; the driver time-slices the tenants",
		Overhead: Overhead{Text: "no primary measurement of the library alone", Basis: BasisUnknown,
			Source: "cotenant-reading"},
		Overheads: []Overhead{{0, 0.05, true, "a maintainer's claim of under 5%", BasisSecondHand, "hami-issue-397"}},
		BestFor: said("asleekgeek-sharing", BasisPopular, "notebooks and development with memory limits",
			"GPUs without MIG"),
		AvoidWhen: said("hami-core-graphs", BasisDocumented,
			"a compute limit is needed and the framework launches CUDA graphs", "tenants that do not trust one another",
			"privileged containers"),
		Hardware: said("hami", BasisDocumented, "any GPU with the CUDA driver")},
	{Mechanism: MechanismHAMiWithMPS, Title: "HAMi with MPS", Summary: "HAMi's scheduler hands out shares that MPS runs",
		Overhead:  mpsOverhead,
		BestFor:   said("cotenant-reading", BasisInferred, "clusters that run HAMi already and want kernels side by side"),
		AvoidWhen: said("nvidia-mps-guide", BasisDocumented, "tenants that do not trust one another"),
		Hardware:  said("nvidia-mps-guide", BasisDocumented, "as MPS")},
	{Mechanism: MechanismVGPU, Title: "NVIDIA vGPU, time-sliced",
		Summary:    "virtual machines with a fixed frame buffer each take turns on the GPU",
		Overhead:   Overhead{Text: "no primary measurement", Basis: BasisUnknown, Source: "nvidia-vgpu-guide"},
		MaxTenants: KnownCell(20, "nvidia-vgpu-guide"),
		BestFor:    said("myitbasics-eks-sharing", BasisPopular, "clouds that sell virtual machines to many tenants"),
		AvoidWhen: said("nvidia-vgpu-guide", BasisDocumented,
			"a share of compute must be sure and only the default scheduler is available"),
		Hardware: said("nvidia-vgpu-guide", BasisDocumented, "data center and professional GPUs with vGPU types")},
	{Mechanism: MechanismMIGBackedVGPU, Title: "NVIDIA vGPU on MIG instances",
		Summary:    "virtual machines with a GPU instance each",
		Overhead:   Overhead{Text: "no primary measurement", Basis: BasisUnknown, Source: "nvidia-vgpu-guide"},
		MaxTenants: KnownCell(7, "nvidia-vgpu-guide"),
		BestFor:    said("myitbasics-eks-sharing", BasisPopular, "virtual machines of tenants that do not trust one another"),
		AvoidWhen: said("nvidia-vgpu-guide", BasisInferred,
			"containers on bare metal would do: MIG isolates them without a hypervisor"),
		Hardware: said("nvidia-vgpu-guide", BasisDocumented, "GPUs with MIG and MIG-backed vGPU types")},
	{Mechanism: MechanismMIGLikeEmulation, Title: "MIG-like emulation",
		Summary:    "an MPS percentage plus the framework's memory fraction; never isolation",
		Overhead:   mpsOverhead,
		MaxTenants: KnownCell(60, "nvidia-mps-guide-limits"),
		BestFor:    said("jabrayilov-gpushare", BasisPopular, "experiments with slice sizes where there is no MIG"),
		AvoidWhen:  said("jabrayilov-gpushare", BasisDocumented, "any isolation is demanded"),
		Hardware:   said("nvidia-mps-guide", BasisDocumented, "as MPS")},
	{Mechanism: MechanismInServer, Title: "Multiplexing inside one server", Summary: "one server batches requests or " +
		"adapters of several users: continuous batching, LoRA adapters",
		Overhead:  noOverhead,
		BestFor:   said("cotenant-reading", BasisInferred, "several users or adapters of the same base model"),
		AvoidWhen: said("cotenant-reading", BasisInferred, "tenants that do not trust one another", "models that differ"),
		Hardware:  said("cotenant-reading", BasisInferred, "any GPU that the server runs on")},
	{Mechanism: MechanismResearch, Title: "Research schedulers",
		Summary:   "systems that schedule single kernels or operators; sharing/REPORT-2026-11.md lists them",
		Overhead:  Overhead{Text: "depends on the system", Basis: BasisUnknown, Source: "cotenant-reading"},
		BestFor:   said("myitbasics-eks-sharing", BasisPopular, "research"),
		AvoidWhen: said("cotenant-reading", BasisInferred, "anything that must be supported"),
		Hardware:  said("cotenant-reading", BasisInferred, "depends on the system")},
}
