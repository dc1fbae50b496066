package loadgen

import "slices"

// StudyCase is one run of a study of interference.
type StudyCase struct {
	Name string // e.g. "solo-chat", "colocated", "probe-with-chat"
	Plan LoadPlan
}

// Study returns the cases that show how a plan's tenants disturb one another: each of them alone and all of them
// together. With a probe tenant among them the others are not run together pairwise but each with the probe, whose
// latencies then say what each of them inflicts on a neighbour.
func Study(plan LoadPlan) []StudyCase {
	var cases []StudyCase
	for _, t := range plan.Tenants {
		cases = append(cases, caseOf(plan, "solo-"+t.Name, t))
	}
	for _, probe := range plan.Tenants {
		if !probe.Probe {
			continue
		}
		for _, t := range plan.Tenants {
			if !t.Probe {
				cases = append(cases, caseOf(plan, probe.Name+"-with-"+t.Name, t, probe))
			}
		}
	}
	return append(cases, caseOf(plan, "colocated", plan.Tenants...))
}

func caseOf(plan LoadPlan, name string, tenants ...Tenant) StudyCase {
	if plan.Scenario != "" {
		plan.Scenario += "-"
	}
	plan.Scenario += name
	plan.Tenants = slices.Clone(tenants)
	// A tenant alone would otherwise vanish from the totals.
	if len(tenants) == 1 {
		plan.Tenants[0].Probe = false
	}
	return StudyCase{Name: name, Plan: plan}
}
