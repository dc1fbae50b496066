package mig

import (
	"fmt"
	"slices"
)

// Move moves an instance of a fleet. On real GPUs it is a new instance, the
// workload moved, and the old instance destroyed.
type Move struct {
	Profile *Profile
	FromGPU int
	From    Placement
	ToGPU   int
	To      Placement
}

// String writes the move: "1g.10gb: GPU 3 at 6 to GPU 0 at 4".
func (mv Move) String() string {
	return fmt.Sprintf("%s: GPU %d at %d to GPU %d at %d", mv.Profile, mv.FromGPU, mv.From.Start, mv.ToGPU, mv.To.Start)
}

// Fragmentation returns the free units of the fleet that a request drawn from
// the mix can't use, in expectation.
func (f *Cluster) Fragmentation() float64 {
	sum := 0.0
	for i := range f.gpus {
		sum += f.frag[f.gpus[i].mask]
	}
	return sum
}

// Defragment lists moves that each lower the fleet's fragmentation, the most
// effective first, at most maxMoves of them (0: as many as help). Busy
// instances stay. Moves are valid in their order: a place is free when its move
// comes. The fleet is not changed; Move does that.
func (f *Cluster) Defragment(maxMoves int) []Move {
	work := *f
	work.gpus = append([]state(nil), f.gpus...)
	work.layout = make([]Layout, len(f.layout))
	for i := range f.layout {
		work.layout[i] = f.Layout(i)
	}
	var moves []Move
	for maxMoves == 0 || len(moves) < maxMoves {
		mv, ok := work.bestMove()
		if !ok || work.Move(mv) != nil {
			break
		}
		moves = append(moves, mv)
	}
	return moves
}

// bestMove returns the move that lowers fragmentation most. Ties go to the
// lowest GPUs and starts.
func (f *Cluster) bestMove() (Move, bool) {
	g := f.model.grid
	var best Move
	gain := 1e-9
	for from := range f.gpus {
		for _, in := range f.layout[from].Instances {
			if in.Busy {
				continue
			}
			p := in.Profile.index
			s := g.slotOf(p, in.Placement)
			left := f.gpus[from]
			g.remove(&left, s)
			freed := f.frag[f.gpus[from].mask] - f.frag[left.mask]
			for to := range f.gpus {
				st := &f.gpus[to]
				base := freed
				if to == from {
					st = &left
				}
				for _, t := range g.of[p] {
					if t == s && to == from || !g.fits(st, t) || to == from && g.slots[t].mask&g.slots[s].mask != 0 {
						continue
					}
					if v := base + f.frag[st.mask] - f.frag[st.mask|g.slots[t].mask]; v > gain+1e-9 {
						gain = v
						best = Move{Profile: in.Profile, FromGPU: from, From: in.Placement, ToGPU: to, To: g.slots[t].Placement}
					}
				}
			}
		}
	}
	return best, best.Profile != nil
}

// Move makes a move in the fleet. It fails, and changes nothing, when the
// instance is not there, is busy, or its new place is not free.
func (f *Cluster) Move(mv Move) error {
	bad := func(why string) error { return invalid(fmt.Errorf("move %v: %s", mv, why)) }
	if mv.Profile == nil || mv.Profile.model != f.model {
		return invalid(fmt.Errorf("the move's profile is not one of %s", f.model.Key))
	}
	if min(mv.FromGPU, mv.ToGPU) < 0 || max(mv.FromGPU, mv.ToGPU) >= len(f.gpus) {
		return bad("the fleet has no such GPU")
	}
	at := slices.IndexFunc(f.layout[mv.FromGPU].Instances, func(in Instance) bool { return in.Profile == mv.Profile && in.Placement == mv.From })
	if at < 0 {
		return bad("there is no such instance")
	}
	in := f.layout[mv.FromGPU].Instances[at]
	g := f.model.grid
	switch to := g.slotOf(mv.Profile.index, mv.To); {
	case in.Busy:
		return bad("the instance is busy")
	case to < 0 || !g.fits(&f.gpus[mv.ToGPU], to):
		return bad("the new place is not free")
	}
	f.take(mv.FromGPU, at)
	in.Placement = mv.To
	f.add(mv.ToGPU, in)
	return nil
}
