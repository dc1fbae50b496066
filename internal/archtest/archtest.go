// Package archtest holds the import rules of the module (see CONTRIBUTING.md)
// as data, and the check of them.
package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the module's path.
const Module = "github.com/cotenant/cotenant"

const nvml = "github.com/NVIDIA/go-nvml"

// allowed says which of the module's packages each top-level package may
// import (its own subtree apart). A package that is not listed under
// restricted is free.
var allowed = map[string][]string{
	"sharing":   {},
	"loadgen":   {},
	"mig":       {"sharing"},
	"mps":       {"sharing"},
	"timeslice": {"sharing"},
	"telemetry": {"sharing"},
	"cost":      {"sharing"},
	"decision":  {"sharing", "mig", "mps", "timeslice", "cost"},
	// Where measurements become the plain data that decision takes.
	"colocation": {"sharing", "cost", "loadgen", "telemetry", "decision"},
}

// nvmlLeaves are the only packages that may mention go-nvml.
var nvmlLeaves = []string{"mig/mignvml", "telemetry/telemetrynvml", "internal/nvmlret"}

// leaves are packages that no library package may import: drivers that need
// cgo, what is experimental, and doubles for tests.
var leaves = []string{
	"mig/mignvml", "mig/migtest", "mps/mpstest", "mps/mpsv3", "mps/mpsv3/mpsv3test", "loadgen/loadgentest",
	"telemetry/telemetrynvml", "telemetry/telemetrytest",
}

// builtOn names the leaves that are made of another one.
var builtOn = map[string]string{"mps/mpsv3/mpsv3test": "mps/mpstest"}

// uncopied are the examples that still import internal packages.
var uncopied = []string{"examples/benchmark", "examples/cost", "examples/fleet", "examples/monitor", "examples/predict", "examples/timeslice"}

// topLevel are the folders that may stand in the module's root.
var topLevel = []string{
	"sharing", "mig", "mps", "timeslice", "loadgen", "telemetry", "decision", "cost", "colocation",
	"examples", "internal", "tools",
}

// Check returns a sentence for each broken rule. imports maps a package's
// import path to what it imports.
func Check(imports map[string][]string) []string {
	var broken []string
	for pkg, deps := range imports {
		rel := relative(pkg)
		top, _, _ := strings.Cut(rel, "/")
		if rel != "" && !slices.Contains(topLevel, top) {
			broken = append(broken, fmt.Sprintf("%s: %q is not one of the top-level folders", rel, top))
		}
		for _, dep := range deps {
			if why := forbidden(rel, top, dep); why != "" {
				broken = append(broken, fmt.Sprintf("%s imports %s: %s", rel, dep, why))
			}
		}
	}
	slices.Sort(broken)
	return broken
}

func forbidden(rel, top, dep string) string {
	if dep == nvml || strings.HasPrefix(dep, nvml+"/") {
		if !slices.Contains(nvmlLeaves, rel) {
			return "go-nvml needs cgo; only the NVML leaves may mention it"
		}
		return ""
	}
	if strings.HasPrefix(dep, "gonum.org/v1/plot") && top != "examples" {
		return "plotting belongs to the examples"
	}
	if dep != Module && !strings.HasPrefix(dep, Module+"/") {
		return ""
	}
	depRel := relative(dep)
	depTop, _, _ := strings.Cut(depRel, "/")
	if top == "examples" {
		if depTop == "internal" && !slices.Contains(uncopied, rel) {
			return "an example imports public packages only, so that it can be copied"
		}
		return ""
	}
	if depTop == "examples" {
		return "nothing imports an example"
	}
	if slices.Contains(leaves, depRel) && depTop != top {
		return "a leaf is imported by examples and by users only"
	}
	if top == "internal" {
		if depTop != "internal" {
			return "internal packages know nothing of the packages above them"
		}
		return ""
	}
	if depTop == "internal" || depTop == top {
		if depTop == top && slices.Contains(leaves, depRel) && rel != depRel && builtOn[rel] != depRel {
			return "a package must not import its own leaf"
		}
		return ""
	}
	if list, ok := allowed[top]; ok && !slices.Contains(list, depTop) {
		return fmt.Sprintf("%s may import only %v of ours", top, list)
	}
	return ""
}

func relative(pkg string) string {
	return strings.TrimPrefix(strings.TrimPrefix(pkg, Module), "/")
}
