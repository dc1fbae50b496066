package sharing

import "slices"

// ResearchSystem is a system of the research class: what it is and whether it
// can be had. None ships as a product.
type ResearchSystem struct {
	Name     string
	Venue    string // where it was published
	Idea     string
	Headline string // the authors' own figure; empty if none is verified
	Code     string // its repository on GitHub; empty if none was found
	Source   SourceID
}

// ResearchSystems lists the research class by name, without regard to case: what
// MechanismResearch stands for, for a report that names it. The slice is the
// caller's.
func ResearchSystems() []ResearchSystem { return slices.Clone(researchTable) }

var researchTable = []ResearchSystem{
	{"BLESS", "EuroSys '25", "switches between spatial and temporal sharing as load changes", "", "", "bless-paper"},
	{"Fractional GPUs", "RTAS '19", "partitions SMs and memory bandwidth in software for real-time work", "", "",
		"fractional-gpus-paper"},
	{"GPARS", "", "named among the fine-grained systems", "10% and more, as the article quotes it", "", eksArticle},
	{"gpulet", "ATC '22", "spatio-temporal virtual GPUs from MPS partitions and time shares", "throughput +102.6%",
		"casys-kaist/glet", "gpulet-paper"},
	{"Hummingbird", "2026", "a shim on the driver interface",
		"SLO attainment 9.7 and 3.5 times that of spatial and temporal sharing", "", "hummingbird-paper"},
	{"iGniter", "TPDS '23", "provisions MPS shares by a model of interference", "up to 25% cheaper", "icloud-ecnu/igniter",
		"igniter"},
	{"LithOS", "SOSP '25", "schedules TPCs and splits kernels into atoms", "tail latency 13 times lower than MPS when " +
		"inference is stacked, 4.7 times in hybrid loads", "", "lithos-paper"},
	{"MIGER", "ICPP '24", "MIG and MPS in a hierarchy", "job completion time -36% against MIG, -46.6% against MPS", "",
		"miger-paper"},
	{"MISO", "SoCC '22", "profiles under MPS to predict the best MIG layout",
		"job completion time -49% against no sharing, -16% against the best static layout", "boringlee24/socc22-miso",
		"miso-paper"},
	{"Orion", "EuroSys '24", "schedules operators by their compute and memory profile",
		"best-effort inference up to 7.3 times, training 1.49 times cheaper", "eth-easl/orion", "orion-paper"},
	{"Paella", "SOSP '23", "compiler and dispatcher that run the shortest request first", "", "eniac/paella",
		"paella-paper"},
	{"ParvaGPU", "SC '24", "MIG segments with MPS inside", "no SLO violation over 11 networks on A100",
		"MunQ-Lee/ParvaGPU_SC24", "parvagpu-paper"},
	{"REEF", "OSDI '22", "preempts by reset and pads with best-effort kernels",
		"throughput 7.7 times at under 2% more real-time latency on MI50", "SJTU-IPADS/reef", "reef-paper"},
	{"Salus", "MLSys '20", "schedules iterations and shares memory in lanes", "job completion time 3.19 times better, " +
		"inference utilisation 42 times that of no sharing", "SymbioticLab/Salus", "salus-paper"},
	{"Tally", "ASPLOS '25", "slices and preempts kernels by rewriting PTX", "99th percentile +7.2% where TGS has +188.9%",
		"tally-project/tally-bench", "tally-paper"},
	{"TGS", "NSDI '23", "controls kernel rates beneath containers",
		"opportunistic throughput up to 15 times that under MPS", "pkusys/TGS", "tgs-paper"},
	{"USHER", "OSDI '24", "packs models by their interference", "goodput 2.6 times, cost efficiency 3.5 times",
		"ss7krd/Usher", "usher-paper"},
	{"XSched", "OSDI '25", "preemptive scheduling behind a driver shim", "", "", "xsched-paper"},
	{"Zico", "ATC '21", "shares memory between networks trained together", "", "", "zico-paper"},
}
