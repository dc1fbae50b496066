// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/sharing"
)

// impossible names the mechanisms that pools and workloads ask for and that hardware or delivery cannot give them.
func (pl *answers) impossible() (out []string) {
	for _, cp := range pl.Pools {
		for _, m := range cp.Pool.Mechanisms {
			if why := cp.Target().Denial(m); why.Verdict != filter.VerdictPass {
				out = append(out, fmt.Sprintf("pool %s asks for %s, which cannot be: %s", cp.Pool.Name, m, why))
			}
		}
	}
	denied := func(m sharing.Mechanism, pool, format string, args ...any) {
		if why := pl.denied(m, pool); why != "" {
			out = append(out, fmt.Sprintf(format, args...)+": "+why)
		}
	}
	for _, m := range pl.Opt.Allow {
		denied(m, "", "%s is to be allowed, and no pool can have it", m)
	}
	for _, cw := range pl.Workloads {
		if r := cw.Workload().Request; r != nil {
			denied(r.Mechanism, cw.Workload().Pool, "%s asks for %s, which no pool has", cw.Workload().Name, r.Mechanism)
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
		why := cp.Target().Denial(m)
		if why.Verdict == filter.VerdictPass {
			return ""
		}
		whys = append(whys, why.String())
	}
	slices.Sort(whys)
	return strings.Join(slices.Compact(whys), "; ")
}
