package manifest

import (
	"fmt"
	"strconv"

	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
)

// total is the memory that w's processes see as the whole, or 0.
func (g *Group) total(w *Workload) sharing.Bytes {
	if usesMIG(w.Mechanism) {
		return g.profileMemory(w.Profile)
	}
	return g.memory()
}

// processLimit is the memory that one process of w may use, in whole
// mebibytes, or 0 where there is no limit.
func (g *Group) processLimit(w *Workload) sharing.Bytes {
	b := w.Memory
	if b == 0 && g.byPlugin() && usesMPS(w.Mechanism) {
		return mps.PluginShare{Replicas: g.clients(), Total: g.memory()}.PinnedMemoryLimit()
	}
	limit, err := mps.LimitPerProcess(b, max(w.Framework.Processes, 1))
	if err != nil {
		return 0
	}
	return limit
}

// advice is the memory fraction for w's framework, or nil where it has no such
// option, where nothing is shared, or where a figure is missing.
func (g *Group) advice(w *Workload, f mps.Framework) *mps.FractionAdvice {
	limit, total := g.processLimit(w), g.total(w)
	enforcer := mps.EnforcerMPS
	switch w.Mechanism {
	case sharing.MechanismMIG, sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		// The total that the framework sees is the limit itself.
		enforcer, limit, total = mps.EnforcerHAMi, sharing.GiB, sharing.GiB
	case sharing.MechanismTimeSlicing:
		// The whole GPU is in sight, as for vLLM under MPS, whatever is free.
		f = mps.VLLM
	case sharing.MechanismMPS, sharing.MechanismMIGWithMPS, sharing.MechanismMIGLikeEmulation:
	default:
		return nil
	}
	a, err := mps.MemoryFraction(f, enforcer, limit, total)
	if err != nil {
		return nil
	}
	if w.Mechanism == sharing.MechanismMIG {
		// Nobody else is on the instance, so a larger fraction harms nobody.
		a.Max, a.Why = 1, "the instance's memory is the total that the framework sees"
	}
	return &a
}

// fractionArgs returns the memory-fraction option of w's framework, or nil.
func (g *Group) fractionArgs(w *Workload) ([]string, []sharing.Warning) {
	var f mps.Framework
	if f.UnmarshalText([]byte(w.Framework.Name)) != nil {
		return nil, nil
	}
	given, advice := w.Framework.MemoryFraction, g.advice(w, f)
	switch {
	case given == 0 && advice != nil:
		return []string{f.Flag(), formatFraction(advice.Recommended)}, nil
	case given == 0 && (shared(w.Mechanism) || w.Mechanism == sharing.MechanismVGPU):
		return nil, []sharing.Warning{{Code: WarnFractionUnknown, Path: w.Name, Source: "dynamo-mps-limits",
			Message: fmt.Sprintf("no %s is written, for the memory that it is a fraction of, or the workload's share of it, is not known or leaves nothing; the framework would take most of the GPU", f.Flag()),
			Remedy:  "give the workload's memory and the GPU's"}}
	case given == 0:
		return nil, nil
	}
	var ws []sharing.Warning
	if advice != nil && given > advice.Max {
		ws = append(ws, sharing.Warning{Code: WarnFractionTooLarge, Path: w.Name, Source: advice.Source,
			Message: fmt.Sprintf("a fraction of %s is more than the %s that it may be at most: %s", formatFraction(given), formatFraction(advice.Max), advice.Why),
			Remedy:  "use " + formatFraction(advice.Recommended)})
	}
	return []string{f.Flag(), formatFraction(given)}, ws
}

func formatFraction(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
