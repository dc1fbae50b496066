package sharing

func said(src SourceID, b Basis, texts ...string) []Statement {
	s := make([]Statement, len(texts))
	for i, t := range texts {
		s[i] = Statement{t, b, src}
	}
	return s
}

func rated(c Complexity, text string) ComplexityRating {
	return ComplexityRating{c, text, BasisInferred, "READING"}
}

// printedLimit is a cell of the column "max partitions" of A14.
func printedLimit(text string) Statement { return Statement{text, BasisPopular, "A14"} }

var noOverhead = Overhead{Known: true, Text: "the workload has the GPU as without sharing", Basis: BasisDerived, Source: "A11"}

var mpsOverhead = Overhead{0, 0.40, true, "a lone client: nothing for a vision model on A100 (R2), 4 to 40% of the time per token for LLM servers on H200", BasisMeasured, "H200"}

var mpsOverheads = []Overhead{
	{0.04, 0.40, true, "time per token of a lone LLM server on H200; a constant per step, so most at batch 1", BasisMeasured, "H200"},
	{0, 0, true, "lone vision model on A100: 0.0880 s against 0.0882 s without", BasisMeasured, "R2"},
	{0.05, 0.05, true, "printed as ~5%", BasisPopular, "A14"},
}

var infos = []Info{
	{Mechanism: MechanismNone, Title: "None", Summary: "the workload fits nowhere as it is",
		Complexity: ComplexityRating{Basis: BasisDerived, Source: "READING"}, Overhead: Overhead{Source: "READING", Basis: BasisDerived, Text: "nothing runs"}},
	{Mechanism: MechanismExclusive, Title: "Exclusive GPU", Summary: "one workload has the whole GPU; the answer whenever sharing would not pay",
		Complexity: rated(ComplexityLow, "what every scheduler does by default"), Overhead: noOverhead,
		MaxTenants: KnownCell(1, "A11"),
		BestFor:    said("F3", BasisPopular, "large distributed training", "workloads that keep a GPU busy by themselves", "a latency target that no shared mechanism meets"),
		AvoidWhen:  said("F7", BasisPopular, "workloads that leave the GPU idle most of the time"),
		Hardware:   said("A11", BasisDerived, "any GPU")},
	{Mechanism: MechanismTimeSlicing, Title: "Time-slicing", Summary: "the driver gives each busy context the whole GPU in turn, about 2 ms at a time",
		Complexity: rated(ComplexityLow, "one device plugin setting; nothing to run on the node"),
		ComplexityRatings: []ComplexityRating{
			{ComplexityMedium, "Medium", BasisPopular, "S0"}, {ComplexityLow, "simplest", BasisPopular, "S1"}, {ComplexityLow, "simplest", BasisPopular, "S2"}},
		Overhead: Overhead{0.01, 0.11, true, "saturated device: 1% with long kernels on L40S, 11% with short ones on A100", BasisDerived, "decision.a7"},
		Overheads: []Overhead{
			{0.073, 0.073, true, "0.153 ms of switching for every 2.09 ms of work on H200, 6.8% of the device", BasisMeasured, "H200"},
			{0.108, 0.110, true, "short vision kernels on A100, 3 to 7 pods", BasisMeasured, "NOS"},
			{0.01, 0.01, true, "the author's own baseline report", BasisMeasured, "S0"},
			{0.08, 0.08, true, "inferred from the calculator's printed figures", BasisInferred, "decision.a6"},
			{0.10, 0.15, true, "printed as ~10-15%", BasisPopular, "A14"}},
		PopularMaxTenants: printedLimit("unlimited"),
		BestFor:           said("F3", BasisPopular, "notebooks and development", "bursty work that is idle most of the time", "GPUs without MIG"),
		AvoidWhen:         said("F3", BasisPopular, "online inference with a latency target", "tenants that do not trust one another", "workloads whose busy shares add up to more than one GPU"),
		Hardware:          said("A12", BasisDocumented, "any CUDA GPU; the length of a slice can be set from Turing on")},
	{Mechanism: MechanismMPS, Title: "CUDA MPS", Summary: "contexts of several processes run at the same time and share SMs",
		Complexity: rated(ComplexityMedium, "a daemon per node to run, watch and recover; limits that must be read back"),
		Overhead:   mpsOverhead, Overheads: mpsOverheads,
		MaxTenants: KnownCell(60, "mps.a2"), PopularMaxTenants: printedLimit("48"),
		BestFor:   said("F3", BasisPopular, "online inference of tenants that trust one another", "many small models whose kernels leave SMs idle", "MPI ranks of one job"),
		AvoidWhen: said("T14", BasisDocumented, "tenants that do not trust one another", "fault isolation is demanded", "a job fills the GPU by itself"),
		Hardware:  said("MOLD", BasisDocumented, "compute capability 3.5 and later; Volta and later for address spaces of one's own; Linux or QNX")},
	{Mechanism: MechanismMIG, Title: "Multi-Instance GPU", Summary: "the GPU is cut into instances with SMs and memory of their own",
		Complexity:        rated(ComplexityMedium, "layouts to plan, drain and change; a reset to change the mode on Ampere"),
		ComplexityRatings: []ComplexityRating{{ComplexityLow, "Low", BasisPopular, "S0"}, {ComplexityUnknown, "an operational event", BasisPopular, "S1"}},
		Overhead:          Overhead{0, 0.102, true, "SMs that MIG mode leaves unused: none on H200, 10 of 108 on A100; an instance is slower than the GPU by its size besides", BasisDerived, "mig.a3"},
		Overheads:         []Overhead{{0, 0, true, "printed as ~0%", BasisPopular, "A14"}},
		MaxTenants:        KnownCell(7, "mig.a3"), PopularMaxTenants: printedLimit("7"),
		BestFor:   said("F2", BasisPopular, "tenants that do not trust one another", "online inference with a latency target", "models that fit a slice"),
		AvoidWhen: said("mig.b2", BasisDocumented, "sizes change often: an instance must be idle to be destroyed", "a model needs more than an instance", "peer-to-peer between GPUs is needed"),
		Hardware:  said("MIGDATA", BasisDocumented, "A30, A100, A800, H20, H100, H800, H200, GH200, B200, GB200, B300, GB300, RTX PRO Blackwell; not A10, A16, A40, L4, L40, L40S, T4, V100 or GeForce")},
	{Mechanism: MechanismMIGWithMPS, Title: "MPS inside a MIG instance", Summary: "trusted processes share one instance by MPS; instances stay apart in hardware",
		Complexity: rated(ComplexityHigh, "all of MIG, and one MPS daemon per instance"),
		Overhead:   mpsOverhead,
		BestFor:    said("mps.c5", BasisSecondHand, "several small models of one tenant in each instance"),
		AvoidWhen:  said("mps.a9", BasisDocumented, "the device plugin is the only way to deliver it", "processes in an instance do not trust one another"),
		Hardware:   said("mps.a9", BasisDocumented, "GPUs with MIG")},
	{Mechanism: MechanismHAMi, Title: "HAMi", Summary: "a scheduler and a preloaded library that limits memory and, less surely, compute; the driver time-slices the tenants",
		Complexity: rated(ComplexityMedium, "a scheduler extender, a device plugin of its own and a preloaded library"),
		Overhead:   Overhead{Text: "no primary measurement of the library alone", Basis: BasisUnknown, Source: "mps.c1"},
		Overheads:  []Overhead{{0, 0.05, true, "a maintainer's claim of under 5%", BasisSecondHand, "HAMI"}},
		BestFor:    said("F3", BasisPopular, "notebooks and development with memory limits", "GPUs without MIG"),
		AvoidWhen:  said("M11", BasisDocumented, "a compute limit is needed and the framework launches CUDA graphs", "tenants that do not trust one another", "privileged containers"),
		Hardware:   said("HAMI", BasisDocumented, "any GPU with the CUDA driver")},
	{Mechanism: MechanismHAMiWithMPS, Title: "HAMi with MPS", Summary: "HAMi's scheduler hands out shares that MPS runs",
		Complexity: rated(ComplexityHigh, "all of HAMi, and MPS daemons"),
		Overhead:   mpsOverhead,
		BestFor:    said("mps.c1", BasisInferred, "clusters that run HAMi already and want kernels side by side"),
		AvoidWhen:  said("T14", BasisDocumented, "tenants that do not trust one another"),
		Hardware:   said("MOLD", BasisDocumented, "as MPS")},
	{Mechanism: MechanismVGPU, Title: "NVIDIA vGPU, time-sliced", Summary: "virtual machines with a fixed frame buffer each take turns on the GPU",
		Complexity: rated(ComplexityHigh, "a hypervisor, its vGPU manager and licences"),
		Overhead:   Overhead{Text: "no primary measurement", Basis: BasisUnknown, Source: "VGPU"},
		MaxTenants: KnownCell(20, "VGPU"),
		BestFor:    said("A3", BasisPopular, "clouds that sell virtual machines to many tenants"),
		AvoidWhen:  said("VGPU", BasisDocumented, "a share of compute must be sure and only the default scheduler is available"),
		Hardware:   said("VGPU", BasisDocumented, "data center and professional GPUs with vGPU types")},
	{Mechanism: MechanismMIGBackedVGPU, Title: "NVIDIA vGPU on MIG instances", Summary: "virtual machines with a GPU instance each",
		Complexity: rated(ComplexityHigh, "a hypervisor, its vGPU manager, licences, and MIG layouts"),
		Overhead:   Overhead{Text: "no primary measurement", Basis: BasisUnknown, Source: "VGPU"},
		MaxTenants: KnownCell(7, "VGPU"),
		BestFor:    said("A3", BasisPopular, "virtual machines of tenants that do not trust one another"),
		AvoidWhen:  said("VGPU", BasisInferred, "containers on bare metal would do: MIG isolates them without a hypervisor"),
		Hardware:   said("VGPU", BasisDocumented, "GPUs with MIG and MIG-backed vGPU types")},
	{Mechanism: MechanismMIGLikeEmulation, Title: "MIG-like emulation", Summary: "an MPS percentage plus the framework's memory fraction; never isolation",
		Complexity: rated(ComplexityMedium, "as MPS, and flags to agree on for each server"),
		Overhead:   mpsOverhead,
		MaxTenants: KnownCell(60, "mps.a2"),
		BestFor:    said("F8", BasisPopular, "experiments with slice sizes where there is no MIG"),
		AvoidWhen:  said("T5", BasisDocumented, "any isolation is demanded"),
		Hardware:   said("MOLD", BasisDocumented, "as MPS")},
	{Mechanism: MechanismInServer, Title: "Multiplexing inside one server", Summary: "one server batches requests or adapters of several users: continuous batching, LoRA adapters",
		Complexity: rated(ComplexityLow, "a feature of the serving framework"), Overhead: noOverhead,
		BestFor:   said("READING", BasisInferred, "several users or adapters of the same base model"),
		AvoidWhen: said("READING", BasisInferred, "tenants that do not trust one another", "models that differ"),
		Hardware:  said("READING", BasisInferred, "any GPU that the server runs on")},
	{Mechanism: MechanismResearch, Title: "Research schedulers", Summary: "systems that schedule single kernels or operators; see ResearchSystems",
		Complexity: rated(ComplexityVeryHigh, "prototypes bound to a framework, a compiler or kernel profiles"),
		Overhead:   Overhead{Text: "depends on the system", Basis: BasisUnknown, Source: "mps.c5"},
		BestFor:    said("A3", BasisPopular, "research"),
		AvoidWhen:  said("mps.c5", BasisDocumented, "anything that must be supported"),
		Hardware:   said("mps.c5", BasisDocumented, "depends on the system")},
}
