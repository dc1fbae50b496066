package plugin

import (
	"context"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/cotenant/cotenant/decision/gate"
	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

// PreScore leaves pods that ask for no GPU to the other plugins.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if cycleOf(state) == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score scores a node by the policy. Policies score in units of their own, so
// what counts is what NormalizeScore makes of it.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	c := cycleOf(state)
	if c == nil || info.Node() == nil {
		return 0, nil
	}
	on := c.plan(p, info)
	if on.ruling.Ruling != gate.VerdictPass {
		return 0, fwk.NewStatus(fwk.Unschedulable, shortReason(on.ruling.Code))
	}
	return int64(max(math.MinInt32, min(math.MaxInt32, math.Round(on.score)))), nil
}

// ScoreExtensions is the plugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore gives the node that the policy takes fwk.MaxNodeScore, and it
// alone: the scheduler would break ties by chance, and the first by name is as
// good. The others have what their score is worth between the best and the worst.
func (p *Plugin) NormalizeScore(_ context.Context, state fwk.CycleState, _ *v1.Pod,
	scores fwk.NodeScoreList) *fwk.Status {
	c := cycleOf(state)
	if c == nil || len(scores) == 0 {
		return nil
	}
	names, values := make([]string, len(scores)), make([]float64, len(scores))
	for i := range scores {
		names[i], values[i] = scores[i].Name, float64(scores[i].Score)
		if v, ok := c.plans.Load(names[i]); ok {
			values[i] = v.(*plan).score
		}
	}
	low, high := slices.Min(values), slices.Max(values)
	for i, v := range values {
		share := 1.0
		if high > low {
			share = (v - low) / (high - low)
		}
		scores[i].Score = int64(share * float64(fwk.MaxScore-1))
	}
	scores[kubegpu.Best(names, values)].Score = fwk.MaxScore
	return nil
}
