// SPDX-License-Identifier: Apache-2.0

package loadgentest

import (
	"errors"

	"github.com/cotenant/cotenant/loadgen"
)

// Simulation is a set of servers on simulated GPUs. A nil Simulation has none.
type Simulation struct {
	GPUs    []*GPU
	Servers []*Server
}

// SimulatedServer is a server on a GPU of a Simulation.
type SimulatedServer struct {
	Index int // of the GPU in NewSimulation; it replaces Options.GPU
	Options
}

// NewSimulation starts GPUs and the servers on them. The caller must call Close.
func NewSimulation(gpus []GPUOptions, servers ...SimulatedServer) (*Simulation, error) {
	s := &Simulation{}
	for _, o := range gpus {
		s.GPUs = append(s.GPUs, newGPU(o))
	}
	for _, o := range servers {
		o.GPU = s.GPUs[o.Index]
		srv, err := NewServer(o.Options)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.Servers = append(s.Servers, srv)
	}
	return s, nil
}

// Endpoints returns the servers' endpoints, in the order given to NewSimulation.
func (s *Simulation) Endpoints() []loadgen.Endpoint {
	if s == nil {
		return nil
	}
	var out []loadgen.Endpoint
	for _, srv := range s.Servers {
		e := loadgen.Endpoint{URL: srv.URL}
		if srv.opts.Pipe {
			e.Dial = srv.Dial
		}
		out = append(out, e)
	}
	return out
}

// Close stops the servers, then the GPUs.
func (s *Simulation) Close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, srv := range s.Servers {
		errs = append(errs, srv.Close())
	}
	for _, g := range s.GPUs {
		g.close()
	}
	return errors.Join(errs...)
}
