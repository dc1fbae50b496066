// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// residual is the fleet of workloads that may move, with the GPUs that they may have. asking names the arriving ones
// that request MIG instances by profile: their pods start on no other devices.
func (c *cluster) residual(fixed map[string]bool) (f *decision.Fleet, asking []string) {
	f = &decision.Fleet{Version: c.fleet.Version, Trust: c.fleet.Trust}
	gpus, held, kept := map[string]int{}, map[string]int{}, map[string]float64{}
	for n := range c.layout.Nodes() {
		if onCards(n) {
			continue
		}
		if !fixed[n.Name] {
			gpus[n.Pool] += len(n.Devices)
			for i := range n.Assignments {
				if a := &n.Assignments[i]; c.bounds[a.Workload.Name] != "" {
					kept[n.Pool] += gpusOf(a)
				}
			}
			continue
		}
		for _, a := range firsts(n) {
			if w := a.Workload.Name; c.stays[w] == "" && c.bounds[w] == "" {
				held[n.Pool] += each(c.of[w])
			}
		}
		if n.Closed == "" {
			held[n.Pool] += unused(n)
		}
	}
	for pool := range kept {
		gpus[pool] = max(0, gpus[pool]-int(math.Ceil(kept[pool])))
	}
	for _, p := range c.fleet.Pools {
		if gpus[p.Name]+held[p.Name] == 0 {
			continue
		}
		p.Count, p.Layouts = min(p.Count, gpus[p.Name]+held[p.Name]), nil
		sunk := held[p.Name] // on nodes that stay
		if r := p.Reserved; r != nil {
			sunk = max(sunk, cmp.Or(r.Count, p.Count))
		}
		if p.Reserved, sunk = nil, min(sunk, p.Count); sunk > 0 {
			price := c.pools[p.Name].Price
			if none, err := cost.FromMicros(0, c.currency); price.Currency() == "" && err == nil {
				price = none // that of other pools
			}
			p.Reserved = &fleet.Pricing{Count: sunk, PricePerGPUHour: price}
		}
		if s := p.Spot; s != nil {
			p.Spot = &fleet.Pricing{Count: min(s.Count, p.Count), PricePerGPUHour: s.PricePerGPUHour}
		}
		p.Mechanisms = slices.DeleteFunc(slices.Clone(planned), func(m sharing.Mechanism) bool {
			// A node that stays has only free devices that are not shared.
			shares := m == sharing.MechanismTimeSlicing || m == sharing.MechanismMPS
			return len(p.Mechanisms) > 0 && !slices.Contains(p.Mechanisms, m) || gpus[p.Name] == 0 && shares
		})
		gpus[p.Name] += held[p.Name]
		f.Pools = append(f.Pools, p)
	}
	for _, w := range c.fleet.Workloads {
		if c.stays[w.Name] != "" || c.bounds[w.Name] != "" {
			continue
		}
		if w.Pool != "" && gpus[w.Pool] == 0 {
			c.stays[w.Name] = "its pool has no node that may change"
			continue
		}
		if w.Today != nil {
			w = c.today(w)
		} else if w.Request != nil && w.Request.Profile != "" {
			asking = append(asking, w.Name)
			continue
		}
		f.Workloads = append(f.Workloads, w)
	}
	return f, asking
}

// today is a workload with as many replicas as it runs, whose figures are of the GPU that all of them run on.
func (c *cluster) today(w decision.Workload) decision.Workload {
	w.Replicas = decision.Replicas{Max: c.wants[w.Name]}
	if home, one := c.home(w.Name); one {
		gpu := c.pools[home].Pool.GPU
		w.SoloOn, w.BusyOn = cmp.Or(w.SoloOn, gpu), cmp.Or(w.BusyOn, gpu)
		if w.Job != nil {
			job := *w.Job
			job.On, w.Job = cmp.Or(job.On, gpu), &job
		}
	}
	return w
}

// gpusOf is the part of a GPU that an assignment holds.
func gpusOf(a *layout.Assignment) float64 {
	if a.Profile == nil {
		return 1
	}
	return float64(a.Profile.PlacementUnits) / float64(a.Profile.Model().Units)
}

// unused counts the GPUs of a node that are neither shared nor held, and those of its free MIG instances.
func unused(n *layout.Node) (gpus int) {
	free, all, partitioned := 0, 0, 0
	for i := range n.Devices {
		d := &n.Devices[i]
		if d.Mode == sharing.MechanismExclusive {
			gpus += int(d.Free().Slots)
		}
		if len(d.Instances) > 0 {
			partitioned++
			all += len(d.Instances)
			free += int(d.Free().Slots)
		}
	}
	if free > 0 {
		gpus += max(1, partitioned*free/all)
	}
	return gpus
}

// newKey is the key of a replica that does not run yet.
func newKey(workload string, number int) string { return workload + "-new-" + strconv.Itoa(number) }
