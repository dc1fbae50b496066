package manifest

import (
	"fmt"
	"strconv"

	"github.com/cotenant/cotenant/sharing"
)

// fractionFlags are the options with which frameworks take a share of memory.
var fractionFlags = map[string]string{
	"vllm":   "--gpu-memory-utilization",
	"sglang": "--mem-fraction-static",
	"tgi":    "--cuda-memory-fraction",
}

// hamiFraction is right where the framework sees its limit as the total: under
// HAMi and on a MIG instance (DYN-README gives 0.85 to 0.9).
const hamiFraction = 0.85

// mpsMargin is what is left of limit/total under MPS: Dynamo gives 0.65 for 56
// of 80 GiB, which is 0.93 of 0.70 (DYN-LIM).
const mpsMargin = 0.93

// fractionArgs returns the framework's memory-fraction option for w, or nil.
func (g *Group) fractionArgs(w *Workload) ([]string, []sharing.Warning) {
	flag := fractionFlags[w.Framework.Name]
	if flag == "" {
		return nil, nil
	}
	limit := g.visibleFraction(w)
	given := w.Framework.MemoryFraction
	var ws []sharing.Warning
	switch {
	case given == 0 && limit == 0:
		if w.Mechanism == sharing.Exclusive || w.Mechanism == sharing.InServer {
			return nil, nil
		}
		return nil, []sharing.Warning{{Code: WarnFractionUnknown, Path: w.Name, Source: "DYN-LIM",
			Message: fmt.Sprintf("no %s is written, for the GPU's memory or the workload's share of it is not known; the framework will take most of the GPU", flag),
			Remedy:  "give the workload's memory and the GPU's"}}
	case given == 0:
		return []string{flag, formatFraction(limit)}, nil
	case limit > 0 && given > g.maxFraction(w):
		ws = append(ws, sharing.Warning{Code: WarnFractionTooLarge, Path: w.Name, Source: "DYN-LIM",
			Message: fmt.Sprintf("a fraction of %s is more than the share of %v that the workload may use", formatFraction(given), formatFraction(g.maxFraction(w))),
			Remedy:  fmt.Sprintf("use %s", formatFraction(limit))})
	}
	return []string{flag, formatFraction(given)}, ws
}

func formatFraction(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// total is the memory that w's processes see as the whole.
func (g *Group) total(w *Workload) sharing.Bytes {
	if usesMIG(w.Mechanism) {
		return g.profileMemory(w.Profile)
	}
	return g.memory()
}

// processLimit is the memory that one process of w may use, or 0.
func (g *Group) processLimit(w *Workload) sharing.Bytes {
	b := w.Memory
	if b == 0 && usesMPS(w.Mechanism) && g.clients() > 0 {
		return g.total(w) / sharing.Bytes(g.clients())
	}
	return b / sharing.Bytes(max(w.Framework.Processes, 1)) / sharing.MiB * sharing.MiB
}

// maxFraction is the most that w may take of what it sees as the total.
func (g *Group) maxFraction(w *Workload) float64 {
	if ratio := g.ratio(w); ratio > 0 {
		return min(ratio, 1)
	}
	return 1
}

// ratio is limit over total, or 0 where the framework sees the limit itself as
// the total or one of the two is not known.
func (g *Group) ratio(w *Workload) float64 {
	switch {
	case w.Framework.Name == "sglang" && usesMPS(w.Mechanism):
		return 0 // it measures against what is free, which is the limit
	case usesMPS(w.Mechanism), w.Mechanism == sharing.TimeSlicing:
		limit, total := g.processLimit(w), g.total(w)
		if limit == 0 || total == 0 {
			return 0
		}
		return float64(limit) / float64(total)
	}
	return 0
}

// visibleFraction is the fraction to give w's framework, rounded down to two
// decimals, or 0 where it cannot be known or there is no limit.
func (g *Group) visibleFraction(w *Workload) float64 {
	switch {
	case w.Mechanism == sharing.MIG, w.Mechanism == sharing.HAMi, w.Mechanism == sharing.HAMiWithMPS:
		return hamiFraction
	case w.Framework.Name == "sglang" && usesMPS(w.Mechanism) && g.processLimit(w) > 0:
		return hamiFraction
	}
	return floor2(min(g.ratio(w), 1) * mpsMargin)
}
