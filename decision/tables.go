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

// slaRisks is the article's matrix, whose subject is time-slicing.
var slaRisks = []Risk{
	{"Dev/Test", "low", "high", "high", "time-slicing suits it", "myitbasics-eks-sharing"},
	{"Batch", "medium", "medium", "high", "acceptable with monitoring", "myitbasics-eks-sharing"},
	{"Internal apps", "medium", "medium", "medium", "run a pilot first", "myitbasics-eks-sharing"},
	{"Customer-facing APIs", "high", "low", "low", "avoid time-slicing", "myitbasics-eks-sharing"},
}

// SLARisks returns the risk classes of a widely read article.
func SLARisks() []Risk { return append([]Risk(nil), slaRisks...) }

// riskOf returns the class's row where tenants take turns; elsewhere there is
// none.
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

// RegisterRisk is a row of a risk register.
type RegisterRisk struct {
	Area       string // technical or business
	Severity   sharing.Severity
	Risk       string
	Mitigation string
	Source     sharing.SourceID
}

// RiskRegister returns risks of sharing with a mitigation each.
func RiskRegister() []RegisterRisk {
	return []RegisterRisk{
		{"technical", sharing.SeverityHigh, "latency grows by half or doubles under contention", "measure beside the real neighbours before roll-out", "myitbasics-eks-sharing"},
		{"technical", sharing.SeverityMedium, "performance that cannot be predicted", "isolate by MIG, or plan with the law of processor sharing", "myitbasics-eks-sharing"},
		{"technical", sharing.SeverityMedium, "configuration is complex", "generate it, keep it in version control, verify it on the node", "myitbasics-eks-sharing"},
		{"technical", sharing.SeverityLow, "infrastructure fails", "keep the previous configuration for rollback", "myitbasics-eks-sharing"},
		{"business", sharing.SeverityHigh, "customers notice", "keep customer-facing services off time-slicing", "myitbasics-eks-sharing"},
		{"business", sharing.SeverityMedium, "service levels are missed", "gate on P99 under load", "myitbasics-eks-sharing"},
		{"business", sharing.SeverityMedium, "competitors are faster", "spend the saving where latency counts", "myitbasics-eks-sharing"},
		{"business", sharing.SeverityLow, "development slows", "give notebooks and CI a pool of their own", "myitbasics-eks-sharing"},
	}
}

// Opportunity is a plan template with its time and expected saving, as the
// source prints them.
type Opportunity struct {
	Name                  string
	WeeksLow, WeeksHigh   int
	SavingLow, SavingHigh int // percent; 0 = not printed
	Mechanisms            []sharing.Mechanism
	Kinds                 []Kind
	Source                sharing.SourceID
}

// Opportunities returns plan templates.
func Opportunities() []Opportunity {
	return []Opportunity{
		{"consolidate development GPUs", 1, 2, 40, 50, []sharing.Mechanism{sharing.MechanismTimeSlicing}, []Kind{KindNotebook, KindCI}, "myitbasics-eks-sharing"},
		{"serve several models on a GPU", 8, 12, 0, 0, []sharing.Mechanism{sharing.MechanismMIG, sharing.MechanismTimeSlicing}, []Kind{KindOnlineInference, KindOfflineInference}, "myitbasics-eks-sharing"},
		{"optimise cloud cost", 4, 6, 30, 50, []sharing.Mechanism{sharing.MechanismMIG, sharing.MechanismTimeSlicing, sharing.MechanismExclusive}, []Kind{KindBatch, KindTraining, KindHPC}, "myitbasics-eks-sharing"},
	}
}

// Phase is a step of a roll-out: pack the node, choose the mode, then route.
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
		{"week 1", "assess", []string{"measure SM activity and memory of each workload alone, at its real load", "classify workloads and tenants"}, []string{"every workload has a measured gpu_busy"}, "myitbasics-eks-sharing"},
		{"week 2", "pack the node", []string{"fill one node before opening the next", "apply the configuration to one node group"}, []string{"the plan's GPUs are in use, the rest are free"}, "cotenant-reading"},
		{"week 3", "choose the mode", []string{"move the least critical group first", "run the load test beside real neighbours"}, []string{"P95 and P99 stay within the objectives"}, "myitbasics-eks-sharing"},
		{"week 4", "route", []string{"send requests by cache and load once the packing holds", "roll the next group out"}, []string{"utilisation towards 70 to 80 percent with P95 within objectives"}, "cotenant-reading"},
		{"30, 90 and 365 days", "review", []string{"compare cost and latency with the plan", "reap what has gone idle before buying"}, []string{"saving against plan", "SLO attainment"}, "myitbasics-eks-sharing"},
	}
}

// PoolRule returns the mechanisms that a pool of a GPU generation is fixed to.
func PoolRule(p *CompiledPool) []sharing.Mechanism {
	if p.ground.Available(sharing.MechanismMIG).Answer == sharing.AnswerYes {
		return []sharing.Mechanism{sharing.MechanismMIG, sharing.MechanismExclusive}
	}
	return []sharing.Mechanism{sharing.MechanismTimeSlicing, sharing.MechanismHAMi, sharing.MechanismExclusive}
}
