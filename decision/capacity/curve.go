package capacity

import (
	"cmp"
	"context"
	"fmt"

	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/internal/optional"
)

// curveLoads are the loads of an arrangement's curve, over the searched one.
var curveLoads = []float64{0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4, 6, 8}

// grow plays an arrangement as load grows: its curve, how much it has in hand, and what breaks first.
func (s *search) grow(ctx context.Context, a *Arrangement, c *candidate, at *played) {
	a.FirstLimit = fmt.Sprintf("nothing up to %g times the load", curveLoads[len(curveLoads)-1])
	if at.verdict == VerdictMissed {
		a.FirstLimit = s.words(at)
		if why := s.alone(c); why != "" {
			a.FirstLimit = fmt.Sprintf("no number of GPUs helps: even of requests that come one by one, %s", why)
		} else if c.tried() > 0 {
			a.FirstLimit = fmt.Sprintf("no number of %s up to %d does; %s, %s", c.gpuName(), c.tried(), c.nearest(),
				a.FirstLimit)
		}
	}
	kept, broken := 0.0, false
	for _, x := range curveLoads {
		if broken && x > 2 {
			break // what follows is only more of it
		}
		f := s.playAt(ctx, c, s.load*x)
		p := CurvePoint{Load: s.load * x, Over: figures4(f.over), Seen: map[string]float64{}}
		if f.tenant >= 0 {
			p.Seen = f.seen[f.tenant].values()
		}
		a.Curve = append(a.Curve, p)
		switch {
		case f.verdict == VerdictKept && !broken:
			kept = x
		case f.verdict != VerdictKept && !broken:
			broken = true
			if at.verdict != VerdictMissed {
				a.FirstLimit = fmt.Sprintf("at %gx: %s", x, s.words(f))
				if why := cause(c, f.report); why != "" {
					a.FirstLimit += "; " + why
				} else if busy := mean(f.report.GPUs); busy > 0.6 {
					a.FirstLimit += fmt.Sprintf("; the GPUs are busy %.0f%% of the time", 100*busy)
				}
			}
		}
	}
	if kept > 0 {
		a.Headroom = optional.Of(kept)
	}
}

// nearest says with how many GPUs a candidate comes nearest, where none that was tried do.
func (c *candidate) nearest() string {
	switch {
	case len(c.parts) > 1:
		return fmt.Sprintf("with %d in all", c.gpus())
	case c.gpus() < c.tried():
		return fmt.Sprintf("with %s, where more hardly help", count(c.gpus()))
	}
	return fmt.Sprintf("with %s, the nearest", count(c.gpus()))
}

// alone names the objective that a candidate's requests miss even when each comes alone, "" when nothing.
func (s *search) alone(c *candidate) string {
	for i := range c.parts {
		if why := s.floors[s.floorKey(&c.parts[i].layout)]; why != "" {
			return why
		}
	}
	return ""
}

// count counts a simulation and tells of it.
func (s *search) count(c *candidate, load float64) {
	if s.err != nil {
		return
	}
	s.plays++
	if s.plan.Progress != nil {
		s.plan.Progress(Progress{Load: load, Kind: c.kind, GPU: c.gpuName(), GPUs: c.gpus(), Plays: s.plays})
	}
}

// played is a candidate with what is seen of it, and whether that keeps the objectives.
type played struct {
	judgement
	report *serving.Report
	seen   []figures
}

// play runs a candidate under requests in the simulator, and judges what the tenants see. Once that failed nothing is
// played any more: every candidate misses, and s.err says why.
func (s *search) play(ctx context.Context, c *candidate,
	run func(serving.Cluster, map[int]route) (*serving.Report, error)) *played {
	s.err = cmp.Or(s.err, ctx.Err())
	if s.err == nil {
		cluster, routes := s.cluster(c)
		var report *serving.Report
		if report, s.err = run(cluster, routes); s.err == nil {
			seen := s.seen(report, routes)
			return &played{s.judge(seen), report, seen}
		}
	}
	return &played{judgement{verdict: VerdictMissed, tenant: -1}, &serving.Report{},
		make([]figures, len(s.plan.Tenants))}
}

// playAt plays a candidate at a load.
func (s *search) playAt(ctx context.Context, c *candidate, load float64) *played {
	s.count(c, load)
	return s.play(ctx, c, func(cluster serving.Cluster, routes map[int]route) (*serving.Report, error) {
		return cluster.Play(ctx, s.traffic.requests(routes, load))
	})
}
