// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestHAMi: replicas move between HAMi's nodes with the requests that they have, where memory, compute and trust let
// them, and nothing moves to or from a card with a service that is not known to meet its objectives.
func TestHAMi(t *testing.T) {
	const text = `version: v1
pools: [{name: h, gpu: L40S, count: 6, gpus_per_node: 2, price_per_gpu_hour: 1 USD, delivery: hami}]
workloads:
  - {name: t/a, kind: batch, replicas: 2, tenant: t, memory: 10GiB, today: {mechanism: hami, object: OBJECT}, request: {mechanism: hami, cores_percent: CORES}}
  - {name: t/b, kind: KIND, replicas: 2, tenant: t, memory: MEMORY, today: {mechanism: hami, object: Deployment}, request: {mechanism: hami, cores_percent: 40}}
  - {name: t/c, kind: batch, replicas: 1, tenant: TENANT, memory: 10GiB, today: {mechanism: hami, object: Deployment}, request: {mechanism: hami}}
today:
  nodes:
    - {name: n1, pool: h, devices: [{gpu: L40S, count: 2, mode: hami, slots: 10}], assignments: [{workload: t/a, device: 0}, {workload: t/a, device: 1, key: a2}]}
    - {name: n2, pool: h, devices: [{gpu: L40S, count: 2, mode: hami, slots: 10}], assignments: [{workload: t/b, device: 0}, {workload: t/b, device: 1, key: b2}]}
    - {name: n3, pool: h, devices: [{gpu: L40S, count: 2, mode: hami, slots: 10}], assignments: [{workload: t/c, device: 0}]}
`
	for _, c := range []struct{ name, object, cores, kind, memory, tenant, freed, why string }{
		{"all fit one node", "Deployment", "20", "batch", "10GiB", "t", "n1 n3", ""},
		{"too much compute", "Deployment", "70", "batch", "10GiB", "t", "n3", ""},
		{"too much memory", "Deployment", "20", "batch", "30GiB", "t", "n3", ""},
		{"a stranger", "Deployment", "20", "batch", "10GiB", "u", "n1", "t/c: its tenant and those that trust it need all of their 1 node"},
		{"a service", "Deployment", "20", "online-inference", "10GiB", "t", "n3", "t/b: not known: gpu_busy, slo, whether t/b meets its objectives"},
		{"a StatefulSet", "StatefulSet", "20", "batch", "10GiB", "t", "n2 n3", "t/a: a StatefulSet stops a replica before it starts the next"},
		{"no room anywhere", "Deployment", "100", "batch", "44GiB", "t", "", "t/a: it may only move to other cards, with what its pods request"},
	} {
		f := fleetOf(t, strings.NewReplacer("OBJECT", c.object, "CORES", c.cores, "KIND", c.kind, "MEMORY", c.memory, "TENANT", c.tenant).Replace(text))
		p := made(t, f)
		check(t, f, p)
		var freed, stays []string
		for i := range p.Steps {
			if s := &p.Steps[i]; s.Action == "free" {
				freed = append(freed, s.Node)
			} else if s.Request || s.Action != "move" {
				t.Errorf("%s: %s", c.name, s.Title())
			}
		}
		for _, s := range p.Stays {
			for _, w := range s.Workloads {
				stays = append(stays, w+": "+s.Why)
			}
		}
		slices.Sort(freed)
		if got := strings.Join(freed, " "); got != c.freed || !strings.Contains(fmt.Sprint(stays), c.why) {
			t.Errorf("%s: %q is freed by %s; %q; %s", c.name, got, titles(p), stays, p.Why)
		}
		for n := range p.After.Nodes() {
			for i := range n.Devices {
				if free := n.Devices[i].Free(); free.Memory < 0 || free.Compute < 0 {
					t.Errorf("%s: more of a card of %s is given than there is", c.name, n.Name)
				}
			}
		}
	}
}
