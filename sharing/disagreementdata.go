package sharing

const (
	eksArticle        = SourceID("myitbasics-eks-sharing")
	asleekgeekArticle = SourceID("asleekgeek-sharing")
	bertonArticle     = SourceID("lucaberton-sharing")
)

// pos writes a position of a widely read source.
func pos(src SourceID, text string) Statement { return Statement{text, BasisPopular, src} }

// by writes what we go by.
func by(src SourceID, b Basis, text string) Statement { return Statement{text, b, src} }

var disagreementRows = []Disagreement{
	{ID: "time-slicing-faults", Topic: "fault isolation of time-slicing",
		Positions: []Statement{pos(asleekgeekArticle, "partial"), pos(bertonArticle, "shared")},
		Finding:   by("k8s-device-plugin", BasisDocumented, "none: replicas share a fault domain")},
	{ID: "time-slicing-overhead", Topic: "overhead of time-slicing",
		Positions: []Statement{pos(bertonArticle, "10-15%"),
			{"8%, inferred from its calculator", BasisInferred, asleekgeekArticle},
			pos(eksArticle, "50-100% 'impact', which is contention; about 1% in its own repository"),
			{"11% on short kernels", BasisMeasured, "nos-gpu-sharing"}},
		Finding: by("nos-gpu-sharing", BasisDerived, "1% with long kernels to 11% with short ones; 6.8% measured on H200 "+
			"with spinning kernels")},
	{ID: "time-slicing-unpredictable", Topic: "time-slicing costs 50-100% unpredictably",
		Positions: []Statement{pos(eksArticle, "50-100%, non-linear, smaller model hit harder")},
		Finding: by("kleinrock-processor-sharing", BasisDerived, "two closed-loop tenants: processor sharing predicts "+
			"both, and the throughput loss is the latency figure once more")},
	{ID: "time-slicing-medium-trust", Topic: "time-slicing for tenants of medium trust",
		Positions: []Statement{pos(eksArticle, "yes, with monitoring"), pos(asleekgeekArticle, "no"),
			pos(bertonArticle, "no")},
		Finding: by("nvidia-gpu-operator-sharing", BasisDocumented, "no: memory and faults are not isolated")},
	{ID: "mps-memory", Topic: "memory isolation of MPS",
		Positions: []Statement{pos(asleekgeekArticle, "partial: separate address spaces from Volta"),
			pos(bertonArticle, "shared, none: one process can OOM and crash all"), pos(eksArticle, "lacking")},
		Finding: by("nvidia-mps-guide", BasisDocumented, "partial from Volta: address spaces apart, no limit unless set, "+
			"and running out is an error to the caller alone; none before Volta")},
	{ID: "mps-faults", Topic: "MPS fault isolation is none; clients can corrupt shared state",
		Positions: []Statement{pos(asleekgeekArticle, "none, 'can corrupt shared state'")},
		Finding: by("nvidia-mps-guide", BasisDocumented, "too strong: address spaces are isolated and the server "+
			"recovers; but by default a fatal fault ends all clients on that GPU, and static partitions from r610 isolate partly")},
	{ID: "mps-compute", Topic: "compute isolation of MPS",
		Positions: []Statement{pos(asleekgeekArticle, "none: no hard quota"),
			pos("jabrayilov-gpushare", "an active thread percentage as a cap"), pos(bertonArticle, "shared")},
		Finding: by("nvidia-mps-guide-tasks", BasisDocumented, "a cap by default, a reservation with static SM partitions "+
			"from CUDA 13.1 on Ampere and later")},
	{ID: "mps-context", Topic: "MPS clients share one CUDA context",
		Positions: []Statement{pos(eksArticle, "shared GPU context"), pos(bertonArticle, "shared CUDA context")},
		Finding: by("nvidia-mps-guide-architecture", BasisDocumented,
			"from Volta each client has its own address space and submits work directly")},
	{ID: "mps-clients", Topic: "MPS takes at most 48 clients",
		Positions: []Statement{pos(bertonArticle, "48")},
		Finding: by("nvidia-mps-guide-limits", BasisDocumented,
			"contexts, not processes: 16 before Volta, 48 up to CUDA 13.0, 60 from 13.1")},
	{ID: "mps-overhead", Topic: "MPS costs about 5%",
		Positions: []Statement{pos(bertonArticle, "~5%")},
		Finding:   by("dynamo-gpu-sharing", BasisMeasured, "12 to 40% of throughput at equal load")},
	{ID: "mps-gpus", Topic: "GPUs that support MPS",
		Positions: []Statement{pos(eksArticle, "compute capability 3.5 and later"), pos(asleekgeekArticle, "all CUDA GPUs"),
			pos(bertonArticle, "all CUDA GPUs")},
		Finding: by("nvidia-mps-guide", BasisDocumented,
			"compute capability 3.5 and later; Volta and later with memory protection")},
	{ID: "sharing-on-any-gpu", Topic: "time-slicing and MPS on any GPU",
		Positions: []Statement{pos(eksArticle, "any GPU"), pos(asleekgeekArticle, "any GPU")},
		Finding: by("k8s-device-plugin-mps", BasisDocumented, "the device plugin caps V100 at 16 MPS replicas; setting "+
			"the slice is confirmed from Turing; static partitions need Ampere")},
	{ID: "mig-gpus", Topic: "GPUs that support MIG",
		Positions: []Statement{pos(eksArticle, "A100, H100, A30 only; elsewhere 'Ampere+'"),
			pos(bertonArticle, "A100, H100, H200"), pos(asleekgeekArticle, "A100, H100, H200, Blackwell")},
		Finding: by("nvidia-mig-guide-gpus", BasisDocumented, "the boards of the catalogue, RTX PRO 6000 included; not "+
			"A10, A16, A40, L4 or L40S, though Ampere or later")},
	{ID: "mig-mixed-profiles", Topic: "mixing MIG profiles on one GPU",
		Positions: []Statement{pos(bertonArticle, "cannot be mixed, though it prints a mixed configuration")},
		Finding: by("mig-parted-examples", BasisDocumented, "profiles mix freely where their placements are disjoint: "+
			"the shipped all-balanced layout mixes three")},
	{ID: "mig-reconfiguration", Topic: "changing a MIG layout",
		Positions: []Statement{pos(bertonArticle, "requires a GPU reset"),
			pos(asleekgeekArticle, "destroy and recreate instances in a maintenance window")},
		Finding: by("nvidia-mig-guide-deployment", BasisDocumented,
			"instances come and go without reset when idle; changing the mode resets on Ampere only")},
	{ID: "mig-overhead", Topic: "overhead and jitter of MIG",
		Positions: []Statement{pos(bertonArticle, "about 0%"), pos(asleekgeekArticle, "negligible"),
			{"interference through power throttling", BasisMeasured, "mig-static-partitioning-paper"},
			{"interference through PCIe and the last-level TLB", BasisMeasured, "mig-fragmentation-paper"}},
		Finding: by("nos-gpu-sharing", BasisMeasured, "low: flat on A100, though a lone tenant on 1g was 3.9 times slower; "+
			"power, PCIe and the last-level TLB are shared")},
	{ID: "model-on-slice", Topic: "a 7B model on a MIG slice",
		Positions: []Statement{pos(bertonArticle, "7B takes 16 GB in FP16, and 1g.10gb is for 7B: four of them on 4 x "+
			"1g.10gb save 75%")},
		Finding: by("cotenant-mig-catalogue", BasisDerived, "compute the memory: FP16 does not fit 1g.10gb, four 1g.20gb "+
			"do fit one A100 80GB; and capacity is not equal across mechanisms")},
	{ID: "hami-project", Topic: "HAMi is a CNCF sandbox project",
		Positions: []Statement{pos(asleekgeekArticle, "sandbox")},
		Finding:   by("hami", BasisDocumented, "incubating")},
	{ID: "hami-serialisation", Topic: "HAMi does not serialise execution",
		Positions: []Statement{pos(asleekgeekArticle, "not serialised, jitter below time-slicing")},
		Finding: by("dynamo-gpu-sharing", BasisMeasured,
			"the driver time-slices HAMi tenants: inter-token latency 2.2 times at low load")},
	{ID: "hami-static-binaries", Topic: "a static CUDA binary escapes HAMi",
		Positions: []Statement{pos(asleekgeekArticle, "statically linked CUDA bypasses it")},
		Finding: by("hami-core-graphs", BasisInferred, "the hook is on the driver library, so a static runtime is "+
			"caught; CUDA graphs and what bypasses the dynamic linker are the holes")},
	{ID: "hami-library", Topic: "HAMi's library is shared by workloads",
		Positions: []Statement{pos(asleekgeekArticle, "a fault in the shared library reaches all")},
		Finding:   by("hami", BasisInferred, "each container has its own copy and cache file")},
	{ID: "vgpu-slices", Topic: "vGPU gives dedicated, consistent slices",
		Positions: []Statement{pos(eksArticle, "dedicated GPU slices, consistent")},
		Finding: by("nvidia-vgpu-guide", BasisDocumented, "only the frame buffer is dedicated for time-sliced types; the "+
			"default scheduler guarantees no share")},
	{ID: "strict-latency", Topic: "what a strict latency target is",
		Positions: []Statement{pos(eksArticle, "under 2 s, which both of its shared results meet"),
			pos(asleekgeekArticle, "99th percentile in tens of milliseconds")},
		Finding: by("cotenant-reading", BasisInferred, "the workload's own targets decide, not a class")},
	{ID: "utilisation-before-sharing", Topic: "utilisation before sharing",
		Positions: []Statement{pos(asleekgeekArticle, "about 5%"), pos(eksArticle, "30-50%, 20-30% in an earlier era"),
			pos(bertonArticle, "20-40% implied")},
		Finding: by("cotenant-reading", BasisInferred, "not a constant: measure it")},
	{ID: "savings", Topic: "savings",
		Positions: []Statement{pos(eksArticle, "30-50%, about 46% in its example"), pos(asleekgeekArticle, "73%"),
			pos(bertonArticle, "75% for each of three mechanisms at the same cost")},
		Finding: by("cotenant-reading", BasisDerived, "computed from the plan; 75% ignores overhead and that four of seven "+
			"MIG slices are not a GPU")},
	{ID: "complexity", Topic: "operational complexity",
		Positions: []Statement{pos(eksArticle, "MIG low, time-slicing medium"),
			pos(asleekgeekArticle, "MIG is an operational event, time-slicing simplest"),
			pos(bertonArticle, "time-slicing simplest")},
		Finding: by("cotenant-reading", BasisInferred, "time-slicing low; MIG and MPS medium; combinations and vGPU high")},
	{ID: "idle-energy", Topic: "energy of idle execution",
		Positions: []Statement{pos(asleekgeekArticle, "7-65% of energy, citing arXiv 2604.04745")},
		Finding: by("execution-idle-paper", BasisMeasured, "19.7% of execution time and 10.7% of energy on one academic "+
			"cluster; 7-65% is unverified")},
	{ID: "mechanisms", Topic: "which mechanisms there are",
		Positions: []Statement{pos(eksArticle, "only one with vGPU and fine-grained systems"),
			pos(asleekgeekArticle, "only one with HAMi"), pos("jabrayilov-gpushare", "only one with MIG-like emulation")},
		Finding: by("cotenant-reading", BasisDerived, "the union")},
	{ID: "return-on-investment", Topic: "the return-on-investment code",
		Positions: []Statement{pos(eksArticle, "impact x 100 ms x 0.01, and CPU nodes on the shared side only")},
		Finding:   by(eksArticle, BasisDerived, "divide by 100 ms; like for like the saving is 48 or 50% and not 46%")},
	{ID: "cost-calculator", Topic: "the cost calculator",
		Positions: []Statement{pos(asleekgeekArticle, "$0.95 per workload-hour, 180 h a day recovered")},
		Finding:   by(asleekgeekArticle, BasisDerived, "an overhead of 8% is hidden in it; 180 = 10 x 24 x (1 - 1/4)")},
	{ID: "survey-table", Topic: "the survey's Table I",
		Positions: []Statement{pos("jabrayilov-gpushare", "tokens per second under three modes")},
		Finding:   by("jabrayilov-gpushare", BasisPopular, "synthetic, as the paper itself says")},
}
