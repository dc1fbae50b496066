package sharing

import "slices"

// ResearchSystem is a system of the research class: what it is and whether it
// can be had. None ships as a product.
type ResearchSystem struct {
	Name     string
	Venue    string // where it was published; empty if not known
	Idea     string
	Headline string // the authors' own figure; empty if none is verified
	// Code is the repository; unknown if none is known.
	Code Cell[string]
	// Available says whether code can be had: No means that it was looked for
	// and not found.
	Available Answer
	Basis     Basis // of the headline
	Source    SourceID
}

// ResearchSystems lists the research class by name, without regard to case. The slice is the caller's.
func ResearchSystems() []ResearchSystem { return slices.Clone(researchTable) }

func repo(name string) Cell[string] { return KnownCell(name, "mps.c5") }

var researchTable = []ResearchSystem{
	{"Adaptive spatial-temporal sharing", "EuroSys '25", "switches between spatial and temporal sharing as load changes", "", Cell[string]{}, AnswerUnknown, BasisUnknown, "READING"},
	{"Fractional GPUs", "RTAS '19", "partitions SMs and memory bandwidth in software for real-time work", "", Cell[string]{}, AnswerUnknown, BasisUnknown, "READING"},
	{"GPARS", "", "named by S0 among the fine-grained systems", "10% and more, as S0 quotes it", Cell[string]{}, AnswerUnknown, BasisPopular, "S0"},
	{"gpulet", "ATC '22", "spatio-temporal virtual GPUs from MPS partitions and time shares", "throughput +102.6% (abstract)", repo("casys-kaist/glet"), AnswerYes, BasisSecondHand, "decision.b"},
	{"Hummingbird", "2026", "a shim on the driver interface", "SLO attainment 9.7 and 3.5 times that of spatial and temporal sharing", Cell[string]{}, AnswerUnknown, BasisSecondHand, "TESS"},
	{"iGniter", "TPDS '23", "provisions MPS shares by a model of interference", "up to 25% cheaper (abstract)", repo("icloud-ecnu/igniter"), AnswerYes, BasisSecondHand, "decision.b"},
	{"LithOS", "SOSP '25", "schedules TPCs and splits kernels into atoms", "tail latency 13 times lower than MPS when inference is stacked, 4.7 times in hybrid loads", Cell[string]{}, AnswerNo, BasisSecondHand, "R23"},
	{"MIGER", "ICPP '24", "MIG and MPS in a hierarchy", "job completion time -36% against MIG, -46.6% against MPS (abstract)", Cell[string]{}, AnswerNo, BasisSecondHand, "R22"},
	{"MISO", "SoCC '22", "profiles under MPS to predict the best MIG layout", "job completion time -49% against no sharing, -16% against the best static layout (abstract)", repo("boringlee24/socc22-miso"), AnswerYes, BasisSecondHand, "R21"},
	{"Orion", "EuroSys '24", "schedules operators by their compute and memory profile", "best-effort inference up to 7.3 times, training 1.49 times cheaper", repo("eth-easl/orion"), AnswerYes, BasisSecondHand, "R26"},
	{"Paella", "SOSP '23", "compiler and dispatcher that run the shortest request first", "", repo("eniac/paella"), AnswerYes, BasisUnknown, "mps.c5"},
	{"ParvaGPU", "SC '24", "MIG segments with MPS inside", "no SLO violation over 11 networks on A100", repo("MunQ-Lee/ParvaGPU_SC24"), AnswerUnknown, BasisSecondHand, "mps.c5"},
	{"REEF", "OSDI '22", "preempts by reset and pads with best-effort kernels", "throughput 7.7 times at under 2% more real-time latency on MI50", repo("SJTU-IPADS/reef"), AnswerYes, BasisSecondHand, "TESS"},
	{"Salus", "MLSys '20", "schedules iterations and shares memory in lanes", "job completion time 3.19 times better, inference utilisation 42 times that of no sharing (abstract)", repo("SymbioticLab/Salus"), AnswerYes, BasisSecondHand, "R27"},
	{"Tally", "ASPLOS '25", "slices and preempts kernels by rewriting PTX", "99th percentile +7.2% where TGS has +188.9%", repo("tally-project/tally-bench"), AnswerYes, BasisSecondHand, "R25"},
	{"TGS", "NSDI '23", "controls kernel rates beneath containers", "opportunistic throughput up to 15 times that under MPS", repo("pkusys/TGS"), AnswerYes, BasisSecondHand, "R28"},
	{"USHER", "OSDI '24", "packs models by their interference", "goodput 2.6 times, cost efficiency 3.5 times (abstract)", repo("ss7krd/Usher"), AnswerYes, BasisSecondHand, "R29"},
	{"Vitamin-E", "2026", "a shim on the driver interface", "99th percentile -62.5% at most", Cell[string]{}, AnswerUnknown, BasisSecondHand, "TESS"},
	{"XSched", "OSDI '25", "preemptive scheduling behind a driver shim", "", Cell[string]{}, AnswerUnknown, BasisUnknown, "mps.c5"},
	{"Zico", "ATC '21", "shares memory between networks trained together", "", Cell[string]{}, AnswerNo, BasisUnknown, "mps.c5"},
}
