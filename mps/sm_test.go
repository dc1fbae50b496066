package mps

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
)

func TestMeasuredSMPoints(t *testing.T) {
	n := 0
	for total, p := range smPoints {
		for pct, sms := range p.sms {
			got, err := SMRule{Total: total}.SMs(pct)
			if want := (SMEstimate{sms, sharing.BasisMeasured, p.source}); err != nil || got != want {
				t.Errorf("%v%% of %d: %+v, %v; want %+v", pct, total, got, err, want)
			}
			n++
		}
	}
	if n != 33 {
		t.Errorf("%d points", n)
	}
}

func TestSMsAndBack(t *testing.T) {
	for _, total := range []int{16, 46, 108, 132, 144, 148, 188} {
		r := SMRule{Total: total}
		for sms := 1; sms <= total; sms++ {
			pct, e, err := r.Percentage(sms)
			if err != nil || e.SMs < sms {
				t.Fatalf("%d of %d: %v%%, %+v, %v", sms, total, pct, e, err)
			}
			if sms >= 8 && sms%2 == 0 && e.SMs != sms {
				t.Errorf("%d of %d SMs: %v%% gives %d", sms, total, pct, e.SMs)
			}
			if got, err := r.SMs(pct); err != nil || got != e {
				t.Errorf("%v%%: %+v, %v; want %+v", pct, got, err, e)
			}
			if less, err := r.SMs(pct - 2*percentUnit); err == nil && sms > 8 && less.SMs >= sms {
				t.Errorf("%v%% for %d of %d SMs is not the smallest", pct, sms, total)
			}
		}
	}
}

func TestSMBasis(t *testing.T) {
	for _, c := range []struct {
		rule SMRule
		pct  float64
		want SMEstimate
	}{
		{SMRule{Total: 132}, 50, SMEstimate{66, sharing.BasisMeasured, "cotenant-h200-mps"}},
		{SMRule{Total: 132}, 51, SMEstimate{66, sharing.BasisDerived, "cotenant-h200-mps"}},
		{SMRule{Total: 188}, 51, SMEstimate{94, sharing.BasisDerived, "dynamo-mps-limits"}},
		{SMRule{Total: 108}, 50, SMEstimate{54, sharing.BasisInferred, ""}},
		{SMRule{Total: 132, Step: 4}, 50, SMEstimate{64, sharing.BasisInferred, ""}},
		{SMRule{Total: 6}, 10, SMEstimate{6, sharing.BasisInferred, ""}},
	} {
		if got, err := c.rule.SMs(c.pct); err != nil || got != c.want {
			t.Errorf("%+v at %v%%: %+v, %v; want %+v", c.rule, c.pct, got, err, c.want)
		}
	}
}

func TestBadPercentages(t *testing.T) {
	for _, pct := range []float64{0, -1, 100.1, math.NaN(), math.Inf(1), 1e-9} {
		if e, err := (SMRule{Total: 132}).SMs(pct); !errors.Is(err, ErrInvalid) || e != (SMEstimate{}) {
			t.Errorf("%v: %+v, %v", pct, e, err)
		}
	}
	if _, err := (SMRule{}).SMs(50); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	for _, sms := range []int{0, -1, 133} {
		if _, _, err := (SMRule{Total: 132}).Percentage(sms); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d SMs: %v", sms, err)
		}
	}
}

func TestPlanShares(t *testing.T) {
	three := []Sharer{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	type row struct {
		Pct float64
		SMs int
		MiB int64
	}
	for _, c := range []struct {
		name string
		req  ShareRequest
		want []row
		over float64
		idle int
	}{
		{"equal", ShareRequest{Clients: three, Memory: 100 * sharing.GiB}, []row{{33.3334, 44, 34133}, {33.3334, 44, 34133}, {33.3334, 44, 34133}}, 1, 0},
		{"overlap", ShareRequest{Strategy: StrategyOverlap, Clients: three}, []row{{66.6667, 88, 0}, {66.6667, 88, 0}, {66.6667, 88, 0}}, 2, 0},
		{"weighted", ShareRequest{Strategy: StrategyWeighted, Clients: []Sharer{{Name: "a", Weight: 3}, {Name: "b", Weight: 1}}},
			[]row{{75, 98, 0}, {25, 32, 0}}, 130.0 / 132, 2},
		{"exact", ShareRequest{Strategy: StrategyExact, Clients: []Sharer{{Name: "a", SMs: 44}, {Name: "b", SMs: 33}}},
			[]row{{33.3334, 44, 0}, {25.7576, 34, 0}}, 78.0 / 132, 54},
		{"two overlap", ShareRequest{Strategy: StrategyOverlap, Clients: three[:2]}, []row{{100, 132, 0}, {100, 132, 0}}, 2, 0},
	} {
		c.req.Rule = SMRule{Total: 132}
		p, err := PlanShares(c.req)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []row
		for _, s := range p.Shares {
			got = append(got, row{math.Round(s.Percentage*1e4) / 1e4, s.SMs.SMs, s.Memory.MiB()})
		}
		if diff := cmp.Diff(c.want, got); diff != "" || p.OversubscriptionRatio != c.over || p.IdleSMs != c.idle {
			t.Errorf("%s: over %v idle %d (-want +got):\n%s", c.name, p.OversubscriptionRatio, p.IdleSMs, diff)
		}
	}
}

func TestPlanSharesRefuses(t *testing.T) {
	many := make([]Sharer, 20)
	for i := range many {
		many[i].Name = string(rune('a' + i))
	}
	rule := SMRule{Total: 132}
	for name, req := range map[string]ShareRequest{
		"nobody":      {Rule: rule},
		"floor":       {Rule: rule, Clients: many}, // 20 x 8 SMs > 132
		"over":        {Rule: rule, Strategy: StrategyExact, Clients: []Sharer{{Name: "a", SMs: 100}, {Name: "b", SMs: 40}}},
		"limit":       {Rule: rule, Clients: many, MaxClients: sharing.KnownCell(16, "nvidia-mps-guide"), AllowOversubscription: true},
		"names":       {Rule: rule, Clients: []Sharer{{Name: "a"}, {Name: "a"}, {}}},
		"weights":     {Rule: rule, Strategy: StrategyWeighted, Clients: []Sharer{{Name: "a"}, {Name: "b", Weight: math.NaN()}}},
		"memory":      {Rule: rule, Clients: many[:3], Memory: 2 * sharing.MiB},
		"strategy":    {Rule: rule, Strategy: 9, Clients: many[:1]},
		"no such GPU": {Clients: many[:1]},
	} {
		if p, err := PlanShares(req); !errors.Is(err, ErrInvalid) || p.Shares != nil {
			t.Errorf("%s: %v, %v", name, p.Shares, err)
		}
	}
	if p, err := PlanShares(ShareRequest{Rule: rule, Clients: many, AllowOversubscription: true}); err != nil || p.SharedSMs != 160 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestMemoryAdvice(t *testing.T) {
	for _, p := range allocated {
		a, err := AllocatableUnder(p.limit)
		if err != nil || p.limit-p.overhead < a.Low || p.limit-p.overhead > a.High || a.Basis != sharing.BasisMeasured {
			t.Errorf("%+v: %+v, %v", p, a, err)
		}
	}
	if a, err := AllocatableUnder(512 * sharing.MiB); err != nil || a.Low != 0 || a.High != 256*sharing.MiB {
		t.Errorf("%+v, %v", a, err)
	}
	const g = sharing.GiB
	for _, c := range []struct {
		f        ServingFramework
		e        Enforcer
		limit    sharing.Bytes
		rec, max float64
	}{
		{ServingVLLM, EnforcerMPS, 56 * g, 0.65, 0.70}, {ServingTGI, EnforcerMPS, 40 * g, 0.46, 0.5}, {ServingVLLM, EnforcerHAMi, 56 * g, 0.85, 0.9},
		{ServingSGLang, EnforcerMPS, 56 * g, 0.85, 0.9}, {ServingTGI, EnforcerCgroup, 8 * g, 0.85, 0.9}, {ServingVLLM, EnforcerMPS, 4 * g, 0.04, 0.05},
	} {
		a, err := MemoryFraction(c.f, c.e, c.limit, 80*g)
		if err != nil || a.Recommended != c.rec || a.Max != c.max || a.Flag != c.f.Flag() {
			t.Errorf("%v under %v with %v: %+v, %v", c.f, c.e, c.limit, a, err)
		}
	}
	for _, limit := range []sharing.Bytes{0, -1, 81 * g, 1, sharing.MiB} {
		if a, err := MemoryFraction(ServingVLLM, EnforcerMPS, limit, 80*g); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %+v, %v", limit, a, err)
		}
	}
	if l, err := LimitPerProcess(10*g, 3); err != nil || l != 3413*sharing.MiB {
		t.Errorf("%v, %v", l, err)
	}
	if _, err := LimitPerProcess(5*g, -2); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}
