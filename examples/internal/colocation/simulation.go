package colocation

import (
	"errors"
	"sync"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
)

// Simulation is servers on simulated GPUs. It must be closed.
type Simulation struct {
	// Endpoints are the servers', in the order of the tenants.
	Endpoints []loadgen.Endpoint
	// Source reads the GPUs, in their order.
	Source *Source

	servers []*loadgentest.Server
	close   func() error
}

// Tenant is a server of a Simulation.
type Tenant struct {
	GPU   int // index
	Model loadgentest.Model
	Slots int // requests served at once; 0 = no bound
}

// Simulate starts the GPUs and the tenants' servers on them. With pipe they are
// reached through memory, as simulated time needs it.
func Simulate(gpus []loadgentest.GPUOptions, tenants []Tenant, pipe bool) (*Simulation, error) {
	s := &Simulation{Source: &Source{}}
	for _, o := range gpus {
		s.Source.gpus = append(s.Source.gpus, loadgentest.NewGPU(o))
	}
	s.close = sync.OnceValue(func() error {
		var errs []error
		for _, srv := range s.servers {
			errs = append(errs, srv.Close())
		}
		for _, g := range s.Source.gpus {
			errs = append(errs, g.Close())
		}
		return errors.Join(errs...)
	})
	for _, t := range tenants {
		srv, err := loadgentest.NewServer(loadgentest.Options{GPU: s.Source.gpus[t.GPU], Model: t.Model, Slots: t.Slots, Pipe: pipe, NoLog: true})
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.servers = append(s.servers, srv)
		e := loadgen.Endpoint{URL: srv.URL}
		if pipe {
			e.Dial = srv.Dial
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s, nil
}

// Close stops the servers, then the GPUs. It may be called again.
func (s *Simulation) Close() error { return s.close() }
