// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// seenRow is a row with its measured ratio.
type seenRow struct {
	Row
	Source      string  `json:"source"`
	Confidence  string  `json:"confidence"`
	Informative bool    `json:"informative"`
	Ratio       float64 `json:"ratio_throughput"`
	Paid        bool    `json:"pays_at_1_15"`

	server  Server
	setting Setting
}

func readSeen(t testing.TB, names ...string) []*seenRow {
	t.Helper()
	var rows []*seenRow
	for _, name := range names {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Rows []*seenRow `json:"rows"`
		}
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, f.Rows...)
	}
	for _, r := range rows {
		var err error
		if r.server, r.setting, err = r.read(); err != nil {
			t.Fatal(r.ID, err)
		}
	}
	return rows
}

// counts reports whether a row counts for the error: it has a figure of how busy one copy was, and is trusted.
func (r *seenRow) counts() bool { return r.Informative && r.Confidence != "low" }

// fitted are the law's constants that are fitted.
func (l *law) fitted() []*float64 {
	return []*float64{&l.smExponent, &l.widthDecoding, &l.width, &l.widthStreams, &l.hamiKeeps, &l.fixedClients, &l.contention}
}

// physical are the values that the fit starts from and is held to.
var physical = []float64{0.4, 0.9, 0.5, 0.8, 0.9, 16, 1.25}

// loss is the mean over sources of the mean error of the logarithm, and a penalty for leaving the physical values.
func loss(l *law, rows []*seenRow) float64 {
	all := meanBySource(rows, func(r *seenRow) (float64, bool) {
		return math.Abs(math.Log(l.estimate(&r.server, &r.setting, error90).Ratio.Value / r.Ratio)), r.Confidence != "low"
	})
	for i, c := range l.fitted() {
		d := math.Log(*c / physical[i])
		all += 0.05 * d * d
	}
	return all
}

func meanBySource(rows []*seenRow, of func(*seenRow) (float64, bool)) float64 {
	sum, n, all := map[string]float64{}, map[string]float64{}, 0.0
	for _, r := range rows {
		if v, counts := of(r); counts {
			sum[r.Source] += v
			n[r.Source]++
		}
	}
	for _, s := range slices.Sorted(maps.Keys(sum)) {
		all += sum[s] / n[s] / float64(len(sum))
	}
	return all
}

// fit moves the constants one after another to where the loss is least; no width or part exceeds 1.
func fit(rows []*seenRow) law {
	l := published
	for i, c := range l.fitted() {
		*c = physical[i]
	}
	for range 4 {
		for i, c := range l.fitted() {
			best, at := math.Inf(1), *c
			for k := -10; k <= 10; k++ {
				*c = physical[i] * math.Exp(float64(k)*0.04)
				if physical[i] < 1 && *c >= 1 {
					break
				}
				if now := loss(&l, rows); now < best {
					best, at = now, *c
				}
			}
			*c = at
		}
	}
	return l
}

// leftOut is a row with its prediction by constants that were fitted without its source.
type leftOut struct {
	*seenRow
	law law
	off float64 // |log(predicted/seen)|
}

func leaveOut(rows []*seenRow) (out []leftOut) {
	laws := map[string]law{}
	for _, r := range rows {
		l, ok := laws[r.Source]
		if !ok {
			l = fit(slices.DeleteFunc(slices.Clone(rows), func(o *seenRow) bool { return o.Source == r.Source }))
			laws[r.Source] = l
		}
		x := l.estimate(&r.server, &r.setting, error90).Ratio.Value
		out = append(out, leftOut{r, l, math.Abs(math.Log(x / r.Ratio))})
	}
	return out
}

// halfWidth is the 0.9 quantile of the errors with one source left out, each source with the same weight and half a
// source more of any error for those that are not seen.
func halfWidth(rows []leftOut, without string) float64 {
	n := map[string]float64{}
	for _, r := range rows {
		n[r.Source]++
	}
	delete(n, without)
	seen := 0.0
	for _, r := range slices.SortedStableFunc(slices.Values(rows), func(a, b leftOut) int { return cmp.Compare(a.off, b.off) }) {
		if n[r.Source] == 0 {
			continue
		}
		if seen += 1 / n[r.Source] / (float64(len(n)) + 0.5); seen >= 0.9 {
			return r.off
		}
	}
	return math.Inf(1)
}

// TestLeaveOneSourceOut predicts each source by constants and intervals of the others.
func TestLeaveOneSourceOut(t *testing.T) {
	rows := readSeen(t, "copies-published.json", "h200-copies.json")
	out := leaveOut(rows)
	byID, inside := map[string]leftOut{}, 0
	for _, r := range out {
		if r.law.estimate(&r.server, &r.setting, halfWidth(out, r.Source)).Ratio.Contains(r.Ratio) {
			inside++
		}
		byID[r.ID] = r
		t.Logf("%-14s %-20s N=%d: seen %.3f, error %.3f", r.ID, r.Mechanism, r.Copies, r.Ratio, r.off)
	}
	of := func(value func(r leftOut) float64) float64 {
		return 100 * meanBySource(rows, func(r *seenRow) (float64, bool) { return value(byID[r.ID]), r.counts() })
	}
	predicted := func(r leftOut) float64 { return r.law.estimate(&r.server, &r.setting, error90).Ratio.Value }
	off := of(func(r leftOut) float64 { return math.Abs(predicted(r)/r.Ratio - 1) })
	plain := of(func(r leftOut) float64 {
		guess := float64(r.Copies)
		if r.Busy != nil {
			guess = min(guess, 1 / *r.Busy)
		}
		return math.Abs(guess/r.Ratio - 1)
	})
	right := of(func(r leftOut) float64 {
		if (predicted(r) >= paysAt) == r.Paid {
			return 1
		}
		return 0
	})
	covered := 100 * float64(inside) / float64(len(rows))
	t.Logf("ratio: mean error %.1f%% (min(N, 1/busy): %.1f%%), pays right in %.0f%%, coverage %.0f%%", off, plain, right, covered)
	if off > 12 || off >= plain || right < 90 || covered < 80 || covered > 97 {
		t.Error("less accurate than the documentation of the package says")
	}
}

// TestConstants finds the constants and half-widths of the code again.
func TestConstants(t *testing.T) {
	rows := readSeen(t, "copies-published.json", "h200-copies.json")
	l := fit(rows)
	for i, c := range l.fitted() {
		if got := *published.fitted()[i]; math.Abs(got / *c - 1) > 0.01 {
			t.Errorf("constant %d is %.3f, and %.4f by testdata", i, got, *c)
		}
	}
	if got := halfWidth(leaveOut(rows), ""); math.Abs(got-error90) > 0.01 {
		t.Errorf("half-width of intervals is %.3f, and %.3f by testdata", error90, got)
	}
}

// TestSeriesLeftOut predicts a series that no constant is fitted on.
func TestSeriesLeftOut(t *testing.T) {
	rows := readSeen(t, "h200-copies-blind.json")
	off, inside := 0.0, 0.0
	for _, r := range rows {
		e, err := Predict(r.server, r.setting)
		if err != nil {
			t.Fatal(r.ID, err)
		}
		off += math.Abs(e.Ratio.Value/r.Ratio-1) / float64(len(rows))
		if e.Ratio.Contains(r.Ratio) {
			inside += 1 / float64(len(rows))
		}
	}
	if off > 0.08 || inside < 0.8 {
		t.Errorf("%.1f%% off, %.0f%% inside", 100*off, 100*inside)
	}
	t.Logf("%.1f%% off, %.0f%% inside", 100*off, 100*inside)
}

// TestMeasuredCopies predicts the equal tenants of a series on an H200 from one isolated tenant.
func TestMeasuredCopies(t *testing.T) {
	sum, n, inside := map[sharing.Mechanism]float64{}, map[sharing.Mechanism]float64{}, 0
	for _, file := range []string{"h200-colocation.json", "h200-mixes.json"} {
		rows, err := profile.LoadRows("../testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		solos, err := profile.NewProfiles(rows.Profiles()...)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range rows.Cases() {
			first, seen := c.Rows[0], 0.0
			for _, r := range c.Rows {
				seen += r.TokensPerS.Or(0)
				if load := r.Load; load.Concurrency != first.Load.Concurrency || load.Rate > 0 || r.Server.Model != first.Server.Model ||
					r.Load.Prompt != first.Load.Prompt || r.Load.Output != first.Load.Output {
					seen = math.NaN()
				}
			}
			solo, err := solos.Solo(first.Server, first.Load)
			if len(c.Rows) < 2 || !(seen > 0) || err != nil {
				continue
			}
			s := ServerOf(solo.Uncontended())
			e, err := Predict(s, Setting{Mechanism: first.Mechanism, Copies: len(c.Rows)})
			if err != nil {
				t.Fatal(err)
			}
			seen /= s.Rate
			sum[first.Mechanism] += math.Abs(e.Ratio.Value/seen - 1)
			n[first.Mechanism]++
			if e.Ratio.Contains(seen) {
				inside++
			}
			t.Logf("%s, %s: %.2f, predicted %.2f", c.Rows[0].Case, first.Mechanism, seen, e.Ratio.Value)
		}
	}
	for m, most := range map[sharing.Mechanism]float64{sharing.MechanismTimeSlicing: 0.03, sharing.MechanismMPS: 0.08} {
		if n[m] < 8 || sum[m]/n[m] > most {
			t.Errorf("%s: mean error %.3f of %.0f cases, want %.2f", m, sum[m]/n[m], n[m], most)
		}
	}
	if all := n[sharing.MechanismMPS] + n[sharing.MechanismTimeSlicing]; float64(inside) < 0.9*all {
		t.Errorf("%d of %.0f lie in their intervals", inside, all)
	}
}
