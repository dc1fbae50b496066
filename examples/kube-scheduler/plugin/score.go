package plugin

import (
	"context"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/cotenant/cotenant/decision"
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
	_, score, v := p.state(info).Plan(c.pod, p.scorer)
	if v.Verdict != decision.Pass {
		return 0, fwk.NewStatus(fwk.Unschedulable, shortReason(v.Code))
	}
	c.scores.Store(info.Node().Name, score)
	return int64(max(math.MinInt32, min(math.MaxInt32, math.Round(score)))), nil
}

// ScoreExtensions is the plugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// scoreTie is the difference up to which scores are equal: what adding the same
// numbers in another order may make of them.
const scoreTie = 1e-9

// NormalizeScore gives the node that the policy takes fwk.MaxNodeScore, and it
// alone: the scheduler would break ties by chance, and the first by name is as
// good. The others have what their score is worth between the best and the worst.
func (p *Plugin) NormalizeScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	c := cycleOf(state)
	if c == nil || len(scores) == 0 {
		return nil
	}
	value := func(i int) float64 {
		if v, ok := c.scores.Load(scores[i].Name); ok {
			return v.(float64)
		}
		return float64(scores[i].Score)
	}
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(scores[a].Name, scores[b].Name) })
	best, low, high := order[0], math.Inf(1), math.Inf(-1)
	for _, i := range order {
		v := value(i)
		low, high = min(low, v), max(high, v)
		if v > value(best)+scoreTie {
			best = i
		}
	}
	for i := range scores {
		share := 1.0
		if high > low {
			share = (value(i) - low) / (high - low)
		}
		scores[i].Score = int64(share * float64(fwk.MaxNodeScore-1))
	}
	scores[best].Score = fwk.MaxNodeScore
	return nil
}
