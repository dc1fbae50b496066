package main

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// embeddedScenario is a way to put model replicas on one simulated GPU.
type embeddedScenario struct {
	sharing  loadgentest.Sharing
	replicas int
	smShare  float64 // of each replica
	bwShare  float64
}

// embeddedScenarios are those of the LLM-serving study (a server alone; two under
// MPS; two under MPS with an active thread percentage each, which isolates no
// memory and is no MIG), and two more.
var embeddedScenarios = map[string]embeddedScenario{
	"baseline":      {loadgentest.SharingConcurrent, 1, 1, 1},
	"time-slicing":  {loadgentest.SharingTimeSliced, 2, 1, 1},
	"mps":           {loadgentest.SharingConcurrent, 2, 1, 1},
	"mig-emulation": {loadgentest.SharingConcurrent, 2, 0.5, 1},
	"mig":           {loadgentest.SharingPartitioned, 2, 0.5, 0.5},
}

func scenarioNames() []string { return slices.Sorted(maps.Keys(embeddedScenarios)) }

// simulatedModel is small, so that the demonstration is short, and wants more
// than half of the SMs and of the bandwidth, so that two of them are in each
// other's way.
var simulatedModel = loadgentest.Model{
	StepKernels: 12, KernelMean: 400 * time.Microsecond, PrefillPerToken: 10 * time.Microsecond, SMDemand: 0.7, BandwidthDemand: 0.6,
}

// embedded is the servers of a scenario on one simulated GPU.
type embedded struct {
	gpu     *loadgentest.GPU
	servers []*loadgentest.Server
}

func startEmbedded(sharing loadgentest.Sharing, seed uint64, models ...loadgentest.Model) (*embedded, error) {
	e := &embedded{gpu: loadgentest.NewGPU(loadgentest.GPUOptions{Sharing: sharing, Seed: seed})}
	for _, m := range models {
		srv, err := loadgentest.NewServer(loadgentest.Options{GPU: e.gpu, Model: m, NoLog: true})
		if err != nil {
			return nil, errors.Join(err, e.close())
		}
		e.servers = append(e.servers, srv)
	}
	return e, nil
}

func startScenario(name string, seed uint64) (*embedded, error) {
	sc := embeddedScenarios[name]
	models := make([]loadgentest.Model, sc.replicas)
	for i := range models {
		models[i] = simulatedModel
		models[i].SMShare, models[i].BandwidthShare = sc.smShare, sc.bwShare
	}
	return startEmbedded(sc.sharing, seed, models...)
}

func (e *embedded) urls() []string {
	var urls []string
	for _, s := range e.servers {
		urls = append(urls, s.URL)
	}
	return urls
}

func (e *embedded) close() error {
	if e == nil {
		return nil
	}
	var errs []error
	for _, s := range e.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, e.gpu.Close())...)
}
