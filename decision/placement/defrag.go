package placement

import (
	"context"
	"fmt"
	"slices"

	"github.com/cotenant/cotenant/decision/gate"
)

// DefragOptions bound a defragmentation plan. The zero value allows ten moves.
type DefragOptions struct {
	Moves int // 0 = 10
	// Tenants bounds how many tenants are disturbed; 0 = no bound.
	Tenants int
	// MinGainMilli is the least gain of a move; 0 = 50, a twentieth of a GPU, so that nobody is moved for nothing.
	MinGainMilli float64
	// Movable says which placements may be moved; nil = all that are not Fixed.
	// It must answer the same for the same placement.
	Movable func(*Placement) bool
	// Forecaster filters targets as for NewScorer; nil = nothing is predicted.
	Forecaster Forecaster
}

// Move is one step of a plan: start the request at To, then end it at From. Each step is possible when those before
// it are done, and needs its new place free while the old one is still taken.
type Move struct {
	From, To  *Placement
	GainMilli float64 // of stranded thousandths, by the Valuer
}

// String writes the move.
func (m Move) String() string {
	return fmt.Sprintf("%v -> %s GPU %v (%.0fm less stranded)", m.From, m.To.Node, m.To.GPUs, m.GainMilli)
}

// MovePlan is a defragmentation plan.
type MovePlan struct {
	Moves []Move
	// BeforeMilli and AfterMilli are the free thousandths that the Valuer expects to be lost: simulated.
	BeforeMilli, AfterMilli float64
	Disturbed               []string  // the tenants that are moved, sorted
	Snapshot                *Snapshot // as it is after the plan
}

// Gain returns the decrease of what is stranded.
func (p MovePlan) Gain() float64 { return p.BeforeMilli - p.AfterMilli }

// Defragment plans moves that each lower what v takes for stranded, the most effective first, within bounds. It
// changes nothing: a plan is carried out by whoever runs the workloads. ctx is looked at between moves: when it
// ends, the plan that was made until then is returned with its error.
func Defragment(ctx context.Context, s *Snapshot, v Valuer, opts DefragOptions) (MovePlan, error) {
	if opts.Moves < 0 || opts.Tenants < 0 || !(opts.MinGainMilli >= 0) {
		return MovePlan{}, fmt.Errorf("%w: DefragOptions: no number in it may be negative", ErrInvalid)
	}
	if opts.Moves == 0 {
		opts.Moves = 10
	}
	if opts.MinGainMilli == 0 {
		opts.MinGainMilli = 50
	}
	d := defrag{valuer: v, opts: opts, placer: NewPlacer(valuing{v}, opts.Forecaster), tenants: map[string]bool{},
		values: make([]valued, s.Len())}
	plan := MovePlan{BeforeMilli: d.total(s), Snapshot: s}
	var err error
	for len(plan.Moves) < opts.Moves {
		if err = ctx.Err(); err != nil {
			break
		}
		m, next := d.best(plan.Snapshot)
		if next == nil {
			break
		}
		plan.Moves = append(plan.Moves, m)
		plan.Snapshot = next
		d.tenants[m.From.Request.Tenant] = true
	}
	plan.AfterMilli = d.total(plan.Snapshot)
	for t := range d.tenants {
		plan.Disturbed = append(plan.Disturbed, t)
	}
	slices.Sort(plan.Disturbed)
	return plan, err
}

// valuing is the policy that lowers what a Valuer takes for stranded.
type valuing struct{ Valuer }

func (valuing) Name() string  { return "valuing" }
func (valuing) ByShape() bool { return true }
func (p valuing) Score(o *Option) float64 {
	return p.Stranded(o.Before) - p.Stranded(o.After)
}

type defrag struct {
	valuer  Valuer
	opts    DefragOptions
	placer  *Placer
	tenants map[string]bool // disturbed so far
	values  []valued
}

// valued keeps the value of a node and, for each of its placements, what moving it gains.
type valued struct {
	node  *node
	value float64
	moves []inNode
}

// inNode returns the gain of moving a placement within its node, and the best place on the
// same node with what moving there gains; ok is false where there is none.
type inNode struct {
	leaving, inside float64
	to              Offer
	ok              bool
}

func (d *defrag) of(s *Snapshot, i int) *valued {
	n := s.node(i)
	k := &d.values[i]
	if k.node == n {
		return k
	}
	*k = valued{node: n, value: d.valuer.Stranded(&n.view), moves: make([]inNode, len(n.placed))}
	for at, p := range n.placed {
		m := &k.moves[at]
		m.leaving = k.value - d.valuer.Stranded(&n.without(at).view)
		if !d.movable(p) {
			continue
		}
		c, f := d.placer.scorer.Score(s, i, p.Request)
		if m.ok = f.Verdict == gate.VerdictPass; m.ok {
			if again, _ := n.placementOf(p.Request, &c); again != nil {
				m.to = c
				m.inside = k.value - d.valuer.Stranded(&n.with(again).without(at).view)
			}
		}
	}
	return k
}

func (d *defrag) total(s *Snapshot) float64 {
	sum := 0.0
	for i := range s.Len() {
		sum += d.of(s, i).value
	}
	return sum
}

func (d *defrag) movable(p *Placement) bool {
	if p.Fixed || len(p.GPUs) == 0 {
		return false
	}
	if d.opts.Tenants > 0 && !d.tenants[p.Request.Tenant] && len(d.tenants) >= d.opts.Tenants {
		return false
	}
	return d.opts.Movable == nil || d.opts.Movable(p)
}

// best returns the move that gains most and the snapshot after it; nil when none gains enough. Ties go to the first
// node and the oldest placement. The new place is looked for while the old one is still taken, so that the move can
// be made without an interruption.
func (d *defrag) best(s *Snapshot) (Move, *Snapshot) {
	var best Move
	var to Offer
	gain := d.opts.MinGainMilli - 2*tie
	try := func(p *Placement, g float64, c Offer) {
		if g > gain+tie {
			gain, to = g, c
			best = Move{From: p, GainMilli: g}
		}
	}
	targets := map[shape][2]Offer{}
	for i := range s.Len() {
		k := d.of(s, i)
		for at, p := range k.node.placed {
			if !d.movable(p) {
				continue
			}
			m := &k.moves[at]
			if m.ok {
				try(p, m.inside, m.to)
			}
			sh := p.Request.shape()
			two, ok := targets[sh]
			if !ok {
				two = d.targets(s, p.Request)
				targets[sh] = two
			}
			for _, c := range two {
				if c.Node >= 0 && c.Node != i {
					try(p, m.leaving+c.Score, c)
					break
				}
			}
		}
	}
	if best.From == nil {
		return best, nil
	}
	next, p, err := s.Reserve(best.From.Request, to)
	if err != nil {
		return best, nil
	}
	best.To = p
	if next, err = next.Release(best.From); err != nil {
		return best, nil
	}
	return best, next
}

// targets returns the two best nodes for a request, of which one is not the node
// that it is on. Node is -1 for those that there are not.
func (d *defrag) targets(s *Snapshot, r *Request) [2]Offer {
	two := [2]Offer{{Node: -1}, {Node: -1}}
	k := d.placer.key(r)
	for i := range s.Len() {
		c, fits := d.placer.score(s, i, r, &k)
		switch {
		case !fits:
		case two[0].Node < 0 || c.Score > two[0].Score+tie:
			two[0], two[1] = c, two[0]
		case two[1].Node < 0 || c.Score > two[1].Score+tie:
			two[1] = c
		}
	}
	return two
}
