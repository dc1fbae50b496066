// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/cotenant/cotenant/telemetry/container"
)

func TestObjectives(t *testing.T) {
	for _, s := range []string{"", "a/b=ttft:1s", "a/b/c=e2e:1s", "a/b/c=ttft:1", "a/b/c=tpot:-1s", "a/b/c=ttft"} {
		if o, err := parseObjective(s); err == nil {
			t.Errorf("%q: %v", s, o)
		}
	}
	b, err := parseObjective("shop/web/c=ttft:400ms")
	c, o := collector{node: "n", objectives: []objective{b}}, out{}
	c.bounds(o, map[container.Pod]bool{{Namespace: "shop", Name: "web-7d4b9-x2k4z", Container: "c"}: true,
		{Namespace: "shop", Name: "website-7d4b9-x2k4z", Container: "c"}: true, {Namespace: "lab", Name: "web-0", Container: "c"}: true})
	if m := o["cotenant_objective_seconds"]; err != nil || len(m) != 1 || m[0].Gauge.GetValue() != 0.4 {
		t.Errorf("%v, %v", m, err)
	}
}
