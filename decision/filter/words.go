// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/decision/internal/traits"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Short returns, in a few words without numbers, why nodes refuse a request, to group nodes by reason; empty for a code
// that does not concern nodes.
func (c Code) Short() string {
	if c >= codes.Count {
		return ""
	}
	return codes.Words[c].Short
}

// String puts the reason into words.
func (r Reason) String() string {
	if r.Code >= codes.Count {
		return r.Code.String()
	}
	text := codes.Words[r.Code].Text
	if alone := codes.Words[r.Code].Alone; alone != "" && r.target == nil {
		text = alone
	}
	return os.Expand(text, r.figure)
}

// figure writes one operand of a reason for a sentence: an amount in a unit, or one of figures.
func (r *Reason) figure(name string) string {
	of, unit, _ := strings.Cut(name, ".")
	amount, is := map[string]int64{"need": r.Need, "have": r.Have, "high": r.High}[of]
	if write := units[unit]; is && write != nil {
		return write(amount)
	}
	if write := figures[name]; write != nil {
		return write(r, cmp.Or(r.demand, noDemand), cmp.Or(r.target, noTarget))
	}
	return ""
}

var noDemand, noTarget = &Demand{}, &Target{} // of reasons without them
var units = map[string]func(int64) string{
	"":        func(v int64) string { return fmt.Sprint(v) },
	"bytes":   func(v int64) string { return sharing.Bytes(v).String() },
	"share":   share,
	"ms":      func(v int64) string { return plaintext.Digits(millis(v)) },
	"percent": func(v int64) string { return fmt.Sprintf("%.0f", float64(v)/10) },
}

var figures = map[string]func(r *Reason, d *Demand, t *Target) string{
	"overloaded": func(r *Reason, _ *Demand, _ *Target) string { return overloaded(r.Have) },
	"memory":     func(r *Reason, d *Demand, _ *Target) string { return d.Memory.text(sharing.Bytes(r.Need)) },
	"pool":       func(_ *Reason, _ *Demand, t *Target) string { return t.name },
	"pinned":     func(_ *Reason, d *Demand, _ *Target) string { return d.Pool },
	"kind":       func(_ *Reason, d *Demand, _ *Target) string { return d.Kind },
	"mechanism":  func(r *Reason, _ *Demand, _ *Target) string { return r.Mechanism.String() },
	"available":  func(r *Reason, _ *Demand, t *Target) string { return t.available[r.Mechanism].Text },
	"axis":       func(r *Reason, _ *Demand, _ *Target) string { return r.Axis.String() },
	"level":      func(r *Reason, _ *Demand, _ *Target) string { return r.Level.String() },
	"level.here": func(r *Reason, _ *Demand, t *Target) string { return t.isolation[r.Mechanism][r.Axis].Level.String() },
	"isolation":  func(r *Reason, _ *Demand, t *Target) string { return t.isolation[r.Mechanism][r.Axis].Text },
	"today":      func(_ *Reason, d *Demand, _ *Target) string { return d.Today.String() },
	"a.gpu":      func(_ *Reason, _ *Demand, t *Target) string { return problem.A(t.gpuName()) },
	"framework":  func(_ *Reason, d *Demand, _ *Target) string { return d.Framework },
	"metric":     func(r *Reason, _ *Demand, _ *Target) string { return codes.ObjectiveName(r.Metric) },
	"predicted":  func(r *Reason, _ *Demand, _ *Target) string { return predicted(r) },
	"fraction":   func(_ *Reason, d *Demand, _ *Target) string { return fmt.Sprintf("%.2f", d.MemoryFraction.Or(0)) },
	"fraction.bytes": func(r *Reason, d *Demand, _ *Target) string {
		return sharing.Bytes(d.MemoryFraction.Or(0) * float64(r.Have)).String()
	},
	"fraction.needed": func(r *Reason, _ *Demand, _ *Target) string {
		return fmt.Sprintf("%.2f", math.Ceil(100*float64(r.Need)/float64(max(1, r.Have)))/100)
	},
	"not.delivered": func(r *Reason, _ *Demand, t *Target) string {
		if t.delivery == sharing.DeliveryBare {
			return fmt.Sprintf("pool %s states no delivery that carries out %s; state it once it is installed, or list the "+
				"mechanism", t.name, r.Mechanism)
		}
		return fmt.Sprintf("delivery %s of pool %s does not carry out %s: %s", t.delivery, t.name, r.Mechanism,
			sharing.Delivers(t.delivery, r.Mechanism).Text)
	},
	"over.nodes": func(r *Reason, d *Demand, _ *Target) string {
		if d.NeverShares && r.Mechanism == sharing.MechanismExclusive {
			return "; write a gang over several nodes as replicas, one a node"
		}
		return ""
	},
	"span.shares": func(r *Reason, _ *Demand, _ *Target) string {
		switch {
		case traits.Of(r.Mechanism).Sliced:
			return ", and MIG instances cannot reach one another"
		case r.Mechanism == sharing.MechanismTimeSlicing || r.Mechanism == sharing.MechanismMPS:
			return ", and the device plugin may put several shares of one replica on one of them"
		}
		return fmt.Sprintf(", and shares of several by %s are not planned: its ranks wait for one another, and what "+
			"neighbours on each do to that was not measured", r.Mechanism)
	},
	"who.fits": func(r *Reason, _ *Demand, _ *Target) string {
		if r.Verdict == VerdictPass {
			return ": a whole GPU of its own is the only place that needs no neighbour's memory to fit"
		}
		return ", so nobody knows who fits next to it; measure its most memory in use and state it"
	},
	"where": func(r *Reason, _ *Demand, t *Target) string {
		if r.Profile != nil {
			return r.Profile.Name + " of " + t.gpuName()
		}
		return t.gpuName()
	},
	"slice": func(r *Reason, _ *Demand, _ *Target) string {
		if r.Profile == nil {
			return "a slice"
		}
		return r.Profile.Name
	},
	"slice.memory": func(r *Reason, _ *Demand, _ *Target) string {
		return cmp.Or(r.Profile, &mig.Profile{}).Memory.Value.String()
	},
	"slice.count": func(r *Reason, _ *Demand, _ *Target) string {
		return fmt.Sprint(cmp.Or(r.Profile, &mig.Profile{}).MaxInstances)
	},
	"slower": func(r *Reason, d *Demand, t *Target) string {
		law := "as programs on A100 slices do"
		if d.Decodes {
			law = "by its share of the memory bandwidth"
		}
		return fmt.Sprintf("%.2f times slower there %s", t.slowdown(r.Profile, d), law)
	},
}
