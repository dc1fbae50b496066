// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
)

// nearLimit has a model server with an objective that an L40S is expected to miss and an H100 meets.
const nearLimit = `
pools:
  - {name: l40s, gpu: L40S, count: 8, price_per_gpu_hour: "1.86 USD"}
  - {name: h100, gpu: H100 80GB HBM3, count: 8, price_per_gpu_hour: "9.10 USD"}
workloads:
  - name: chat
    kind: online-inference
    replicas: 4
    model: {parameters: 8e9, weights: fp16, layers: 32, kv_heads: 8, head_dim: 128}
    load: {requests_per_s: 4, input_tokens: 1000, output_tokens: 250}
    slo: {tpot_p99: 50ms}
    tenant: a
`

// TestCompare: each result is that of Decide with the same options, and the table has the different answers.
func TestCompare(t *testing.T) {
	t.Parallel()
	f, err := ParseFleet([]byte("version: v1" + nearLimit))
	if err != nil {
		t.Fatal(err)
	}
	options := []Options{{}, {Confidence: 0.8}, {Headroom: &Headroom{Driver: 0.025, Fragmentation: 0.2}}, {Confidence: DefaultConfidence}}
	c, err := Compare(t.Context(), f, options...)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"plain", "confidence=0.8", "headroom=0.2", "plain"} {
		r, err := Decide(t.Context(), f, options[i])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, c.Results[i]); diff != "" || c.Options[i] != want {
			t.Errorf("%s, want %s: %s", c.Options[i], want, diff)
		}
	}
	if plain, unsure := c.Results[0].Decisions[0].brief(), c.Results[1].Decisions[0].brief(); !strings.HasPrefix(plain, "4 x mps on h100, ") || unsure != "4 x exclusive on l40s, 7.44 an hour" {
		t.Errorf("%s; %s", plain, unsure)
	}
	for _, r := range c.Results {
		for len(r.Decisions) < mostChanges+3 {
			r.Decisions = append(r.Decisions, r.Decisions[0])
		}
	}
	var b bytes.Buffer
	if err := c.WriteText(&b); err != nil || strings.Count(b.String(), "\n") != 7+mostChanges+1 || !strings.Contains(b.String(), "\n3 workloads more with") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// TestAllow: an allowed mechanism is decided as if a pool stated its delivery, in addition to those of the pool.
func TestAllow(t *testing.T) {
	t.Parallel()
	const fleet = `version: v1
pools: [{name: t4, gpu: T4, count: 4, price_per_gpu_hour: "0.53 USD"%s}]
workloads: [{name: dev, kind: online-inference, replicas: 4, memory: 3GiB, gpu_busy: 0.1, tenant: shop}]
`
	compare := func(pool string, m sharing.Mechanism) *Comparison {
		f, err := ParseFleet(fmt.Appendf(nil, fleet, pool))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Compare(t.Context(), f, Options{}, Options{Allow: []sharing.Mechanism{m}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	installed := compare(", delivery: hami", sharing.MechanismHAMi)
	for _, pool := range []string{"", ", mechanisms: [mps]", ", delivery: gpu-operator"} {
		c := compare(pool, sharing.MechanismHAMi)
		plain, allowed, there := c.Results[0], c.Results[1], installed.Results
		if plain.Totals.GPUsAfter != 2 || allowed.Totals.GPUsAfter != 1 || c.Options[1] != "allow=hami" || there[0].Totals.GPUsAfter != 1 || there[0].Decisions[0].brief() != there[1].Decisions[0].brief() {
			t.Errorf("%q: %+v, %+v, installed %+v", pool, plain.Totals, allowed.Totals, there[0].Totals)
		}
		if got := mechanismsOf(allowed, "dev"); slices.Contains(got, sharing.MechanismTimeSlicing) && pool == ", mechanisms: [mps]" || slices.Contains(got, sharing.MechanismHAMiWithMPS) {
			t.Errorf("%q: what is not allowed passes: %v", pool, got)
		}
	}
	c := compare("", sharing.MechanismMIG)
	var b bytes.Buffer
	if err := c.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if len(c.Results[1].Remarks) != len(c.Results[0].Remarks)+1 || !strings.Contains(b.String(), "no pool can have it") || !strings.Contains(b.String(), "1 workload with the same answer in all") {
		t.Errorf("MIG on a T4: %s", b.String())
	}
}

// TestCompareRefuses names every problem in one error.
func TestCompareRefuses(t *testing.T) {
	f := sevenTenants(0.1)
	f.Pools[0].GPU, f.Workloads[1].Name = "Z80", ""
	_, err := Compare(t.Context(), f, Options{Confidence: 2}, Options{Headroom: &Headroom{Driver: 1, Fragmentation: -1}, Allow: []sharing.Mechanism{sharing.MechanismExclusive}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"pools[0].gpu", "workloads[1].name", "options[0].confidence: 2 is out of range", "options[1].headroom.driver: 1", "options[1].headroom.fragmentation: -1", "options[1].allow[0]: nothing delivers exclusive"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named: %v", want, err)
		}
	}
	if _, err := Compare(t.Context(), sevenTenants(0.1)); err == nil {
		t.Error("without options there is nothing to compare")
	}
	if _, err := Compare(t.Context(), nil, Options{}); err == nil {
		t.Error("without a fleet")
	}
	if c, err := Compare(t.Context(), sevenTenants(0.1), Options{}); err != nil || !errors.Is(c.WriteText(failing{}), errFull) {
		t.Errorf("what cannot be written is written: %v", err)
	}
	if _, err := Decide(t.Context(), f, Options{Confidence: 0.4}); err == nil || !strings.Contains(err.Error(), "pools[0].gpu") || !strings.Contains(err.Error(), "confidence: 0.4") {
		t.Errorf("Decide names one of fleet and options: %v", err)
	}
}

var errFull = errors.New("full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }
