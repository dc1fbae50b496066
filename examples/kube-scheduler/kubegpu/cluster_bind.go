package kubegpu

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Bind takes note of a pod that somebody else bound, also of one that asks for no
// GPU: its CPU and memory are gone. It reports whether the pod's node is known.
func (c *Cluster) Bind(p *v1.Pod) bool {
	i := slices.Index(c.names, p.Spec.NodeName)
	if i < 0 {
		return false
	}
	if n := c.nodes[i]; n != nil {
		r, _ := ReadRunning(p, n, nil)
		c.running[n.Name] = append(c.running[n.Name], r)
		c.states[i] = nil
	}
	return true
}
