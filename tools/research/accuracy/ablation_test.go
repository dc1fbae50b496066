// SPDX-License-Identifier: Apache-2.0

package accuracy_test

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/costs"
	"github.com/cotenant/cotenant/internal/nightly"
	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
)

// neutral holds, for each constant that predictions from measurements use, the value at which it has no effect. Of
// Launched.Busy it is one that few servers are below: at 0 none would be predicted from its share of a step.
var neutral = map[*costs.Constant]float64{
	&ofSlices.SliceLoss: 0, &ofSlices.HostPerToken: 0, &ofSlices.BatchDoubling: 0,
	&ofSlices.PrefillTokens: 1e9, &ofSlices.PrefillBusy: 1, &ofSlices.PrefillCatchUp: 1,
	&ofMPS.KernelBandwidth: 1, &ofMPS.MemoryBlocking: 1, &ofMPS.QueueShare: 0, &ofMPS.BatchWaits: 0,
	&ofMPS.PrefillWaits: 1, &ofMPS.Arbitration: 0, &ofMPS.CapExponent: 0, &ofMPS.CappedReading: 0, &ofMPS.CappedBlocking: 1,
	&ofMPS.CappedAlone: 1, &ofMPS.FillsGPU: 1,
	&ofSteps.Jitter: 0, &ofSteps.ClientDelay: 0, &ofSteps.HostError: 0, &ofSteps.PrefillError: 0, &ofSteps.GPMError: 0,
	&ofSteps.DecodeOfTPOT: 1, &ofSteps.LeastOfFirst: 0, &ofSteps.LoneError: 0, &ofSteps.UsualTail: 1, &ofSteps.UsualDoublings: 0,
	&ofSteps.Spared: 0, &ofLaunches.Busy: 0.3, &ofLaunches.BusyPrefilling: 1, &ofLaunches.Between: 0, &ofLaunches.SharedCore: 1,
	&ofLaunches.Gapless: 1, &costs.Table.SMs.Filling: 1, &costs.Table.SMs.LinkHalf: 1e9, &costs.Table.SMs.Usual: 1,
	&costs.Table.Edges.Alike: 1, &costs.Table.Edges.Larger: 1e9, &costs.Table.Edges.Doubt: 0,
	&costs.Table.Edges.MostMoved: 0, &costs.Table.Response.Exponent: 1, &costs.Table.Response.MostSMs: 1,
	&costs.Table.Response.Agreed: 0, &costs.Table.Doubts.Usual: 0, &costs.Table.Doubts.CoLocated: 0,
}

var (
	ofSlices, ofMPS     = &costs.Table.Slices, &costs.Table.MPS
	ofSteps, ofLaunches = &costs.Table.Steps, &costs.Table.Launched
)

// lacking removes from rows what profiles must lack for a constant to be used at all: the other rows of the series have it.
var lacking = map[*costs.Constant]func(profile.Rows) profile.Rows{
	&costs.Table.SMs.LinkHalf:     func(rows profile.Rows) profile.Rows { return withoutSMs(rows, false) },
	&costs.Table.SMs.Usual:        func(rows profile.Rows) profile.Rows { return withoutSMs(rows, true) },
	&costs.Table.Doubts.CoLocated: func(rows profile.Rows) profile.Rows { return withoutSMs(rows, true) },
	&ofMPS.CapExponent: func(rows profile.Rows) profile.Rows {
		return slices.DeleteFunc(rows, func(r profile.Row) bool { return r.Tenants == 1 && r.Server.SMPercent.Or(100) < 100 })
	},
}

// withoutSMs removes GPM's share of the SMs from profiles, and the pressure that could be used in its place.
func withoutSMs(rows profile.Rows, pressure bool) profile.Rows {
	for i := range rows {
		if rows[i].Tenants == 1 {
			rows[i].GPM.SMUtil = sharing.Optional[float64]{}
			if pressure {
				rows[i].Pressure = nil
			}
		}
	}
	return rows
}

// ablated holds the errors of one class of rows.
type ablated struct {
	errs []float64 // absolute and relative
	in   float64   // rows in their intervals
}

// mean and at are the mean of the errors and a quantile of them, in percent; inside is the share of rows in their
// intervals, in percent.
func (a *ablated) mean() float64 {
	sum := 0.0
	for _, e := range a.errs {
		sum += e
	}
	return 100 * sum / float64(len(a.errs))
}
func (a *ablated) at(q float64) float64 {
	slices.Sort(a.errs)
	return 100 * stats.NearestRank(a.errs, q)
}
func (a *ablated) inside() float64 { return 100 * a.in / float64(len(a.errs)) }

// errorsByClass predicts the main figure of all classes of foreign software, of servers that the constants describe, with
// and without percentages, and of first tokens, without calibration on any row; under some mechanisms, from the rows
// that lack leaves.
func errorsByClass(t *testing.T, lack func(profile.Rows) profile.Rows, under ...sharing.Mechanism) map[string]*ablated {
	t.Helper()
	out := map[string]*ablated{}
	add := func(class string, m predict.Measured, of profile.Metric) {
		got, ok := m.Row.Metric(of)
		if m.Prediction == nil || !ok {
			return
		}
		v, ok := m.Prediction.Get(of)
		if !ok {
			return
		}
		name := m.Row.Mechanism.String() + ", " + class
		a := out[name]
		if a == nil {
			a = &ablated{}
			out[name] = a
		}
		a.errs = append(a.errs, math.Abs(v.Value/got-1))
		if v.Contains(got) {
			a.in++
		}
	}
	for _, files := range [][]string{foreignFiles, engineFiles} {
		measuredCases(t, files, under, lack, func(m predict.Measured, c profile.Case, _ []*profile.Profiles) {
			add(classOf(&m, c.Rows), m, m.Row.Kind.MainMetric())
			add(allClasses, m, m.Row.Kind.MainMetric())
			add("first tokens of classes", m, profile.MetricTTFTP50)
			add("tails of first tokens", m, profile.MetricTTFTP99)
		})
	}
	for _, name := range allSeries {
		rows := lack(rowsOf(t, name+".json"))
		rows = slices.DeleteFunc(rows, func(r profile.Row) bool { return r.Tenants > 1 && !slices.Contains(under, r.Mechanism) })
		p := predict.NewPredictor()
		if len(rows) > 0 {
			p = p.On(rows[0].GPUName, "")
		}
		ms, err := p.PredictRows(predict.MethodSimulated, rows, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			class := "seen"
			if m.Row.Server.SMPercent.Or(100) < 100 {
				class = "seen, with percentages"
			}
			add(class, m, profile.MetricTPOTP50)
			add("tails of the seen", m, profile.MetricTPOTP99)
			add("first tokens of the seen", m, profile.MetricTTFTP50)
		}
	}
	return out
}

// usedBy returns the mechanisms under which predictions use a group of constants.
func usedBy(group string) []sharing.Mechanism {
	switch group {
	case "MPS", "SMs":
		return []sharing.Mechanism{sharing.MechanismMPS}
	case "Edges":
		return []sharing.Mechanism{sharing.MechanismTimeSlicing}
	}
	return profile.Mechanisms[:]
}

// allClasses names all classes of foreign software together.
const allClasses = "classes"

// TestAblation gives each constant the value at which it has no effect: it must cost 0.2 points of the mean error, or of
// its P50 or P95, of a class, or rows their interval. It logs the changes of each class, and a row of the table in
// ABLATION-2026-11.md: of servers that the constants describe and of all classes, under both mechanisms, the change of
// the mean error, of its P50 and P95 and of the coverage of the 90% interval in points, and the class that it costs most.
func TestAblation(t *testing.T) {
	nightly.Only(t)
	whole := errorsByClass(t, allRows, profile.Mechanisms[:]...)
	table := reflect.ValueOf(&costs.Table).Elem()
	for i := range table.NumField() {
		group, name := table.Field(i), table.Type().Field(i).Name
		if group.Kind() != reflect.Struct || name == "Unmeasured" || name == "Fit" {
			continue
		}
		for j := range group.NumField() {
			c := group.Field(j).Addr().Interface().(*costs.Constant)
			to, ok := neutral[c]
			t.Run(name+"/"+group.Type().Field(j).Name, func(t *testing.T) {
				if !ok { // widths for other GPUs, and a bound that keeps simulations finite
					t.Skip("it has no neutral value")
				}
				lack, whole := allRows, whole
				if f := lacking[c]; f != nil {
					lack, whole = f, errorsByClass(t, f, usedBy(name)...)
				}
				value := c.Value
				c.Value = to
				defer func() { c.Value = value }()
				with := errorsByClass(t, lack, usedBy(name)...)
				row := fmt.Sprintf("| %s.%s | %v → %v |", name, group.Type().Field(j).Name, value, to)
				for _, class := range []string{"seen", allClasses} {
					for _, m := range profile.Mechanisms {
						a, b := whole[m.String()+", "+class], with[m.String()+", "+class]
						if b == nil {
							row += " - |"
							continue
						}
						row += fmt.Sprintf(" %+.2f, %+.2f, %+.2f; %+.1f |", b.mean()-a.mean(), b.at(0.5)-a.at(0.5), b.at(0.95)-a.at(0.95),
							b.inside()-a.inside())
					}
				}
				worst, lost, where := 0.0, 0.0, ""
				for _, class := range slices.Sorted(maps.Keys(with)) {
					a, b := whole[class], with[class]
					costing, half, tail := b.mean()-a.mean(), b.at(0.5)-a.at(0.5), b.at(0.95)-a.at(0.95)
					if most := max(costing, half, tail); most > worst {
						worst, where = most, class
					}
					lost = max(lost, a.in-b.in)
					if max(math.Abs(costing), math.Abs(half), math.Abs(tail)) >= 0.05 || a.in != b.in || len(a.errs) != len(b.errs) {
						t.Logf("%-45s %4d rows: %5.1f%% %+6.2f points, P50 %+6.2f, P95 %+6.2f, %4.0f inside %+4.0f", class, len(a.errs),
							a.mean(), costing, half, tail, a.in, b.in-a.in)
					}
				}
				t.Logf("%s %s %.2f, %.0f rows |", row, where, worst, lost)
				if worst < 0.2 && lost < 1 {
					t.Errorf("%v %s is not worth its place: without it no class is missed by 0.2 points more", value, c.Unit)
				}
			})
		}
	}
}
