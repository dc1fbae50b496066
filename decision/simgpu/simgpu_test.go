// SPDX-License-Identifier: Apache-2.0

package simgpu_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/simgpu"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/sharing"
)

// Two models on one simulated GPU, each alone and both together, slow one another as the mechanism's law says.
func TestStudy(t *testing.T) {
	p := predict.NewPredictor().Parameters
	model := loadgentest.Model{SMDemand: 0.7, BandwidthDemand: 0.6}
	d := func() float64 { law := p.Law(); d := law.Demand(0.6, 1); return 1 + d.Holds*d.Waits + law.Arbitration }()
	for _, c := range []struct {
		mechanism   sharing.Mechanism
		model       loadgentest.Model
		least, most float64
	}{
		{sharing.MechanismTimeSlicing, model, 1.9, 2.4}, // half of the time, and the switches
		{sharing.MechanismMPS, model, 0.97 * d, 1.01 * d},
		{sharing.MechanismMIG, loadgentest.Model{SMShare: 0.5, BandwidthShare: 0.5}, 0.98, 1.02},
	} {
		t.Run(c.mechanism.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { study(t, c.mechanism, &p, c.model, c.least, c.most) })
		})
	}
}

func study(t *testing.T, m sharing.Mechanism, p *predict.Parameters, model loadgentest.Model, least, most float64) {
	server := loadgentest.SimulatedServer{Options: loadgentest.Options{Pipe: true, Model: model}}
	sim, err := loadgentest.NewSimulation([]loadgentest.GPUOptions{{Device: simgpu.New(m, p)}}, server, server)
	if err != nil {
		t.Fatal(err)
	}
	plan := loadgen.LoadPlan{Scenario: m.String(), Simulated: true}
	for i, at := range sim.Endpoints() {
		plan.Tenants = append(plan.Tenants, loadgen.Tenant{Name: string(rune('a' + i)), Endpoints: []loadgen.Endpoint{at},
			Prompts: loadgen.Texts("hello there, GPU"), MaxTokens: 50, Requests: 20, Load: loadgen.OfferedLoad{Concurrency: 4}})
	}
	var runs []*loadgen.Summary // alone, alone, together
	for _, c := range loadgen.Study(plan) {
		res, err := loadgen.Run(t.Context(), c, loadgen.Options{ProcessTimes: true})
		if err != nil {
			t.Fatal(c.Scenario, err)
		}
		runs = append(runs, &res.Summary)
	}
	for i, tenant := range runs[2].Tenants {
		if got := float64(tenant.TPOT.P50 / runs[i].TPOT.P50); got < least || got > most {
			t.Errorf("tenant %s: TPOT slows by %v, want %.2f to %.2f", tenant.Name, got, least, most)
		}
	}
	if err := sim.Close(); err != nil {
		t.Error(err)
	}
}

// Where models say how long their kernels hold SMs, they wait for those, and for no bandwidth.
func TestHold(t *testing.T) {
	p := predict.NewPredictor().Parameters
	p.Arbitration.Value = 0
	d := simgpu.New(sharing.MechanismMPS, &p)
	ends := 0
	kernel := loadgentest.Kernel{Length: time.Millisecond, Bandwidth: 0.9, SMShare: 1, Hold: 0.5}
	for range 2 {
		d.Attach(func() (loadgentest.Kernel, bool) { ends++; return kernel, true })
	}
	d.Advance(0)
	d.Advance(30100 * time.Microsecond)
	if ends != 2+2*20 { // s = 1 - 0.5s
		t.Errorf("%d kernels ended", ends-2)
	}
}

func ExampleNew() {
	p := predict.NewPredictor().Parameters
	servers, err := loadgentest.NewSimulation([]loadgentest.GPUOptions{{Device: simgpu.New(sharing.MechanismMPS, &p)}})
	fmt.Println(err, servers.Close())
	// Output: <nil> <nil>
}
