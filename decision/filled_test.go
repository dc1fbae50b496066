// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// An 8B server with a limit of 20 ms on its P99 per token does not share by MPS with an FFT (46 ms were measured with
// one), and shares with a notebook.
func TestServerBesideFFT(t *testing.T) {
	t.Parallel()
	profiles, err := profile.LoadProfiles("predict/testdata/h200-tenants.json")
	if err != nil {
		t.Fatal(err)
	}
	decideWith := func(count int, neighbour string, kind Kind) *Result {
		f := &Fleet{Version: "v1", Pools: []Pool{{Name: "p", GPU: "H200", Count: count, PricePerGPUHour: sharing.Some(price(t, "3.00 USD")),
			Mechanisms: []sharing.Mechanism{sharing.MechanismExclusive, sharing.MechanismTimeSlicing, sharing.MechanismMPS}}},
			Workloads: []Workload{
				{Name: "chat", Tenant: "t", Kind: KindOnlineInference, Replicas: Replicas{Max: 1}, Memory: sharing.Some(24 * sharing.GiB), SLO: profile.SLO{TPOTP99: sharing.Some(profile.Duration(20e6))},
					Profile: &profile.ProfileRef{Server: profile.Server{Model: "rand-8b", Slots: sharing.Some(16)}, Load: profile.Load{Concurrency: 4, Prompt: 256, Output: 64, Seed: sharing.Some(3)}}},
				{Name: "beside", Tenant: "t", Kind: kind, Replicas: Replicas{Max: 1}, Memory: sharing.Some(8 * sharing.GiB), Profile: &profile.ProfileRef{Server: profile.Server{Model: neighbour}}},
			}}
		r, err := Decide(t.Context(), f, Options{Profiles: profiles})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	fft := decideWith(2, "fft-256", KindHPC)
	for _, d := range fft.Decisions {
		if d.Mechanism == sharing.MechanismMPS || d.Placed == 0 {
			t.Errorf("%s: %s, %s", d.Workload, d.Mechanism, d.Why)
		}
	}
	var text strings.Builder
	if err := fft.WriteText(&text, TextOptions{Explain: "chat"}); err != nil {
		t.Fatal(err)
	}
	if want := "beside holds 94% of the SMs while its kernels run"; !strings.Contains(text.String(), want) {
		t.Errorf("%q is not said:\n%s", want, text.String())
	}
	if d := decideWith(1, "notebook", KindNotebook).Decision("chat"); d.Mechanism != sharing.MechanismMPS && d.Mechanism != sharing.MechanismTimeSlicing {
		t.Errorf("beside a notebook: %s, %s", d.Mechanism, d.Why)
	}
}
