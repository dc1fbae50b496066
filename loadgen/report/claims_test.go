// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/loadgen"
)

// failing gives the runs counts of requests of which some failed.
func failing(runs []loadgen.Summary, failed, total int64) []loadgen.Summary {
	for i := range runs {
		c := loadgen.Counts{Total: total, OK: total - failed, Failed: failed}
		runs[i].Counts, runs[i].Tenants[0].Counts = c, c
	}
	return runs
}

func claimOf(t *testing.T, rc *RunComparison, figure string) FigureComparison {
	t.Helper()
	i := slices.IndexFunc(rc.Figures, func(c FigureComparison) bool { return c.Figure == figure })
	if i < 0 {
		t.Fatalf("%s is not compared", figure)
	}
	return rc.Figures[i]
}

// TestFailingServerDoesNotLookBetter: one side refuses two requests of three and serves the others in half the time.
// What differs is the share that failed; of the latencies and rates nothing is claimed, whether there are runs enough
// for a test over runs or not.
func TestFailingServerDoesNotLookBetter(t *testing.T) {
	for _, n := range []int{2, 5} {
		slow, fast := []float64{20, 21, 22, 23, 24}[:n], []float64{10, 11, 12, 13, 14}[:n]
		rc, err := CompareRuns(failing(runsOf("sound", 200, slow...), 0, 600), failing(runsOf("failing", 200, fast...), 400, 600), CompareOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if rc.Figures[0].Figure != failedShare {
			t.Errorf("%s is compared first", rc.Figures[0].Figure)
		}
		want := claimHigher
		if n == 2 {
			want = claimUnsupported
		}
		if c := claimOf(t, rc, failedShare); c.Claim != want || c.Base.Median != 0 || math.Abs(c.Other.Median-2.0/3) > 1e-12 {
			t.Errorf("%d runs: %+v", n, c)
		}
		for _, c := range rc.Figures[1:] {
			if c.Claim != claimUnsupported || !strings.Contains(strings.Join(c.Reasons, " "), "withheld: the shares of failed requests differ") {
				t.Errorf("%d runs: %s: %v %q", n, c.Figure, c.Claim, c.Reasons)
			}
		}
		var b bytes.Buffer
		if err := rc.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("withheld: 0 of %d requests of the base failed and %d of %d of the other", 600*n, 400*n, 600*n); !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
}

// TestFailuresOfOneRun: requests that fail in some runs only still make the
// latencies of these runs those of the survivors.
func TestFailuresOfOneRun(t *testing.T) {
	base, other := failing(runsOf("a", 200, 20, 21, 22, 23, 24), 0, 600), failing(runsOf("b", 200, 10, 11, 12, 13, 14), 0, 600)
	rc, err := CompareRuns(base, other, CompareOptions{})
	if err != nil || rc.Withheld != "" || claimOf(t, rc, "ttft_ms.p50").Claim != claimLower {
		t.Fatalf("%+v, %v", rc, err)
	}
	other[2].Counts = loadgen.Counts{Total: 600, OK: 60, Failed: 540}
	rc, err = CompareRuns(base, other, CompareOptions{})
	if err != nil || rc.Withheld == "" || claimOf(t, rc, "ttft_ms.p50").Claim != claimUnsupported || claimOf(t, rc, failedShare).Claim == claimHigher {
		t.Errorf("%+v, %v", rc, err)
	}
	// The same few failures on both sides withhold nothing.
	base, other = failing(base, 6, 600), failing(other, 7, 600)
	base[0].Counts, other[0].Counts = other[0].Counts, base[0].Counts
	rc, err = CompareRuns(base, other, CompareOptions{Figures: []string{"ttft_ms.p50"}})
	if err != nil || rc.Withheld != "" {
		t.Errorf("%+v, %v", rc, err)
	}
}

// TestFamilyWiseError draws groups of runs that differ by nothing, and counts the comparisons that claim anything: at
// most 5%, for figures of a run that hang together and for such that don't.
func TestFamilyWiseError(t *testing.T) {
	race.Long(t)
	rng := rand.New(rand.NewPCG(7, 8))
	for _, tc := range []struct {
		runs, trials int
		share        float64 // of the run's own level in each figure
	}{{5, 400, 0}, {5, 400, 0.9}, {6, 100, 0.5}, {7, 400, 0}} {
		claimed, uncorrected := 0, 0
		for range tc.trials {
			var sides [2][]loadgen.Summary
			for side := range sides {
				for i := range tc.runs {
					common := rng.NormFloat64()
					draw := func() loadgen.Millis {
						return loadgen.Millis(100 + math.Sqrt(tc.share)*common + math.Sqrt(1-tc.share)*rng.NormFloat64())
					}
					s := runOf(fmt.Sprintf("%d-%d", side, i), 1, 600)
					for _, f := range []*loadgen.Figures{&s.TTFT, &s.TPOT, &s.ChunkGap, &s.E2E} {
						f.P50, f.P99 = draw(), draw()
					}
					s.OutputTokensPerS = float64(draw())
					failed := rng.Int64N(3)
					s.Counts = loadgen.Counts{Total: 600, Failed: failed, OK: 600 - failed}
					sides[side] = append(sides[side], s)
				}
			}
			rc, err := CompareRuns(sides[0], sides[1], CompareOptions{})
			if err != nil {
				t.Fatal(err)
			}
			is := func(c FigureComparison) bool { return c.Claim == claimLower || c.Claim == claimHigher }
			if slices.ContainsFunc(rc.Figures, is) {
				claimed++
			}
			if slices.ContainsFunc(rc.Figures, func(c FigureComparison) bool { return c.P.Or(1) <= 0.05 }) {
				uncorrected++
			}
		}
		n := float64(tc.trials)
		if most := 0.05*n + 3*math.Sqrt(0.05*0.95*n); float64(claimed) > most {
			t.Errorf("%d runs, %v in common: %d of %d comparisons claim something", tc.runs, tc.share, claimed, tc.trials)
		}
		if tc.share < 0.9 && uncorrected < tc.trials/8 {
			t.Errorf("%d of %d without a correction: the test shows nothing", uncorrected, tc.trials)
		}
		t.Logf("%d runs, %v in common: %d of %d claim something, %d without a correction", tc.runs, tc.share, claimed, tc.trials, uncorrected)
	}
}

// TestAdjust: corrected p-values are never below the plain ones, those of equal
// figures are the plain ones, and Holm's bound holds.
func TestAdjust(t *testing.T) {
	apart := [][]float64{{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}}
	same := func(k int, v []float64) [][]float64 { return slices.Repeat([][]float64{v}, k) }
	p, _ := adjust(same(8, apart[0]), same(8, apart[1]))
	for _, v := range p {
		if math.Abs(v-2.0/252) > 1e-12 {
			t.Errorf("eight equal figures: %v", p)
		}
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for range 40 {
		k, n := 1+rng.IntN(5), 4+rng.IntN(3)
		base, other := make([][]float64, k), make([][]float64, k)
		var plain []float64
		for i := range k {
			for range n {
				base[i], other[i] = append(base[i], float64(rng.IntN(12))), append(other[i], float64(rng.IntN(12)+rng.IntN(6)))
			}
			plain = append(plain, pValue(base[i], other[i]))
		}
		p, correction := adjust(base, other)
		if correction != correctionPermutation {
			t.Fatal(correction)
		}
		for i := range k {
			if p[i] < plain[i]-1e-12 || p[i] > float64(k)*plain[i]+1e-12 {
				t.Errorf("%v from %v", p, plain)
			}
		}
	}
	// Too many runs to try every arrangement.
	long := make([]float64, 20)
	for i := range long {
		long[i] = float64(i)
	}
	if p, correction := adjust(same(2, long), same(2, []float64{30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40})); correction != correctionHolm || p[0] != p[1] || p[0] > 1e-4 {
		t.Errorf("%v by %s", p, correction)
	}
}

func TestFisher(t *testing.T) {
	for _, tc := range []struct {
		k, n, j, m int64
		want       float64
	}{
		{3, 4, 1, 4, 0.485714}, {8, 10, 1, 6, 0.0349650}, {0, 5, 0, 5, 1}, {5, 5, 5, 5, 1}, {0, 600, 6, 600, 0.030860}, {400, 600, 0, 600, 0},
	} {
		if got := fisher(tc.k, tc.n, tc.j, tc.m); math.Abs(got-tc.want) > 1e-6 {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

// TestInterferenceOfFailingTenant: a tenant that is refused when together with others has no factors, nor has one with
// an invalid run.
func TestInterferenceOfFailingTenant(t *testing.T) {
	write := func(failed int64, valid bool) string {
		isolated, together := runOf("isolated-1", 20, 200), runOf("together-1", 10, 200)
		isolated.Tenants[0].Counts = loadgen.Counts{Total: 100, OK: 100}
		together.Tenants[0].Counts = loadgen.Counts{Total: 100, OK: 100 - failed, Failed: failed}
		together.Scenario, together.ClientHealth.Valid = "together", valid
		together.Tenants = append(together.Tenants, loadgen.TenantSummary{Name: "other"})
		var b bytes.Buffer
		if err := WriteInterference(&b, []*loadgen.Result{{Summary: isolated}, {Summary: together}}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for want, text := range map[string]string{"0.500×": write(1, true), "60 of 100": write(60, true), "1 runs are INVALID": write(1, false)} {
		if !strings.Contains(text, want) || strings.Contains(text, "×") != (want == "0.500×") {
			t.Errorf("no %q:\n%s", want, text)
		}
	}
}
