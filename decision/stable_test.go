// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/sharing"
)

// move moves every figure of a fleet by a random part of it, at most by so much, in a copy of its own.
func move(rng *rand.Rand, v reflect.Value, by float64) {
	factor := 1 + by*(2*rng.Float64()-1)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			v.Set(own)
			move(rng, own.Elem(), by)
		}
	case reflect.Slice:
		v.Set(reflect.AppendSlice(reflect.Zero(v.Type()), v))
		for i := range v.Len() {
			move(rng, v.Index(i), by)
		}
	case reflect.Struct:
		if m, ok := v.Addr().Interface().(*cost.Money); ok {
			*m, _ = cost.FromMicros(int64(float64(m.Micros())*factor), m.Currency())
		} else if missing := v.Addr().MethodByName("IsZero"); missing.IsValid() && missing.Call(nil)[0].Bool() {
			return
		} else if at, ok := optional.Fill(v.Addr().Interface()); ok {
			move(rng, reflect.ValueOf(at).Elem(), by)
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type() != reflect.TypeFor[sharing.Driver]() {
				move(rng, v.Field(i), by)
			}
		}
	case reflect.Float64:
		to := v.Float() * factor
		if v.Float() <= 1 { // a share
			to = min(to, 1)
		}
		v.SetFloat(to)
	case reflect.Int64, reflect.Int: // small numbers stay
		v.SetInt(int64(float64(v.Int())*factor + 0.5))
	}
}

// moved is a fleet of which every figure is moved by up to 2%.
func moved(rng *rand.Rand, f *Fleet) *Fleet {
	move(rng, reflect.ValueOf(&f).Elem(), 0.02)
	for i := range f.Workloads { // the peak is at least the mean
		if w := &f.Workloads[i]; !w.PeakBusy.IsZero() && w.PeakBusy.Or(0) < w.GPUBusy.Or(0) {
			w.PeakBusy = w.GPUBusy
		}
	}
	return f
}

// crossed reports whether a limit lies between two answers for a workload: what one of them chose is not open to the
// other, or holds another number of tenants there.
func crossed(b, a *Decision) bool {
	lacks := func(chose, other *Decision) bool {
		return slices.ContainsFunc(chose.Candidates, func(c Candidate) bool {
			return c.Chosen && !slices.ContainsFunc(other.Candidates, func(o Candidate) bool {
				return o.Pool == c.Pool && o.Mechanism == c.Mechanism && o.Profile == c.Profile &&
					o.Verdict == c.Verdict && o.Tenants == c.Tenants
			})
		})
	}
	return lacks(b, a) || lacks(a, b)
}

// TestAnswersAreStable: where every number of a fleet is off by up to 2%, at most 4 of 1,000 statuses change, and as
// many mechanisms where no limit is crossed. Where one is, such as where work keeps just KeepsRate of its isolated rate,
// or just not, mechanisms change a little more often.
func TestAnswersAreStable(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(51, 52))
	var fleets []*Fleet
	for _, c := range readCorpus(t) {
		fleets = append(fleets, &c.Fleet)
	}
	for range 20 {
		fleets = append(fleets, smallFleet(rng))
	}
	answers, statuses, mechanisms, free := 0, 0, 0, 0 // free: of the mechanisms, where no limit is crossed
	for _, f := range fleets {
		before := decide(t, f)
		for range nightly.Cases(1, 50) {
			after := decide(t, moved(rng, f))
			limit, changed := false, 0
			for k := range before.Decisions {
				b, a := &before.Decisions[k], &after.Decisions[k]
				answers++
				limit = limit || crossed(b, a)
				if a.Mechanism != b.Mechanism || a.Profile != b.Profile {
					changed++
				}
				if a.Status != b.Status {
					statuses++
					t.Logf("%s: %s (%s) becomes %s (%s)", b.Workload, b.Status, b.Why, a.Status, a.Why)
				}
			}
			if mechanisms += changed; !limit {
				free += changed
			}
		}
	}
	t.Logf("%d answers: %d statuses and %d mechanisms change, %d at no limit", answers, statuses, mechanisms, free)
	if 1000*statuses > 4*answers || mechanisms > 2+9*answers/1000 || free > 2+4*answers/1000 || answers < nightly.Cases(100, 5000) {
		t.Errorf("of %d answers %d statuses and %d mechanisms change, %d at no limit", answers, statuses, mechanisms, free)
	}
}
