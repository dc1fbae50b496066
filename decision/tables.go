package decision

import (
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
)

// Risk is a row of a risk matrix: what a class of workloads risks under a
// mechanism.
type Risk struct {
	Class          string           `json:"class"`
	Level          string           `json:"level"` // low, medium, high
	SLATolerance   string           `json:"sla_tolerance"`
	CostPriority   string           `json:"cost_priority"`
	Recommendation string           `json:"recommendation"`
	Source         sharing.SourceID `json:"source"`
}

// slaRisks is A6, whose subject is time-slicing.
var slaRisks = []Risk{
	{"Dev/Test", "low", "high", "high", "time-slicing suits it", "A6"},
	{"Batch", "medium", "medium", "high", "acceptable with monitoring", "A6"},
	{"Internal apps", "medium", "medium", "medium", "run a pilot first", "A6"},
	{"Customer-facing APIs", "high", "low", "low", "avoid time-slicing", "A6"},
}

// SLARisks returns the risk classes of A6.
func SLARisks() []Risk { return append([]Risk(nil), slaRisks...) }

// riskOf returns the class's row where tenants take turns; elsewhere A6 says
// nothing.
func riskOf(class string, m sharing.Mechanism) *Risk {
	if !gate.TraitsOf(m).Turns {
		return nil
	}
	for i := range slaRisks {
		if slaRisks[i].Class == class {
			r := slaRisks[i]
			return &r
		}
	}
	return nil
}

// RegisterRisk is a row of the risk register A7.
type RegisterRisk struct {
	Area       string // technical or business
	Severity   sharing.Severity
	Risk       string
	Mitigation string
	Source     sharing.SourceID
}

// RiskRegister returns A7: risks of sharing with a mitigation each.
func RiskRegister() []RegisterRisk {
	return []RegisterRisk{
		{"technical", sharing.SeverityHigh, "latency grows by half or doubles under contention", "measure beside the real neighbours before roll-out", "A7"},
		{"technical", sharing.SeverityMedium, "performance that cannot be predicted", "isolate by MIG, or plan with the sharing law (TV6)", "A7"},
		{"technical", sharing.SeverityMedium, "configuration is complex", "generate it, keep it in version control, verify it on the node", "A7"},
		{"technical", sharing.SeverityLow, "infrastructure fails", "keep the previous configuration for rollback", "A7"},
		{"business", sharing.SeverityHigh, "customers notice", "keep customer-facing services off time-slicing", "A7"},
		{"business", sharing.SeverityMedium, "service levels are missed", "gate on P99 under load", "A7"},
		{"business", sharing.SeverityMedium, "competitors are faster", "spend the saving where latency counts", "A7"},
		{"business", sharing.SeverityLow, "development slows", "give notebooks and CI a pool of their own", "A7"},
	}
}

// Opportunity is a row of A8: a plan template with its time and expected
// saving, as the source prints them.
type Opportunity struct {
	Name                  string
	WeeksLow, WeeksHigh   int
	SavingLow, SavingHigh int // percent; 0 = not printed
	Mechanisms            []sharing.Mechanism
	Kinds                 []Kind
	Source                sharing.SourceID
}

// Opportunities returns A8.
func Opportunities() []Opportunity {
	return []Opportunity{
		{"consolidate development GPUs", 1, 2, 40, 50, []sharing.Mechanism{sharing.MechanismTimeSlicing}, []Kind{KindNotebook, KindCI}, "A8"},
		{"serve several models on a GPU", 8, 12, 0, 0, []sharing.Mechanism{sharing.MechanismMIG, sharing.MechanismTimeSlicing}, []Kind{KindOnlineInference, KindOfflineInference}, "A8"},
		{"optimise cloud cost", 4, 6, 30, 50, []sharing.Mechanism{sharing.MechanismMIG, sharing.MechanismTimeSlicing, sharing.MechanismExclusive}, []Kind{KindBatch, KindTraining, KindHPC}, "A8"},
	}
}

// Phase is a step of a roll-out (A9), in the order of A19: pack the node,
// choose the mode, then route.
type Phase struct {
	When   string
	Focus  string
	Do     []string
	Check  []string
	Source sharing.SourceID
}

// Rollout returns the phases of a roll-out.
func Rollout() []Phase {
	return []Phase{
		{"week 1", "assess", []string{"measure SM activity and memory of each workload alone, at its real load", "classify workloads and tenants"}, []string{"every workload has a measured gpu_busy"}, "A9"},
		{"week 2", "pack the node", []string{"fill one node before opening the next", "apply the configuration to one node group"}, []string{"the plan's GPUs are in use, the rest are free"}, "A19"},
		{"week 3", "choose the mode", []string{"move the least critical group first", "run the load test beside real neighbours"}, []string{"P95 and P99 stay within the objectives"}, "A9"},
		{"week 4", "route", []string{"send requests by cache and load once the packing holds", "roll the next group out"}, []string{"utilisation towards 70 to 80 percent with P95 within objectives"}, "A19"},
		{"30, 90 and 365 days", "review", []string{"compare cost and latency with the plan", "reap what has gone idle before buying"}, []string{"saving against plan", "SLO attainment"}, "A9"},
	}
}

// PoolRule is F4 in the engine's words: which mechanisms a pool of a GPU
// generation is fixed to.
func PoolRule(p *CompiledPool) []sharing.Mechanism {
	if p.ground.Available(sharing.MechanismMIG).Answer == sharing.AnswerYes {
		return []sharing.Mechanism{sharing.MechanismMIG, sharing.MechanismExclusive}
	}
	return []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismHAMi, sharing.MechanismExclusive}
}
