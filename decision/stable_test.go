// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"math/rand/v2"
	"reflect"
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

// TestAnswersAreStable: where every number of a fleet is off by up to 2%, at most 4 of 1,000 statuses change. Mechanisms
// may change a little more often: where one keeps just KeepsRate of an isolated rate, or just not, by the number.
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
	answers, statuses, mechanisms := 0, 0, 0
	for _, f := range fleets {
		before := decide(t, f)
		for range nightly.Cases(1, 50) {
			after := decide(t, moved(rng, f))
			for k := range before.Decisions {
				b, a := &before.Decisions[k], &after.Decisions[k]
				answers++
				if a.Mechanism != b.Mechanism || a.Profile != b.Profile {
					mechanisms++
				}
				if a.Status != b.Status {
					statuses++
					t.Logf("%s: %s (%s) becomes %s (%s)", b.Workload, b.Status, b.Why, a.Status, a.Why)
				}
			}
		}
	}
	t.Logf("%d answers: %d statuses and %d mechanisms change", answers, statuses, mechanisms)
	if 1000*statuses > 4*answers || 1000*mechanisms > 15*answers || answers < nightly.Cases(100, 5000) {
		t.Errorf("of %d answers %d statuses and %d mechanisms change", answers, statuses, mechanisms)
	}
}
