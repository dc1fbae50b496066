package kubegpu

import (
	"fmt"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/placement"
)

// Score decides for a pod and a node: the verdict, and the score by the scorer's policy. What neighbours do to the
// pod is judged for the GPU that is best, or, where the kubelet picks among several, for the worst of them.
func (s *State) Score(p *Pod, scorer *placement.Scorer) (float64, Ruling) {
	requests, _, v := p.requests(s.Node)
	if v.Ruling != gate.VerdictPass {
		return 0, v
	}
	if len(requests) > 1 || requests[0].Profile != "" || s.base == nil {
		_, score, v := s.Plan(p, scorer)
		return score, v
	}
	c, f := scorer.Score(s.base, 0, requests[0])
	if f.Verdict != gate.VerdictPass {
		return 0, verdictOf(f)
	}
	return c.Score, s.anyGPU(requests, scorer)
}

// anyGPU judges requests beside the worst neighbours that the kubelet may give them.
func (s *State) anyGPU(requests []*placement.Request, scorer *placement.Scorer) Ruling {
	n := s.Node.Choice()
	if n < 2 {
		return pass()
	}
	seats := s.Node.Replicas
	if seats < 2 { // thousandths
		seats = len(s.runs) + len(requests)
	}
	for _, r := range requests {
		if f := scorer.Worst(s.Node.Model, s.Node.Mechanism, seats, r, s.runs); f.Verdict != gate.VerdictPass {
			v := verdictOf(f)
			v.Text = fmt.Sprintf("on the worst of %d GPUs that it may get: %s", n, v.Text)
			return v
		}
	}
	return pass()
}

// Plan is Score with the place. The allocation is nil where the verdict is not a pass.
func (s *State) Plan(p *Pod, scorer *placement.Scorer) (*Allocation, float64, Ruling) {
	requests, containers, v := p.requests(s.Node)
	if v.Ruling != gate.VerdictPass {
		return nil, 0, v
	}
	a := &Allocation{Node: s.name, Choice: s.Node.Choice()}
	score := 0.0
	for i, r := range requests {
		d := Device{Container: containers[i], Profile: r.Profile, request: r}
		if r.Profile != "" {
			if v := s.slotVerdict(r, a.Devices); v.Ruling != gate.VerdictPass {
				return nil, 0, v
			}
		}
		snap, err := s.snapshot(r.Profile, a.Devices...)
		if err != nil {
			return nil, 0, refuse(CodeInvalid, "%v", err)
		}
		c, f := scorer.Score(snap, 0, r)
		if f.Verdict != gate.VerdictPass {
			return nil, 0, verdictOf(f)
		}
		_, placed, err := snap.Reserve(r, c)
		if err != nil {
			return nil, 0, refuse(CodeInvalid, "%v", err)
		}
		d.GPUs, d.Mechanism, d.Milli, d.Memory = placed.GPUs, placed.Mechanism, placed.Milli, placed.GPUMemory
		d.Slowdown, d.Unpredicted = c.Slowdown, c.Unpredicted
		d.Model, d.Total, d.Part, d.Whole = s.Node.Model, s.Node.GPUMemory.Or(0), int64(placed.Milli), 1000
		if r.Profile != "" {
			// Which instance of the GPU is the device plugin's, not the policy's.
			g := d.GPUs[0]
			d.Start = s.Node.slots[g][s.freeSlotOn(g, r.Profile, a.Devices)].start
			d.Part, d.Whole = int64(placed.Profile.ComputeSlices), int64(placed.Profile.Model().ComputeSlices)
		}
		a.Devices = append(a.Devices, d)
		score += c.Score
	}
	if v = s.anyGPU(requests, scorer); v.Ruling != gate.VerdictPass {
		return nil, 0, v
	}
	return a, score, v
}

// slotVerdict checks that an instance of the profile exists and is free.
func (s *State) slotVerdict(r *placement.Request, taken []Device) Ruling {
	any, exists := false, false
	for _, slots := range s.Node.slots {
		for _, sl := range slots {
			any = true
			exists = exists || sl.profile.Name == r.Profile
		}
	}
	switch {
	case !any:
		return verdictOf(gate.Reason{Verdict: gate.VerdictFixable, Code: gate.CodeNotMIG})
	case !exists:
		return refuse(gate.CodeProfile.String(), "the node has no MIG instance of %s", r.Profile)
	}
	if g, _ := s.freeSlot(r.Profile, taken); g < 0 {
		return refuse(gate.CodeSlices.String(), "no MIG instance of %s is free", r.Profile)
	}
	return pass()
}
