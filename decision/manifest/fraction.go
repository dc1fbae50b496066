package manifest

import (
	"fmt"
	"strconv"

	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/sharing"
)

// processLimit is the memory that one process may use, in whole mebibytes, or 0 where there is no limit.
func (m *member) processLimit() sharing.Bytes {
	limit, err := mps.LimitPerProcess(m.memory, m.processes())
	if err != nil {
		return 0
	}
	return limit
}

// advice is the memory fraction for the workload's framework, or 0 where nothing is shared or a figure is missing.
func (m *member) advice(f mps.ServingFramework) float64 {
	limit, total := m.processLimit(), m.total()
	enforcer := mps.EnforcerMPS
	switch m.Mechanism {
	case sharing.MechanismMIG, sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS:
		// The total that the framework sees is the limit itself.
		enforcer, limit, total = mps.EnforcerHAMi, sharing.GiB, sharing.GiB
	case sharing.MechanismTimeSlicing:
		// The whole GPU is in sight, as for vLLM under MPS, whatever is free.
		f = mps.ServingVLLM
	case sharing.MechanismMPS, sharing.MechanismMIGWithMPS, sharing.MechanismMIGLikeEmulation:
	default:
		return 0
	}
	a, err := mps.MemoryFraction(f, enforcer, limit, total)
	if err != nil {
		return 0
	}
	return a.Recommended
}

// fractionArgs returns the memory-fraction option of the workload's framework, or nil.
func (b *builder) fractionArgs(m *member) []string {
	var f mps.ServingFramework
	if f.UnmarshalText([]byte(m.framework().Name)) != nil {
		return nil
	}
	fraction := m.fraction
	if fraction == 0 {
		fraction = m.advice(f)
	}
	if fraction > 0 {
		return []string{f.Flag(), formatFloat(fraction)}
	}
	if shared(m.Mechanism) || m.Mechanism == sharing.MechanismVGPU {
		b.warn(sharing.Warning{Code: WarnFractionUnknown, Path: m.name, Source: "dynamo-mps-limits",
			Message: fmt.Sprintf("no %s is written, for the memory that it is a fraction of, or the workload's share of it, "+
				"is not known or leaves nothing; the framework would take most of the GPU", f.Flag()),
			Remedy: "give the workload's memory and the GPU's"})
	}
	return nil
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
