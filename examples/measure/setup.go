package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/examples/internal/colocation"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/sharing"
)

// client is a replica under load, on one of a run's GPUs.
type client struct {
	scene    *scene
	workload string
	gpu      int
	tenant   string // its name in the run
}

// setup is what a run needs.
type setup struct {
	gpus    []loadgentest.GPUOptions
	tenants []colocation.Tenant
	clients []client
	sims    []*simulated // of the clients
}

func (u *setup) gpu(o loadgentest.GPUOptions) int {
	u.gpus = append(u.gpus, o)
	return len(u.gpus) - 1
}

func (u *setup) add(s *scene, t sceneTenant, gpu int, edit func(*loadgentest.Model)) {
	model := t.sim.model
	if edit != nil {
		edit(&model)
	}
	u.tenants = append(u.tenants, colocation.Tenant{GPU: gpu, Model: model, Slots: t.sim.slots})
	u.sims = append(u.sims, t.sim)
	u.clients = append(u.clients, client{s, t.Workload, gpu, fmt.Sprintf("%s.%s.%d", s.Name, t.Workload, len(u.clients))})
}

// place puts a scene's tenants on simulated GPUs under a mechanism.
func (m *measurer) place(u *setup, how sharing.Mechanism, s *scene) error {
	o := loadgentest.GPUOptions{Quantum: m.app.quantum}
	switch how {
	case sharing.MechanismExclusive:
		for j, t := range s.Tenants {
			// Closed loops have requests enough with one.
			if again := slices.ContainsFunc(s.Tenants[:j], func(o sceneTenant) bool { return o.Workload == t.Workload }); !again || !t.sim.load.Closed() {
				u.add(s, t, u.gpu(o), nil)
			}
		}
		return nil
	case sharing.MechanismMIG:
		profiles, why := s.slices(m.result)
		if why != "" {
			return errors.New(why)
		}
		o.Sharing = loadgentest.SharingPartitioned
		gpu := u.gpu(o)
		for i, t := range s.Tenants {
			u.add(s, t, gpu, func(model *loadgentest.Model) {
				model.SMShare, model.BandwidthShare = s.smShare(profiles[i]), float64(profiles[i].PlacementUnits)/float64(profiles[i].Model().Units)
			})
		}
		return nil
	case sharing.MechanismMPS, sharing.MechanismMIGLikeEmulation:
		o.Sharing = loadgentest.SharingConcurrent
	}
	gpu := u.gpu(o)
	for _, t := range s.Tenants {
		u.add(s, t, gpu, func(model *loadgentest.Model) {
			if how == sharing.MechanismMIGLikeEmulation {
				model.SMShare = s.emulationPercent() / 100
			}
		})
	}
	return nil
}

// emulationPercent is the active thread percentage of each tenant under
// mig-like-emulation: equal parts.
func (s *scene) emulationPercent() float64 { return float64(100 / len(s.Tenants)) }
