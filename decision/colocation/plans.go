package colocation

import "embed"

//go:embed plans/*.yaml
var plans embed.FS

// BuiltinPlan returns the text of a plan that is part of the package: "simulated", a chat assistant on a small model
// beside a summariser on a larger one, and "mixed", a server, a training job and a notebook, for a [Simulation];
// "two-models" and "vllm", real servers to start from, for a [Machine].
func BuiltinPlan(name string) ([]byte, bool) {
	text, err := plans.ReadFile("plans/" + name + ".yaml")
	return text, err == nil
}
