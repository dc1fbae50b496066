package decision

import (
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
)

// Risk is a row of a risk matrix: what a class of workloads risks under a mechanism.
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

// riskOf returns the class's row where tenants take turns; elsewhere there is none.
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
