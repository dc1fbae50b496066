// SPDX-License-Identifier: Apache-2.0

package kubegpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

// Running is a pod that runs on a node, or is about to.
type Running struct {
	Pod *Pod // nil for a pod that asks for no GPU
	// Allocation is its place; nil where that is not known.
	Allocation *Allocation
	// Nominated is true for a pod that is to come and has no GPUs yet.
	Nominated bool
	// What a pod without a GPU takes of the node.
	CPUMilli int64
	Memory   sharing.Bytes
}

// State is a node with its pods. It is immutable.
type State struct {
	Node *Node // nil: the node offers no GPU
	// Notes list assumptions about it, and contradictions.
	Notes []string

	cluster *layout.Cluster // of this node only; nil where nothing is placed on it
}

// NewState puts running pods on a node. n may be nil: nothing is placed there. A pod on an unknown or lost GPU
// is assumed to be on the emptiest that takes it; a GPU that is over-full keeps its pods and takes no more. Notes
// list these.
func NewState(n *Node, running []Running) *State {
	s := &State{Node: n}
	if n == nil || len(n.Problems) > 0 {
		return s
	}
	on := n.Node
	quiet := map[string]bool{} // pods that nobody has bound yet
	for _, r := range running {
		if r.Pod == nil {
			on.CPUMilli, on.Memory = on.CPUMilli-r.CPUMilli, on.Memory-r.Memory
			continue
		}
		on.CPUMilli, on.Memory = on.CPUMilli-r.Pod.cpuMilli, on.Memory-r.Pod.memory
		quiet[r.Pod.Name] = r.Nominated
		as, note := r.assignments(n)
		if on.Assignments = append(on.Assignments, as...); note != "" && !r.Nominated {
			s.Notes = append(s.Notes, note)
		}
	}
	on.CPUMilli, on.Memory = max(0, on.CPUMilli), max(0, on.Memory)
	var problems []layout.Problem
	s.cluster, problems = layout.Observe([]layout.Node{on})
	for _, p := range problems {
		who, _, _ := strings.Cut(p.Text, " ")
		if p.Source == "" && len(on.Assignments) > 0 && !quiet[strings.TrimRight(who, "+")] {
			s.Notes = append(s.Notes, p.Text)
		}
	}
	seen := map[string]bool{}
	for _, a := range s.cluster.At(0).Assignments {
		if a.Assumed && !seen[a.Key] && !quiet[strings.TrimRight(a.Key, "+")] {
			s.Notes = append(s.Notes, a.Key+" was bound by somebody else: which GPU it has is assumed")
		}
		seen[a.Key] = true
	}
	return s
}

// assignments are those of a pod on a node; where its place is not known, on devices that are not known.
func (r *Running) assignments(n *Node) (out []layout.Assignment, note string) {
	requests, _, v := r.Pod.requests(n)
	if v.Ruling != filter.VerdictPass {
		return nil, r.Pod.Name + " runs here, and " + v.Text
	}
	known := r.Allocation != nil && len(r.Allocation.Devices) == len(requests)
	for i, q := range requests {
		a := layout.Assignment{Key: r.Pod.Name + strings.Repeat("+", i), // its containers may share one GPU
			Workload: q.Workload, Device: layout.UnknownDevice, Compute: int16(q.Milli), Memory: q.GPUMemory}
		if q.Profile != "" {
			if a.Profile = n.profile(q.Profile); a.Profile == nil {
				return nil, r.Pod.Name + " runs here, and the node has no MIG instance of " + q.Profile
			}
		}
		for g := range q.GPUs {
			if known && g < len(r.Allocation.Devices[i].GPUs) && r.Allocation.Devices[i].Profile == q.Profile {
				d := &r.Allocation.Devices[i]
				if a.Profile != nil && !n.has(d.GPUs[g], layout.Instance{Profile: a.Profile, Start: int8(d.Start)}) {
					note = r.Pod.Name + ": the MIG instance of its annotations is not there"
				} else if a.Device, a.Start = int16(d.GPUs[g]), int8(d.Start); a.Profile == nil {
					a.Mode = d.Mechanism
				}
			}
			out = append(out, a)
		}
	}
	return out, note
}

// has reports whether a GPU has a MIG instance.
func (n *Node) has(gpu int, in layout.Instance) bool {
	return gpu >= 0 && gpu < len(n.Devices) && slices.Contains(n.Devices[gpu].Instances, in)
}

// profile is a MIG profile of the node's instances; nil where there is none of the name.
func (n *Node) profile(name string) *mig.Profile {
	for i := range n.Devices {
		for _, in := range n.Devices[i].Instances {
			if in.Profile.Name == name {
				return in.Profile
			}
		}
	}
	return nil
}

// Score decides for a pod and a node: the verdict, and the score by the scorer's policy. What neighbours do to the
// pod is evaluated for the GPU that is best, or, where the kubelet picks among several, for the worst of them.
func (s *State) Score(p *Pod, scorer *placement.Scorer) (float64, Ruling) {
	_, score, v := s.plan(p, scorer, false)
	return score, v
}

// Plan is Score with the place. The allocation is nil where the verdict is not a pass.
func (s *State) Plan(p *Pod, scorer *placement.Scorer) (*Allocation, float64, Ruling) {
	return s.plan(p, scorer, true)
}

func (s *State) plan(p *Pod, scorer *placement.Scorer, place bool) (*Allocation, float64, Ruling) {
	requests, containers, v := p.requests(s.Node)
	if v.Ruling != filter.VerdictPass {
		return nil, 0, v
	}
	a := &Allocation{Node: s.Node.Name, Choice: s.Node.Choice()}
	c, score := s.cluster, 0.0
	for i, r := range requests {
		o, f := scorer.Score(c.At(0), r)
		if f.Verdict != filter.VerdictPass {
			return nil, 0, s.explain(r, f)
		}
		if score += o.Score; !place && len(requests) == 1 {
			break
		}
		next, placed, err := scorer.Assign(c, r, o)
		if err != nil {
			return nil, 0, refuse(CodeInvalid, "%v", err)
		}
		c = next
		first := &placed.Assignments[0]
		a.Devices = append(a.Devices, Device{Container: containers[i], Profile: r.Profile, Start: int(first.Start),
			GPUs: placed.GPUs(), Mechanism: first.Mode, Milli: int(first.Compute), Memory: first.Memory,
			Slowdown: o.Slowdown, Unpredicted: o.Unpredicted, Model: s.Node.GPU.Name})
	}
	if v := s.anyGPU(requests, scorer); v.Ruling != filter.VerdictPass {
		return nil, 0, v
	}
	return a, score, pass()
}

// explain puts a refusal into words; of MIG instances, which exist or do not, more than placement knows.
func (s *State) explain(r *placement.Request, f filter.Reason) Ruling {
	switch {
	case r.Profile == "" || f.Code.String() != codeSlices && f.Code.String() != codeProfile:
		return verdictOf(f)
	case s.Node.profile(r.Profile) == nil:
		return refuse(codeProfile, "the node has no MIG instance of %s", r.Profile)
	}
	return refuse(codeSlices, "no MIG instance of %s is free", r.Profile)
}

// anyGPU evaluates requests with the worst neighbours that the kubelet may give them.
func (s *State) anyGPU(requests []*placement.Request, scorer *placement.Scorer) Ruling {
	n := s.Node.Choice()
	if n < 2 {
		return pass()
	}
	var others []*layout.Workload
	for _, a := range s.cluster.At(0).Assignments {
		others = append(others, a.Workload)
	}
	slots := s.Node.Replicas
	if slots < 2 { // thousandths
		slots = len(others) + len(requests)
	}
	for _, r := range requests {
		if f := scorer.Worst(s.Node.GPU.Name, s.Node.Mechanism, slots, r.Workload, others); f.Verdict != filter.VerdictPass {
			v := verdictOf(f)
			v.Text = fmt.Sprintf("on the worst of %d GPUs that it may get: %s", n, v.Text)
			return v
		}
	}
	return pass()
}
