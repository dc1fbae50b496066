package migrate

import (
	"context"
	"strings"

	"github.com/cotenant/cotenant/decision"
)

// Keep plans as Make does, and stays with the part of an earlier plan's steps that can still be taken unless the new
// plan mends more, or saves more by at least its uncertainty. So one of two plans that are as good is not given up
// for the other, and worthwhile steps can be distinguished from passing ones.
func Keep(ctx context.Context, f *decision.Fleet, steps []Step, opts decision.Options) (*Plan, error) {
	p, err := Make(ctx, f, opts)
	if err != nil || len(steps) == 0 || !p.Changes() {
		return p, err
	}
	c, err := read(ctx, f, opts)
	if err != nil {
		return nil, err
	}
	r := p.Result
	old, again, err := c.propose(c.retake(steps), r, true)
	if err != nil || len(again) > 0 || !old.Changes() || len(p.Mends) > len(old.Mends) ||
		p.Bill.saved-old.Bill.saved > p.Bill.uncertain {
		return p, err
	}
	old.Kept = true
	return old, nil
}

// retake is the layout after those of an earlier plan's steps that can still be taken from where the cluster is now.
func (c *cluster) retake(steps []Step) *search {
	s := c.newSearch(&decision.Result{})
	for i := range steps {
		switch step := &steps[i]; {
		case step.Action == ActionMove && c.of[step.Workload] != nil && c.of[step.Workload].Today != nil &&
			c.stays[step.Workload] == "":
			if t := s.copy(); t.again(step) {
				*s = *t
			}
		case step.Action == ActionConfigure && step.Gets != nil:
			if n := s.layout.Node(step.Node); n != nil && !n.Used() && n.Closed == "" && !s.fixed[n.Name] &&
				len(n.Devices) == len(step.Gets.Devices) {
				next := *n
				next.Devices = step.Gets.Devices
				s.layout, _ = s.layout.WithNode(next)
			}
		}
	}
	s.restore()
	return s
}

// again moves a workload by a step, and reports whether it is where the step takes it from and finds free devices.
func (s *search) again(step *Step) bool {
	w, k := s.of[step.Workload], kind{}
	mechanism, profile, _ := strings.Cut(step.Seat, " ")
	if k.profile = profile; k.mode.UnmarshalText([]byte(mechanism)) != nil {
		return false
	}
	var keys []string
	for _, from := range step.From {
		had := s.runs[w.Name][from.Node]
		if len(had) < from.Replicas {
			return false
		}
		keys = append(keys, had[len(had)-from.Replicas:]...)
	}
	if k != s.kind(w.Name) && len(keys) != s.running(w.Name) || len(keys) != count(step.To) {
		return false
	}
	s.take(keys)
	s.kinds[w.Name] = k
	for _, to := range step.To {
		if n := s.layout.Node(to.Node); n == nil || s.free(n, w, k) < to.Replicas || !s.put(to.Node, w, k,
			keys[:to.Replicas]) {
			return false
		}
		keys = keys[to.Replicas:]
	}
	return true
}
