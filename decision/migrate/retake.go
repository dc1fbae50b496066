package migrate

import (
	"maps"
	"strings"
)

// retake is the target of those of an earlier plan's steps that can still be taken from where the cluster is now.
func (c *cluster) retake(steps []Step) (loads []*load, seats map[string]seat) {
	loads, seats = c.seated(), maps.Clone(c.today)
	at := map[string]*load{}
	for _, l := range loads {
		at[l.node.Name] = l
	}
	for i := range steps {
		s := &steps[i]
		switch l := at[s.Node]; {
		case s.Action == ActionMove:
			c.remove(s, at, seats)
		case s.Action == ActionConfigure && l != nil && len(l.run) == 0 && l.node.Closed == "":
			l.shape, l.fresh = *s.Gets, true
			l.shape.whole = l.node.GPUs - len(s.Gets.Layouts)
		}
	}
	for _, l := range loads {
		if l.fresh && len(l.run) == 0 { // what was to go there can't any more
			l.shape, l.fresh = ShapeOf(l.node.Node), false
		}
	}
	return loads, seats
}

// remove moves a workload as a step says, where it may move, is where the step takes it from, and finds free devices
// beside others that it trusts.
func (c *cluster) remove(s *Step, at map[string]*load, seats map[string]seat) {
	w := c.of[s.Workload]
	if w == nil || w.Today == nil || c.stays[s.Workload] != "" {
		return
	}
	var is seat
	mechanism, profile, _ := strings.Cut(s.Seat, " ")
	if is.profile = profile; is.mechanism.UnmarshalText([]byte(mechanism)) != nil {
		return
	}
	was, n := c.want(s.Workload, c.today[s.Workload]), 0
	for _, from := range s.From {
		if l := at[from.Node]; l == nil || l.run[s.Workload] < from.Replicas {
			return
		}
		n += from.Replicas
	}
	if is != was.seat && n != c.running[s.Workload] {
		return
	}
	k, y := c.want(s.Workload, is), yard{trusts: c.trusts}
	for _, to := range s.To {
		l := at[to.Node]
		if l == nil || l.node.Closed != "" || !y.welcome(l, k) || l.free(k) < to.Replicas {
			return
		}
	}
	shift(at, was, s.From, k, s.To)
	seats[s.Workload] = is
}
