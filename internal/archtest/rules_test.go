// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the module's path.
const Module = "github.com/cotenant/cotenant"

const nvml = "github.com/NVIDIA/go-nvml"

// allowed says of each library package which others of the module it may import, internal ones apart; /... stands for
// a package with those below it. What stands in nobody's list (drivers that need cgo, what is experimental, doubles for
// tests) is for examples and users.
var allowed = map[string][]string{
	"sharing":             {},
	"mig":                 {"sharing"},
	"mig/mignvml":         {"mig", "sharing"},
	"mig/migtest":         {"mig", "sharing"},
	"mig/parted":          {"mig", "sharing"},
	"mps":                 {"sharing"},
	"mps/contention":      {"timeslice"},
	"mps/mpstest":         {"mps", "sharing"},
	"timeslice":           {"sharing"},
	"telemetry":           {"sharing"},
	"telemetry/container": {"sharing"},
	"telemetry/ledger": {
		"cost", "mig", "mps", "sharing", "telemetry", "telemetry/container", "telemetry/serving",
	},
	"telemetry/telemetrynvml": {"telemetry", "sharing"},
	"telemetry/telemetrytest": {"telemetry", "sharing"},
	"telemetry/serving":       {"sharing"},
	"cost":                    {"sharing"},
	"loadgen":                 {"loadgen/internal/wire"},
	"loadgen/internal/wire":   {},
	"loadgen/loadgentest":     {"loadgen"},
	"loadgen/prompt":          {"loadgen"},
	"loadgen/report":          {"loadgen"},
	"decision": {"cost", "decision/fleet", "decision/filter", "decision/internal/...", "decision/layout", "decision/predict/...",
		"mig", "mps", "sharing", "timeslice"},
	"decision/internal/codes":     {"decision/predict/profile", "sharing"},
	"decision/internal/traits":    {"sharing"},
	"decision/internal/objective": {"decision/filter", "decision/internal/codes", "decision/layout", "decision/predict/...", "sharing"},
	"decision/internal/plan": {"cost", "decision/fleet", "decision/filter", "decision/internal/...", "decision/layout", "decision/predict/...",
		"mig", "mps", "sharing"},
	"decision/internal/score": {"cost", "decision/fleet", "decision/filter", "decision/layout", "decision/predict/profile", "sharing"},
	"decision/fleet":          {"cost", "decision/filter", "decision/layout", "decision/predict/profile", "mig", "mps", "sharing", "timeslice"},
	"decision/filter":         {"decision/internal/codes", "decision/internal/traits", "decision/predict/...", "mig", "sharing"},
	"decision/layout":         {"cost", "decision/internal/traits", "mig", "sharing"},

	"decision/predict/profile": {"sharing"},
	"decision/predict":         {"decision/predict/profile", "mps/contention", "sharing", "timeslice"},
	"decision/observe":         {"decision/predict/...", "sharing", "telemetry/serving"},
	"decision/placement":       {"decision/filter", "decision/internal/...", "decision/layout", "decision/predict/...", "mig", "sharing"},
	"decision/pages":           {"cost", "decision", "decision/layout", "decision/migrate", "mig", "sharing"},
	"decision/discover": {"cost", "decision", "decision/fleet", "decision/discover/internal/hami", "decision/discover/internal/nvsmi", "decision/discover/internal/stream", "decision/discover/internal/usage",
		"decision/layout", "decision/observe", "decision/internal/score", "decision/predict/...",
		"mig",
		"sharing", "telemetry", "telemetry/serving"},
	"decision/review":  {"cost", "decision", "decision/discover", "decision/fleet", "decision/layout", "decision/migrate", "decision/predict/profile", "sharing"},
	"decision/migrate": {"cost", "decision", "decision/fleet", "decision/filter", "decision/layout", "decision/internal/score", "decision/predict/...", "mig", "sharing"},
	"decision/manifest": {
		"decision", "decision/fleet", "decision/filter", "decision/layout", "decision/migrate", "mig", "mig/parted", "mps", "sharing",
	},
	"decision/discover/internal/hami":   nil,
	"decision/discover/internal/nvsmi":  {"sharing", "telemetry"},
	"decision/discover/internal/stream": nil,
	"decision/discover/internal/usage":  {"decision/discover/internal/stream", "sharing"},

	"decision/colocation": {
		"cost", "decision/predict/...", "decision/probe", "decision/simgpu", "loadgen", "loadgen/loadgentest",
		"loadgen/prompt", "mps", "sharing", "telemetry", "telemetry/serving",
	},
	"decision/canary": {"decision/predict/profile", "sharing", "telemetry", "telemetry/serving"},
	"decision/guard": {
		"decision", "decision/layout", "decision/predict/...", "loadgen", "sharing", "telemetry", "telemetry/container",
		"telemetry/serving",
	},
	"decision/simgpu": {"decision/predict/...", "loadgen/loadgentest", "mps/contention", "sharing", "timeslice"},

	"decision/predict/copies":  {"decision/predict/profile", "sharing"},
	"decision/probe":           {"decision/predict/...", "sharing", "telemetry", "timeslice"},
	"decision/probe/cudaprobe": {"decision/probe", "mps", "sharing"},
	"loadgen/study":            {"loadgen", "loadgen/loadgentest", "loadgen/prompt", "loadgen/report"},
}

// alone are packages that import nothing of the module, internal ones included.
var alone = []string{"loadgen/internal/wire"}

// nvmlLeaves are the only packages that may mention go-nvml.
var nvmlLeaves = []string{"mig/mignvml", "telemetry/telemetrynvml", "internal/nvmlret"}

// cudaLeaf is the only package with C of its own, which loads the CUDA driver library.
const cudaLeaf = "decision/probe/cudaprobe"

// topLevel are the folders that may stand in the module's root.
var topLevel = []string{
	"sharing", "mig", "mps", "timeslice", "loadgen", "telemetry", "decision", "cost",
	"examples", "internal", "tools",
}

// Check returns a sentence for each broken rule, and for each rule of a package
// that does not exist. imports maps a package's import path to what it imports.
func Check(imports map[string][]string) []string {
	var broken []string
	for pkg, deps := range imports {
		rel := relative(pkg)
		top, _, _ := strings.Cut(rel, "/")
		if rel != "" && !slices.Contains(topLevel, top) {
			broken = append(broken, fmt.Sprintf("%s: %q is not one of the top-level folders", rel, top))
			continue
		}
		if _, ok := allowed[rel]; isLibrary(rel) && !ok {
			broken = append(broken, fmt.Sprintf("%s: say in archtest which packages it may import", rel))
			continue
		}
		for _, dep := range deps {
			if why := forbidden(rel, top, dep); why != "" {
				broken = append(broken, fmt.Sprintf("%s imports %s: %s", rel, dep, why))
			}
		}
	}
	for rel := range allowed {
		if _, ok := imports[Module+"/"+rel]; !ok {
			broken = append(broken, fmt.Sprintf("%s: archtest has a rule for it, and there is no such package", rel))
		}
	}
	slices.Sort(broken)
	return broken
}

// isLibrary says whether a package is one that users import.
func isLibrary(rel string) bool {
	top, _, _ := strings.Cut(rel, "/")
	return rel != "" && !slices.Contains([]string{"examples", "internal", "tools"}, top)
}

func forbidden(rel, top, dep string) string {
	if dep == nvml || strings.HasPrefix(dep, nvml+"/") {
		if !slices.Contains(nvmlLeaves, rel) {
			return "go-nvml needs cgo; only the NVML leaves may mention it"
		}
		return ""
	}
	if dep == "C" && rel != cudaLeaf {
		return "only " + cudaLeaf + " has C of its own"
	}
	if dep != Module && !strings.HasPrefix(dep, Module+"/") {
		return ""
	}
	dep = relative(dep)
	depTop, _, _ := strings.Cut(dep, "/")
	switch {
	case top == "examples" && depTop == "internal":
		return "an example imports public packages only, so that it can be copied"
	case top == "examples":
		return ""
	case depTop == "examples":
		return "nothing imports an example"
	case slices.Contains(alone, rel):
		return "it stands alone"
	case depTop == "internal":
		return ""
	case top == "internal":
		return "internal packages know nothing of the packages above them"
	case !slices.ContainsFunc(allowed[rel], func(rule string) bool {
		above, all := strings.CutSuffix(rule, "/...")
		return above == dep || all && strings.HasPrefix(dep, above+"/")
	}):
		return fmt.Sprintf("it may import only %v of ours", allowed[rel])
	}
	return ""
}

func relative(pkg string) string {
	return strings.TrimPrefix(strings.TrimPrefix(pkg, Module), "/")
}
