// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/internal/codes"
	"github.com/cotenant/cotenant/sharing"
)

// mechanismsOf lists the mechanisms of a workload's candidates that pass.
func mechanismsOf(r *Result, workload string) (out []sharing.Mechanism) {
	for _, c := range r.Decision(workload).Candidates {
		if c.Verdict == filter.VerdictPass && !slices.Contains(out, c.Mechanism) {
			out = append(out, c.Mechanism)
		}
	}
	return out
}

// TestOnlyWhatIsDelivered: a pool's mechanisms are those that its delivery carries
// out, and without one those of the driver.
func TestOnlyWhatIsDelivered(t *testing.T) {
	for _, tc := range []struct {
		pool string
		want []sharing.Mechanism // may be chosen, and nothing else
	}{
		{"", []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG}},
		{"delivery: gpu-operator", []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG}},
		{"delivery: hami", []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismMIG, sharing.MechanismHAMi, sharing.MechanismHAMiWithMPS}},
		{"mechanisms: [hami]", []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismHAMi}},
		{"mechanisms: [hami], delivery: gpu-operator", []sharing.Mechanism{sharing.MechanismExclusive}},
		{"vgpu: true", []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS, sharing.MechanismMIG, sharing.MechanismVGPU, sharing.MechanismMIGBackedVGPU}},
	} {
		extra := tc.pool
		if extra != "" {
			extra = ", " + extra
		}
		r := decideText(t, `
pools: [{name: p, gpu: A100-SXM4-80GB, count: 8, price_per_gpu_hour: "2.00 USD", driver: "580.65.06"`+extra+`}]
workloads: [{name: w, kind: batch, replicas: 4, memory: 6GiB, gpu_busy: 0.1, tenant: t}]
`)
		if got := mechanismsOf(r, "w"); slices.ContainsFunc(got, func(m sharing.Mechanism) bool { return !slices.Contains(tc.want, m) }) {
			t.Errorf("%q: %v may be chosen, expected only %v", tc.pool, got, tc.want)
		}
		if m := r.Decision("w").Mechanism; !slices.Contains(tc.want, m) {
			t.Errorf("%q: decided for %v", tc.pool, m)
		}
	}
}

// TestWhatIsAskedForAndCannotBe is said, of pools and of workloads.
func TestWhatIsAskedForAndCannotBe(t *testing.T) {
	r := decideText(t, `
pools:
  - {name: l40s, gpu: L40S, count: 4, mechanisms: [mig, mps]}
  - {name: op, gpu: A100-SXM4-80GB, count: 1, mechanisms: [hami], delivery: gpu-operator}
workloads:
  - {name: w, kind: batch, memory: 6GiB, gpu_busy: 0.1, pool: l40s, request: {mechanism: mig, profile: 1g.10gb}}
  - {name: v, kind: batch, memory: 6GiB, gpu_busy: 0.1, pool: op, request: {mechanism: mig, profile: 1g.10gb}}
`)
	text := strings.Join(r.Remarks, "\n")
	for _, want := range []string{"pool l40s asks for mig, which cannot be", "pool op asks for hami, which cannot be", "w asks for mig, which no pool has"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not said: %s", want, text)
		}
	}
	if strings.Contains(text, "v asks for") {
		t.Errorf("an A100 has MIG: %s", text)
	}
}

// TestIsolationOfTodayIsKept: workloads in MIG slices do not move to MPS, however much that saves, unless the file
// allows it.
func TestIsolationOfTodayIsKept(t *testing.T) {
	const fleet = `
pools: [{name: p, gpu: A100-SXM4-80GB, count: 8, price_per_gpu_hour: "2.00 USD", driver: "580.65.06"}]
workloads: [{name: w, kind: batch, replicas: 12, memory: 2GiB, gpu_busy: 0.02, tenant: t TODAY}]
`
	free := decideText(t, strings.Replace(fleet, " TODAY", "", 1)).Decision("w")
	if free.Mechanism != sharing.MechanismMPS && free.Mechanism != sharing.MechanismTimeSlicing {
		t.Fatalf("without today: %v", free.Mechanism)
	}
	kept := decideText(t, strings.Replace(fleet, " TODAY", ", today: {mechanism: mig, profile: 1g.10gb}", 1)).Decision("w")
	if kept.Mechanism != sharing.MechanismMIG && kept.Mechanism != sharing.MechanismExclusive {
		t.Errorf("from MIG to %v", kept.Mechanism)
	}
	said := false
	for _, c := range kept.Candidates {
		for _, why := range c.Reasons {
			said = said || c.Mechanism == sharing.MechanismMPS && why.Code == codes.Weaker
		}
	}
	if !said {
		t.Error("nothing says why MPS does not do")
	}
	may := decideText(t, strings.Replace(fleet, " TODAY", ", today: {mechanism: mig, profile: 1g.10gb, may_weaken: true}", 1)).Decision("w")
	if may.Mechanism != free.Mechanism {
		t.Errorf("allowed to weaken it goes to %v, without today to %v", may.Mechanism, free.Mechanism)
	}
	_, err := ParseFleet([]byte("version: v1\n" + strings.Replace(fleet, " TODAY", ", today: {mechanism: none, profile: 1g.10gb}", 1)))
	if err == nil || !strings.Contains(err.Error(), "workloads[0].today.mechanism") || !strings.Contains(err.Error(), "workloads[0].today.profile") {
		t.Errorf("%v", err)
	}
}

// TestIsolationIsNeverWeaker tries every mechanism of today on GPUs with and without MIG.
func TestIsolationIsNeverWeaker(t *testing.T) {
	for _, gpu := range []string{"A100-SXM4-80GB", "L40S", "T4"} {
		for _, today := range sharing.Mechanisms() {
			r := decideText(t, `
pools: [{name: p, gpu: `+gpu+`, count: 8, driver: "580.65.06", mechanisms: [time-slicing, mps, mig, hami, hami+mps]}]
workloads: [{name: w, kind: batch, replicas: 3, memory: 2GiB, gpu_busy: 0.02, tenant: t, today: {mechanism: `+today.String()+`}}]
`)
			d := r.Decision("w")
			if d.Placed == 0 {
				t.Errorf("%s, %v today: no place", gpu, today)
				continue
			}
			card, err := sharing.LookupGPU(gpu)
			if err != nil {
				t.Fatal(err)
			}
			env := sharing.Environment{GPU: card, Driver: sharing.Driver{Major: 580, Minor: 65, Patch: 6}}
			for a := range sharing.AxisCount {
				was := sharing.IsolationIn(today, sharing.Axis(a), env).Level
				is := sharing.IsolationIn(d.Mechanism, sharing.Axis(a), env).Level
				if d.Mechanism != today && was != sharing.LevelUnknown && is.AtLeast(was) != sharing.AnswerYes {
					t.Errorf("%s: from %v to %v, %v isolation from %v to %v", gpu, today, d.Mechanism, sharing.Axis(a), was, is)
				}
			}
		}
	}
}
