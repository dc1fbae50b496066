package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/internal/plan"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/sharing"
)

// Installing tells the saving of a delivery that pools do not have: the fleet
// decided again with the mechanisms that it brings.
type Installing struct {
	Delivery   sharing.Delivery    `json:"delivery"`
	Mechanisms []sharing.Mechanism `json:"mechanisms"`
	Pools      []string            `json:"pools"`
	GPUsAfter  int                 `json:"gpus_after"`
	GPUsFreed  int                 `json:"gpus_freed"` // beyond those of the answer
	// MonthlyFreed is an exact decimal, beyond that of the answer; absent without prices.
	MonthlyFreed string `json:"monthly_freed,omitempty"`
	Currency     string `json:"currency,omitempty"`
}

// String is the saving in a line.
func (in *Installing) String() string {
	freed := plaintext.Count(in.GPUsFreed, "GPU") + " more"
	if in.MonthlyFreed != "" {
		freed = fmt.Sprintf("%s %s a month and %s", cents(in.MonthlyFreed), in.Currency, freed)
	}
	return fmt.Sprintf("installing %s on %s would free %s", in.Delivery,
		plaintext.Some(in.Pools, mostTenants, len(in.Pools)), freed)
}

// installable are deliveries with the mechanisms that the driver alone has not.
var installable = []struct {
	delivery   sharing.Delivery
	mechanisms []sharing.Mechanism
}{
	{sharing.DeliveryHAMi, []sharing.Mechanism{sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS}},
	{sharing.DeliveryDRA, []sharing.Mechanism{sharing.MechanismMIGWithMPS}},
}

// installing fills in what the best of the installable deliveries would save. A
// pool whose mechanisms are listed stays as it is.
func (pl *answers) installing(f *Fleet, r *Result) error {
	for _, in := range installable {
		larger, names := *f, []string(nil)
		larger.Pools = slices.Clone(f.Pools)
		for i := range larger.Pools {
			p := &larger.Pools[i]
			at := slices.IndexFunc(pl.Pools, func(cp *CompiledPool) bool { return cp.Pool.Name == p.Name })
			ground := pl.Pools[at].Ground()
			var brought []sharing.Mechanism
			for _, m := range in.mechanisms {
				if ground.Denial(m).Code == gate.CodeNotDelivered {
					brought = append(brought, m)
				}
			}
			if len(p.Mechanisms) > 0 || len(brought) == 0 {
				continue
			}
			for _, m := range sharing.Mechanisms() {
				if ground.Denial(m).Verdict == gate.VerdictPass {
					brought = append(brought, m)
				}
			}
			p.Mechanisms, p.Delivery = brought, sharing.DeliveryBare
			names = append(names, p.Name)
		}
		if len(names) == 0 {
			continue
		}
		other, err := plan.NewPlan(&larger, pl.Opt, 1)
		if err != nil {
			return err
		}
		// The same workloads meet on the same GPUs.
		other.Seen, other.Outlooks, other.Simulated = pl.Seen, pl.Outlooks, pl.Simulated
		if err := other.Plan(f.Trust); err != nil {
			return err
		}
		then, err := (&answers{Planner: other}).result()
		if err != nil {
			return err
		}
		found, err := r.freedBy(then)
		if err != nil {
			return err
		}
		if found == nil || r.Installing != nil && found.GPUsFreed <= r.Installing.GPUsFreed {
			continue
		}
		users := then.running(in.mechanisms...)
		found.Delivery, found.Mechanisms = in.delivery, in.mechanisms
		found.Pools = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(users, n) })
		r.Installing = found
	}
	return nil
}

// freedBy compares with another answer for the same workloads that frees more, nil
// where that is nothing or it places fewer replicas.
func (r *Result) freedBy(then *Result) (*Installing, error) {
	for i := range r.Decisions {
		if then.Decisions[i].Placed < r.Decisions[i].Placed {
			return nil, nil
		}
	}
	now, after := &r.Totals, &then.Totals
	in := &Installing{GPUsAfter: after.GPUsAfter, GPUsFreed: now.GPUsAfter - after.GPUsAfter}
	if now.MonthlyAfter == "" || after.MonthlyAfter == "" {
		if in.GPUsFreed <= 0 {
			return nil, nil
		}
		return in, nil
	}
	var s sums
	before := s.of(cost.ParseMoney(now.MonthlyAfter + " " + now.Currency))
	freed := s.of(before.Sub(s.of(cost.ParseMoney(after.MonthlyAfter + " " + after.Currency))))
	if s.err != nil || freed.Sign() <= 0 {
		return nil, s.err
	}
	in.MonthlyFreed, in.Currency = freed.Decimal(), freed.Currency()
	return in, nil
}

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
