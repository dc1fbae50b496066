package decision

import (
	"fmt"
	"time"

	"github.com/cotenant/cotenant/sharing"
)

// SLOCheck is a prediction held against one limit.
type SLOCheck struct {
	Metric    Metric
	LimitMS   float64
	Predicted Interval // means nothing when Meets is Unknown for want of a prediction
	// Meets is Unknown when the limit lies within the interval, or nothing was
	// predicted.
	Meets sharing.Answer
	// Settle says which measurement would settle an unknown answer; else empty.
	Settle string
}

// CheckSLO holds a prediction against a workload's limits, in the order TTFT,
// TPOT, E2E; limits that are not set are left out.
func (p *Prediction) CheckSLO(s SLO) []SLOCheck {
	var out []SLOCheck
	for _, l := range []struct {
		m     Metric
		limit *Duration
	}{{TTFTP99, s.TTFTP99}, {TPOTP99, s.TPOTP99}, {E2EP99, s.E2EP99}} {
		if l.limit == nil {
			continue
		}
		c := SLOCheck{Metric: l.m, LimitMS: float64(*l.limit) / float64(time.Millisecond)}
		v, ok := p.Get(l.m)
		if ok {
			c.Predicted, c.Meets = v, v.Below(c.LimitMS)
		}
		if c.Meets == sharing.AnswerUnknown {
			c.Settle = fmt.Sprintf("measure %s under %s beside these neighbours; at least 100 requests for a P99", l.m, p.Mechanism)
		}
		out = append(out, c)
	}
	return out
}
