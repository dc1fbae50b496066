package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/gate"
)

// impossible names the mechanisms that pools and workloads ask for and that hardware or delivery cannot give them.
func (pl *answers) impossible() (out []string) {
	for _, cp := range pl.Pools {
		for _, m := range cp.Pool.Mechanisms {
			if why := cp.Ground().Denial(m); why.Verdict != gate.VerdictPass {
				out = append(out, fmt.Sprintf("pool %s asks for %s, which cannot be: %s", cp.Pool.Name, m, why))
			}
		}
	}
	for _, cw := range pl.Workloads {
		asked := cw.Workload().Request
		if asked == nil {
			continue
		}
		var whys []string
		possible := false
		for _, cp := range pl.Pools {
			if cw.Workload().Pool != "" && cw.Workload().Pool != cp.Pool.Name {
				continue
			}
			why := cp.Ground().Denial(asked.Mechanism)
			possible = possible || why.Verdict == gate.VerdictPass
			whys = append(whys, why.String())
		}
		if !possible && len(whys) > 0 {
			slices.Sort(whys)
			out = append(out, fmt.Sprintf("%s asks for %s, which no pool has: %s", cw.Workload().Name, asked.Mechanism,
				strings.Join(slices.Compact(whys), "; ")))
		}
	}
	return out
}
