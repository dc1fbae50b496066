// SPDX-License-Identifier: Apache-2.0

package study

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// simulatedModel is small, so that tests are short, and wants more than half of the
// SMs and of the bandwidth, so that two of them contend.
var simulatedModel = loadgentest.Model{
	StepKernels: 12, KernelMean: 400 * time.Microsecond, PrefillPerToken: 10 * time.Microsecond,
	SMDemand: 0.7, BandwidthDemand: 0.6,
}

func (t *test) open(h *hosting) (*loadgentest.Simulation, error) {
	var servers []loadgentest.SimulatedServer
	for i := range h.servers {
		s := simulatedServer(h.sm, h.bandwidth)
		s.Index, s.Slots, s.Pipe = i%h.gpus, h.slots, t.inMemory
		servers = append(servers, s)
	}
	var gpus []loadgentest.GPUOptions
	for range h.gpus {
		gpus = append(gpus, loadgentest.GPUOptions{Device: t.device(h.sharing), Seed: t.File.Seed})
	}
	return loadgentest.NewSimulation(gpus, servers...)
}

// device is the GPU that servers share, nil where each has one, or a part, to itself.
func (c *Config) device(sharing string) loadgentest.Device {
	if sharing == partitioned {
		return nil
	}
	return c.Device(sharing == timeSliced)
}

func simulatedServer(sm, bandwidth float64) loadgentest.SimulatedServer {
	m := simulatedModel
	m.SMShare, m.BandwidthShare = sm, bandwidth
	return loadgentest.SimulatedServer{Options: loadgentest.Options{Model: m, NoLog: true}}
}

// embedTenants starts a server for each of the plan's tenants, nil where they name endpoints.
func (c *Config) embedTenants() (*loadgentest.Simulation, error) {
	p := &c.File
	if p.Embedded == "" {
		return nil, nil
	}
	var servers []loadgentest.SimulatedServer
	for _, t := range p.Tenants {
		servers = append(servers, simulatedServer(t.SMShare, t.BandwidthShare))
	}
	return loadgentest.NewSimulation([]loadgentest.GPUOptions{{Device: c.device(p.Embedded), Seed: p.Seed}}, servers...)
}

// demoTenants are the demonstration's two tenants, each with the users of the load.
var demoTenants = []struct {
	name   string
	tokens int           // of an answer
	e2e    time.Duration // the SLO
}{{"chat", 16, 400 * time.Millisecond}, {"digest", 32, 800 * time.Millisecond}}

// DemoGPUs returns the number of GPUs in a scenario of a demonstration.
func DemoGPUs(scenario string) int { return hostingOf(scenario).gpus }

// runDemo measures every part at every load.
func (t *test) runDemo(ctx context.Context) error {
	t.several = true
	for i := range hostings {
		p := &hostings[i]
		if p.about == "" {
			continue
		}
		sim, err := t.open(p)
		if err != nil {
			return err
		}
		if err := errors.Join(t.runPart(ctx, p, sim), sim.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (t *test) runPart(ctx context.Context, p *hosting, sim *loadgentest.Simulation) error {
	for _, l := range t.levels() {
		f := t.File
		f.Scenario, f.Tenants = p.name, nil
		var servers []loadgen.Endpoint
		for i, d := range demoTenants {
			tenant := t.File.Tenants[0]
			tenant.Name, tenant.MaxTokens, tenant.SLO.E2E = d.name, d.tokens, d.e2e
			l.apply(&tenant)
			f.Tenants = append(f.Tenants, tenant)
			servers = append(servers, sim.Endpoints()[i%p.servers])
		}
		fresh := func() (loadgen.LoadPlan, error) { return f.plan(servers) }
		if err := t.undisturbed(ctx, p.name+"-"+l.name, fresh); err != nil {
			return err
		}
	}
	return nil
}

// maxAgain bounds the repetitions of a disturbed run of the demonstration.
const maxAgain = 2

// undisturbed makes a run again that the machine disturbed: the GPUs are simulated,
// and the machine that they happen to run on is no part of them.
func (t *test) undisturbed(ctx context.Context, name string, fresh func() (loadgen.LoadPlan, error)) error {
	for again := 0; ; again++ {
		plan, err := fresh()
		if err != nil {
			return err
		}
		res, err := t.run(ctx, name, plan)
		if err != nil || res.Summary.ClientHealth.Valid || again == maxAgain {
			return err
		}
		t.Note(name + ": disturbed, made again (" + strings.Join(res.Summary.ClientHealth.Reasons, "; ") + ")")
		t.Results = t.Results[:len(t.Results)-1]
		if err := os.RemoveAll(res.Dir); err != nil {
			return err
		}
	}
}

// writeDemo describes the parts.
func writeDemo(w io.Writer) {
	chat, digest := demoTenants[0], demoTenants[1]
	fmt.Fprintf(w, "Two tenants with servers of one model: chat answers in %d tokens, digest in %d, %d answers at once\n"+
		"each; further ones wait.\n\n", chat.tokens, digest.tokens, demoSlots)
	for _, h := range hostings {
		if h.about != "" {
			fmt.Fprintf(w, "  %-13s %s\n", h.name, h.about)
		}
	}
	fmt.Fprintln(w)
}
