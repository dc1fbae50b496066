// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	v1 "k8s.io/api/core/v1"

	"github.com/cotenant/cotenant/examples/kube-scheduler/kubegpu"
)

// count counts by key.
type count map[string]int

// String lists the counts, most frequent first.
func (c count) String() string {
	keys := slices.SortedFunc(maps.Keys(c), func(a, b string) int { return cmp.Or(c[b]-c[a], strings.Compare(a, b)) })
	var parts []string
	for _, k := range keys {
		parts = append(parts, fmt.Sprint(c[k], " ", k))
	}
	return strings.Join(parts, ", ")
}

// outcome is what became of pods that asked for the same.
type outcome struct {
	mechanisms count // of those that are bound
	refused    int
	codes      count // of the nodes that refused the others, but for those that can't have what is asked for
}

// outcomes are what became of pods.
type outcomes struct {
	requests map[string]*outcome
	nodes    map[string]count // by mechanism
}

func (o *outcomes) of(p *v1.Pod) *outcome {
	asks := count{}
	for _, c := range p.Spec.Containers {
		for name, q := range c.Resources.Requests {
			if strings.Contains(string(name), "/") {
				asks[string(name)] += int(q.Value())
			}
		}
	}
	var key []string
	for _, name := range slices.Sorted(maps.Keys(asks)) {
		key = append(key, fmt.Sprintf("%s=%d", strings.TrimPrefix(name, "nvidia.com/"), asks[name]))
	}
	text := strings.Join(key, " ")
	if o.requests == nil {
		o.requests, o.nodes = map[string]*outcome{}, map[string]count{}
	}
	if o.requests[text] == nil {
		o.requests[text] = &outcome{mechanisms: count{}, codes: count{}}
	}
	return o.requests[text]
}

func (o *outcomes) bound(p *v1.Pod, a *kubegpu.Allocation) {
	one := o.of(p)
	m := a.Devices[0].Mechanism.String()
	one.mechanisms[m]++
	if o.nodes[a.Node] == nil {
		o.nodes[a.Node] = count{}
	}
	o.nodes[a.Node][m]++
}

func (o *outcomes) refused(p *v1.Pod, verdicts map[string]kubegpu.Ruling) {
	one := o.of(p)
	one.refused++
	for _, v := range verdicts {
		if !v.Final() {
			one.codes[v.Code]++
		}
	}
}

func table(head string, rows func(*tabwriter.Writer)) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, head)
	rows(w)
	w.Flush() // to a strings.Builder: it cannot fail
	return b.String()
}

// byRequest is a table of what became of each kind of request. Nodes that can
// never take it are left out of the reasons.
func (o *outcomes) byRequest() string {
	return table("asked for\tbound\tby\trefused\tby nodes for", func(w *tabwriter.Writer) {
		for _, asks := range slices.Sorted(maps.Keys(o.requests)) {
			one, bound := o.requests[asks], 0
			for _, n := range one.mechanisms {
				bound += n
			}
			why := one.codes.String()
			if one.refused > 0 && why == "" {
				why = "what they are"
			}
			fmt.Fprintf(w, "%s\t%d\t%v\t%d\t%s\n", asks, bound, one.mechanisms, one.refused, why)
		}
	})
}

// byNode is a table of how many pods each node has.
func (o *outcomes) byNode() string {
	return table("node\tpods", func(w *tabwriter.Writer) {
		for _, node := range slices.Sorted(maps.Keys(o.nodes)) {
			fmt.Fprintf(w, "%s\t%v\n", node, o.nodes[node])
		}
	})
}
