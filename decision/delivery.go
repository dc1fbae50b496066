// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/sharing"
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
	for _, m := range pl.Opt.Allow {
		if why := pl.denied(m, ""); why != "" {
			out = append(out, fmt.Sprintf("%s is to be allowed, and no pool can have it: %s", m, why))
		}
	}
	for _, cw := range pl.Workloads[:pl.Asked] {
		asked := cw.Workload().Request
		if asked == nil {
			continue
		}
		if why := pl.denied(asked.Mechanism, cw.Workload().Pool); why != "" {
			out = append(out, fmt.Sprintf("%s asks for %s, which no pool has: %s", cw.Workload().Name, asked.Mechanism, why))
		}
	}
	return out
}

// denied returns the reasons against a mechanism in all pools, or in the named one; "" if a pool can run it.
func (pl *answers) denied(m sharing.Mechanism, pool string) string {
	var whys []string
	for _, cp := range pl.Pools {
		if pool != "" && pool != cp.Pool.Name {
			continue
		}
		why := cp.Ground().Denial(m)
		if why.Verdict == gate.VerdictPass {
			return ""
		}
		whys = append(whys, why.String())
	}
	slices.Sort(whys)
	return strings.Join(slices.Compact(whys), "; ")
}
