package kubegpu

import (
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/sharing"
)

// Running is a pod that runs on a node, or is about to.
type Running struct {
	Pod *Pod // nil for a pod that asks for no GPU
	// Allocation is its place; nil where that is not known.
	Allocation *Allocation
	// Nominated says that the pod is to come and has no GPUs yet.
	Nominated bool
	// What a pod without a GPU takes of the node.
	CPUMilli int64
	Memory   sharing.Bytes
}

// State is a node with what runs on it. It is immutable.
type State struct {
	Node *Node // nil: the node offers no GPU
	// Notes say what of it had to be assumed.
	Notes []string

	name     string
	cpuMilli int64         // free
	memory   sharing.Bytes // free
	runs     []placement.Running
	used     [][]bool            // of the slots of each GPU
	base     *placement.Snapshot // what snapshot("") returns
}

// NewState puts what runs on a node on it. n may be nil: nothing is placed there. Where a pod's allocation is not
// known, or cannot be (somebody else bound it, or wrote its annotations), it is taken to be on the emptiest GPUs
// and a note says so.
func NewState(n *Node, running []Running) *State {
	if n == nil || len(n.Problems) > 0 {
		return &State{Node: n}
	}
	s := fill(n, running, false)
	var err error
	if s.base, err = s.snapshot(""); err != nil {
		// Somebody's allocation cannot be: whose shows one after another.
		s = fill(n, running, true)
		s.base, _ = s.snapshot("")
	}
	return s
}

func fill(n *Node, running []Running, check bool) *State {
	s := &State{Node: n, name: n.Name, cpuMilli: n.cpuMilli, memory: n.memory, used: make([][]bool, len(n.slots))}
	for i := range n.slots {
		s.used[i] = make([]bool, len(n.slots[i]))
	}
	var unknown []*Running
	for i := range running {
		r := &running[i]
		if r.Pod == nil {
			s.cpuMilli, s.memory = s.cpuMilli-r.CPUMilli, s.memory-r.Memory
			continue
		}
		s.cpuMilli, s.memory = s.cpuMilli-r.Pod.cpuMilli, s.memory-r.Pod.memory
		if r.Allocation == nil {
			unknown = append(unknown, r)
		} else if !s.take(r.Pod, r.Allocation.Devices, check) {
			s.Notes = append(s.Notes, r.Pod.Name+": the GPUs of its annotations cannot be")
			unknown = append(unknown, r)
		}
	}
	s.cpuMilli, s.memory = max(0, s.cpuMilli), max(0, s.memory)
	for _, r := range unknown {
		said := len(s.Notes)
		if s.assume(r.Pod); r.Nominated {
			s.Notes = s.Notes[:said] // nobody has bound it
		}
	}
	return s
}

// take puts a pod on devices; false, and nothing is taken, where they cannot
// be. Whether they have room is looked at only with check.
func (s *State) take(p *Pod, devices []Device, check bool) bool {
	requests, v := p.Requests(s.Node)
	if v.Ruling != gate.VerdictPass || len(requests) != len(devices) {
		return false
	}
	before := len(s.runs)
	var slots []*bool
	undo := func() bool {
		s.runs = s.runs[:before]
		for _, b := range slots {
			*b = false
		}
		return false
	}
	for i, r := range requests {
		d := &devices[i]
		if r.Profile != "" {
			b := s.slotAt(d)
			if b == nil || *b || d.Profile != r.Profile {
				return undo()
			}
			*b = true
			slots = append(slots, b)
			continue
		}
		if len(d.GPUs) != r.GPUs || slices.ContainsFunc(d.GPUs, func(g int) bool { return g < 0 || g >= len(s.Node.GPUs) }) {
			return undo()
		}
		s.runs = append(s.runs, placement.Running{Request: gpuOnly(r, d), GPUs: d.GPUs})
	}
	if check && before < len(s.runs) {
		if _, err := s.snapshot(""); err != nil {
			return undo()
		}
	}
	return true
}

// gpuOnly is the request of what runs already: without the CPU and memory that
// the node was charged for, and whatever the node is labelled now.
func gpuOnly(r *placement.Request, d *Device) *placement.Request {
	out := *r
	out.CPUMilli, out.Memory = 0, 0
	out.Mechanisms, out.Models = nil, nil
	if d.Mechanism != sharing.MechanismNone && out.Milli != 1000 {
		out.Mechanisms = []sharing.Mechanism{d.Mechanism}
	}
	return &out
}

func (s *State) slotAt(d *Device) *bool {
	if len(d.GPUs) != 1 || d.GPUs[0] < 0 || d.GPUs[0] >= len(s.Node.slots) {
		return nil
	}
	g := d.GPUs[0]
	for i, sl := range s.Node.slots[g] {
		if sl.start == d.Start && sl.profile.Name == d.Profile {
			return &s.used[g][i]
		}
	}
	return nil
}

// assume puts a pod whose GPUs are not known on those that have most free.
func (s *State) assume(p *Pod) {
	requests, v := p.Requests(s.Node)
	if v.Ruling != gate.VerdictPass {
		s.Notes = append(s.Notes, p.Name+" runs here, and "+v.Text)
		return
	}
	var devices []Device
	for _, r := range requests {
		d := Device{Profile: r.Profile, GPUs: s.emptiest(r.GPUs)}
		if r.Profile != "" {
			g, i := s.freeSlot(r.Profile, devices)
			if g < 0 {
				break
			}
			d.GPUs, d.Start = []int{g}, s.Node.slots[g][i].start
		}
		devices = append(devices, d)
	}
	if s.take(p, devices, true) {
		s.Notes = append(s.Notes, p.Name+" was bound by somebody else: which GPU it has is assumed")
		return
	}
	s.Notes = append(s.Notes, p.Name+" was bound by somebody else and finds no room: the node is overcommitted")
}

// emptiest returns the GPUs with the most free thousandths, lowest first.
func (s *State) emptiest(n int) []int {
	snap, err := s.snapshot("")
	if err != nil {
		return nil
	}
	v := snap.View(0)
	var all []int
	for g := range v.Len {
		if v.GPUs[g].MIG == nil {
			all = append(all, g)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return int(v.GPUs[b].Milli - v.GPUs[a].Milli) })
	all = all[:min(n, len(all))]
	slices.Sort(all)
	return all
}

// freeSlot is the first free instance of a profile that is not in taken; -1 where there is none.
func (s *State) freeSlot(profile string, taken []Device) (gpu, slot int) {
	for g := range s.Node.slots {
		if i := s.freeSlotOn(g, profile, taken); i >= 0 {
			return g, i
		}
	}
	return -1, -1
}

func (s *State) freeSlotOn(g int, profile string, taken []Device) int {
	for i, sl := range s.Node.slots[g] {
		if sl.profile.Name == profile && s.free(g, i, taken) {
			return i
		}
	}
	return -1
}

// free reports whether an instance has no tenant, nor one in taken.
func (s *State) free(g, i int, taken []Device) bool {
	return !s.used[g][i] && !slices.ContainsFunc(taken, func(d Device) bool {
		return d.Profile != "" && d.GPUs[0] == g && d.Start == s.Node.slots[g][i].start
	})
}

// inTheWay are the instances of a GPU that a request for a profile can't have.
func (s *State) inTheWay(g int, profile string, taken []Device) []placement.Running {
	var out []placement.Running
	for i, sl := range s.Node.slots[g] {
		if sl.profile.Name != profile || !s.free(g, i, taken) {
			out = append(out, placement.Running{Request: &placement.Request{Name: "instance", GPUs: 1, Profile: sl.profile.Name},
				GPUs: []int{g}, Start: sl.start})
		}
	}
	return out
}

// snapshot is the node as placement sees it. For a MIG profile, what is free on its GPUs are the free instances of
// that profile: others stand in the way, and space that is not partitioned is not for the device plugin to hand out.
func (s *State) snapshot(profile string, taken ...Device) (*placement.Snapshot, error) {
	if s.base != nil && profile == "" && len(taken) == 0 {
		return s.base, nil
	}
	node := placement.Node{Name: s.Node.Name, CPUMilli: s.cpuMilli, Memory: s.memory, Model: s.Node.Model,
		GPUs: slices.Clone(s.Node.GPUs), Running: slices.Clone(s.runs)}
	for g := range s.Node.slots {
		switch {
		case profile == "" || len(s.Node.slots[g]) == 0:
		case s.freeSlotOn(g, profile, taken) < 0:
			node.GPUs[g] = placement.GPU{Mechanism: sharing.MechanismExclusive, MaxTenants: 1}
		default:
			node.Running = append(node.Running, s.inTheWay(g, profile, taken)...)
		}
	}
	for _, d := range taken {
		if d.Profile == "" && d.request != nil {
			node.Running = append(node.Running, placement.Running{Request: gpuOnly(d.request, &d), GPUs: d.GPUs})
		}
	}
	return placement.NewSnapshot([]placement.Node{node})
}

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
		d.Model = s.Node.Model
		if r.Profile != "" {
			// Which instance of the GPU is the device plugin's, not the policy's.
			g := d.GPUs[0]
			d.Start = s.Node.slots[g][s.freeSlotOn(g, r.Profile, a.Devices)].start
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
