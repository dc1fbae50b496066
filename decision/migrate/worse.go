// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/sharing"
)

// worse names the workloads that would meet fewer objectives in a target than today, with the reason.
func (c *cluster) worse(s *search, all []*part) (map[string]string, error) {
	after, err := c.answers(s, all)
	again := map[string]string{}
	for w, answer := range after {
		switch _, runs := c.before[w]; {
		case runs && answer != c.before[w] && (answer == sharing.AnswerNo || c.before[w] == sharing.AnswerYes):
			again[w] = "with its new neighbours it may not meet its objectives"
		case !runs && answer == sharing.AnswerNo:
			again[w] = "it would miss its objectives on the devices that are free"
		}
	}
	if w, why := c.cramped(s, all); w != "" {
		again[w] = why
	}
	return again, err
}

// answers evaluates the workloads on nodes that change, with their replicas elsewhere.
func (c *cluster) answers(s *search, all []*part) (map[string]sharing.Answer, error) {
	evaluated := map[string]bool{}
	for _, p := range all {
		for _, node := range p.nodes {
			for w := range s.layout.Node(node).Replicas() {
				evaluated[w] = true
			}
		}
	}
	after, err := c.evaluator.Nodes(func(yield func(*layout.Node) bool) {
		for n := range s.layout.Nodes() {
			if slices.ContainsFunc(n.Assignments, func(a layout.Assignment) bool { return evaluated[a.Workload.Name] }) &&
				!yield(n) {
				return
			}
		}
	})
	maps.DeleteFunc(after, func(w string, _ sharing.Answer) bool { return !evaluated[w] })
	return after, err
}

// cramped names a workload with an autoscaler that may request more replicas than have devices after the change, where
// they have them today.
func (c *cluster) cramped(s *search, all []*part) (workload, why string) {
	most := func(l *layout.Cluster, w string, k kind) (n int) {
		for node := range l.Nodes() {
			if here := node.Replicas()[w]; here > 0 {
				n += here + c.free(node, c.of[w], k)
			}
		}
		return n
	}
	for _, a := range c.fleet.Today.Autoscalers {
		if c.stays[a.Workload] != "" || !slices.ContainsFunc(all, func(p *part) bool {
			return slices.ContainsFunc(p.nodes, func(n string) bool { return c.runs[a.Workload][n] != nil })
		}) {
			continue
		}
		today := min(a.Max, most(c.layout, a.Workload, c.kind(a.Workload)))
		if after := most(s.layout, a.Workload, s.now(a.Workload)); after < today {
			return a.Workload, fmt.Sprintf("its autoscaler may ask for %d replicas, and there would be devices for %d", today,
				after)
		}
	}
	return "", ""
}
