// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// unknownLoad is a server of which nobody said how busy it is.
func unknownLoad(t *testing.T) *Fleet {
	return &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: "H100 80GB HBM3", Count: 8, PricePerGPUHour: sharing.Some(price(t, "2.99 USD"))}},
		Workloads: []Workload{{Name: "chat", Kind: KindOnlineInference, Replicas: Replicas{Max: 4}, Memory: sharing.Some(10 * sharing.GiB), Tenant: "a"}}}
}

// TestProvisionalAnswers: they name their assumptions, a measurement that replaces them, and the exact difference in
// money to GPUs of their own.
func TestProvisionalAnswers(t *testing.T) {
	for name, change := range map[string]func(*Workload){
		"busy":  func(*Workload) {},
		"alone": func(w *Workload) { w.GPUBusy, w.SLO.E2EP99 = sharing.Some(0.1), s1 },
		"size":  func(w *Workload) { w.GPUBusy, w.SLO.TPOTP99 = sharing.Some(0.1), ms50 },
		"batch": func(w *Workload) { w.Kind = KindBatch },
		"load":  func(w *Workload) { w.Load = &fleet.Traffic{RequestsPerS: 8} },
	} {
		f := unknownLoad(t)
		change(&f.Workloads[0])
		r, err := Decide(t.Context(), f, Options{Input: "my/fleet.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		d := &r.Decisions[0]
		if d.Status != StatusProvisional || len(d.Assumes) == 0 || d.Measurement == nil || d.Placed != 4 {
			t.Errorf("%s: %+v", name, d)
			continue
		}
		if s := d.Measurement; len(s.Figures) == 0 || s.Duration == 0 || s.Endpoint != (f.Workloads[0].Kind == KindOnlineInference) {
			t.Errorf("%s: %+v", name, s)
		}
		if !strings.Contains(d.Measurement.Text, "my/fleet.yaml") {
			t.Errorf("%s: the file is not named: %s", name, d.Measurement.Text)
		}
		if d.Mechanism == sharing.MechanismExclusive {
			t.Errorf("%s: shares nothing", name)
			continue
		}
		hour := price(t, d.Cost.PerWorkloadHour+" USD")
		month, err := cost.Monthly(hour)
		if err != nil {
			t.Fatal(err)
		}
		if stake, _ := price(t, "8730.80 USD").Sub(month); stake.Decimal() != d.Measurement.MonthlyAtStake {
			t.Errorf("%s: at stake %s, expected %s", name, d.Measurement.MonthlyAtStake, stake.Decimal())
		}
		text := oneLine(textOf(t, r, TextOptions{}))
		for _, want := range []string{d.Assumes[0].What, "a replica of " + d.Workload + " ", "at stake"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the text lacks %q:\n%s", name, want, text)
			}
		}
	}
}

// TestMoreGPUsDo: with as many more as were named everything is placed, and with one fewer it is not.
func TestMoreGPUsDo(t *testing.T) {
	f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: "H100 80GB HBM3", Count: 1, PricePerGPUHour: sharing.Some(price(t, "2.99 USD"))}},
		Workloads: []Workload{{Name: "w", Kind: KindOnlineInference, Replicas: Replicas{Max: 9}, Memory: sharing.Some(30 * sharing.GiB), GPUBusy: sharing.Some(0.1), Tenant: "a"}}}
	d := decide(t, f).Decisions[0]
	if d.Placed == 0 || d.Unplaced == 0 || d.Placed+d.Unplaced != 9 || d.MoreGPUs == nil || d.MoreGPUs.Pool != "p" {
		t.Fatalf("%d placed, %d not, %+v", d.Placed, d.Unplaced, d.MoreGPUs)
	}
	more := d.MoreGPUs.GPUs
	for _, c := range []struct{ count, unplaced int }{{1 + more, 0}, {more, 1}} {
		f.Pools[0].Count = c.count
		if got := decide(t, f).Decisions[0].Unplaced; min(got, 1) != c.unplaced {
			t.Errorf("%d GPUs: %d unplaced", c.count, got)
		}
	}
}

// TestStrangersAreSaid once for the fleet, and not where tenants or trust are stated.
func TestStrangersAreSaid(t *testing.T) {
	f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: "L40S", Count: 4}}}
	for _, name := range []string{"bank", "rival"} {
		w := online
		w.Name = name
		f.Workloads = append(f.Workloads, w)
	}
	r := decide(t, f)
	if len(r.Assumes) != 1 || !strings.Contains(strings.Join(textOf(t, r, TextOptions{}), "\n"), "assumes bank, rival are strangers") {
		t.Errorf("%+v", r.Assumes)
	}
	f.Trust = "all"
	if r := decide(t, f); len(r.Assumes) != 0 {
		t.Errorf("with trust: all %+v", r.Assumes)
	}
	f.Trust, f.Workloads[0].Tenant = "", "bank"
	if r := decide(t, f); len(r.Assumes) != 0 {
		t.Errorf("one without a tenant: %+v", r.Assumes)
	}
}

// TestOriginsAreCounted: each decision names the method of its consequences, and the text counts them.
func TestOriginsAreCounted(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	for range 10 {
		r := decide(t, smallFleet(rng))
		closed := 0
		for _, d := range r.Decisions {
			if (d.From == fromFilters) != (d.Placed == 0) {
				t.Errorf("%s: %d placed, by %s", d.Workload, d.Placed, d.From)
			}
			if d.From == fromClosedForm {
				closed++
			}
		}
		if text := strings.Join(textOf(t, r, TextOptions{Width: 400}), " "); closed > 0 && !strings.Contains(text, fmt.Sprintf("%d from stated figures", closed)) {
			t.Errorf("the text does not say it: %s", text)
		}
	}
}

// TestSimulatedPredictor: an answer that rests on a predictor calibrated on a simulation says so, and no other does.
func TestSimulatedPredictor(t *testing.T) {
	f, err := LoadFleet("../examples/quickstart/testdata/measured.yaml")
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := profile.LoadProfiles("predict/testdata/h200-colocation.json")
	if err != nil {
		t.Fatal(err)
	}
	for basis, want := range map[sharing.Basis]bool{sharing.BasisMeasured: false, sharing.BasisSimulated: true} {
		p := predict.NewPredictor()
		p.GPU, p.Parameters.Quantum.Basis = "simulated GPU", basis
		r, err := Decide(t.Context(), f, Options{Profiles: profiles, Predictor: &p})
		if err != nil {
			t.Fatal(err)
		}
		text := oneLine(textOf(t, r, TextOptions{}))
		if got := strings.Contains(text, "assumes real GPUs are like the simulated GPU"); got != want {
			t.Errorf("%s: %t:\n%s", basis, got, text)
		}
	}
	p := predict.NewPredictor()
	p.Parameters.Quantum.Basis = sharing.BasisSimulated
	if r, err := Decide(t.Context(), unknownLoad(t), Options{Profiles: profiles, Predictor: &p}); err != nil || len(r.Assumes) > 0 {
		t.Errorf("a predictor that is not used is mentioned: %v", err)
	}
}

// TestEvaluatorOfUnknownPool: a node of a pool that the fleet does not have is refused by its name.
func TestEvaluatorOfUnknownPool(t *testing.T) {
	j, err := NewEvaluator(t.Context(), unknownLoad(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = j.Nodes(slices.Values([]*layout.Node{{Pool: "nowhere"}}))
	if err == nil || !strings.Contains(err.Error(), `"nowhere"`) {
		t.Error(err)
	}
}
