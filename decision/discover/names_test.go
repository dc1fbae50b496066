// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"bytes"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/sharing"
)

// TestNames: the built-in file has nothing that is not read and no GPU that is not known, and a machine's type begins
// with one prefix only.
func TestNames(t *testing.T) {
	all := names()
	dec := yaml.NewDecoder(bytes.NewReader(namesYAML))
	dec.KnownFields(true)
	if err := dec.Decode(&all); err != nil {
		t.Error(err)
	}
	for _, r := range all.Rules {
		if r.Name == "" || r.Kind == 0 {
			t.Errorf("%+v", r)
		}
	}
	for x := range all.Machines {
		for y := range all.Machines {
			if x != y && strings.HasPrefix(x, y) {
				t.Errorf("%s begins with %s", x, y)
			}
		}
	}
	if len(all.GKE) < 13 {
		t.Errorf("%d names of GKE", len(all.GKE))
	}
	for _, gpus := range []map[string]string{all.Machines, all.GKE} {
		for name, gpu := range gpus {
			if _, err := sharing.LookupGPU(gpu); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if len(all.Rules) < 13 || len(all.Servers) < 6 || len(all.Machines) < 40 {
		t.Errorf("%d rules, %d servers, %d machines", len(all.Rules), len(all.Servers), len(all.Machines))
	}
}
