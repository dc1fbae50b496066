package colocation

import _ "embed"

//go:embed plans/simulated.yaml
var simulatedPlan string

//go:embed plans/two-models.yaml
var planTemplate string

// SimulatedPlan returns the text of a plan for a [Simulation]: a chat assistant on a
// small model beside a summariser on a larger one.
func SimulatedPlan() []byte { return []byte(simulatedPlan) }

// PlanTemplate returns the text of a plan of real servers to start from.
func PlanTemplate() []byte { return []byte(planTemplate) }
