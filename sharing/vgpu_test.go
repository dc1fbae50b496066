// SPDX-License-Identifier: Apache-2.0

package sharing_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/sharing"
)

func TestParseVGPUType(t *testing.T) {
	for name, want := range map[string]sharing.VGPUType{
		"NVIDIA A10-12Q":                         {Name: "A10-12Q", Board: "A10", Memory: 12 * sharing.GiB},
		"NVIDIA-A10-12Q":                         {Name: "A10-12Q", Board: "A10", Memory: 12 * sharing.GiB},
		"GRID T4-8C":                             {Name: "T4-8C", Board: "T4", Memory: 8 * sharing.GiB},
		"A100D-1-10CME":                          {Name: "A100D-1-10CME", Board: "A100D", Slices: 1, Memory: 10 * sharing.GiB},
		"NVIDIA RTX6000-Ada-48Q":                 {Name: "RTX6000-Ada-48Q", Board: "RTX6000-Ada", Memory: 48 * sharing.GiB},
		"NVIDIA RTX Pro 6000 Blackwell DC-1-24Q": {Name: "RTX Pro 6000 Blackwell DC-1-24Q", Board: "RTX Pro 6000 Blackwell DC", Slices: 1, Memory: 24 * sharing.GiB},
	} {
		got, ok := sharing.ParseVGPUType(name)
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s: %v %s", name, ok, diff)
		}
	}
	for _, g := range sharing.GPUs() {
		for _, name := range append(g.Aliases, g.Name, "NVIDIA "+g.Name) {
			if v, ok := sharing.ParseVGPUType(name); ok {
				t.Errorf("%s is a board and read as the vGPU %+v", name, v)
			}
		}
	}
	for _, name := range []string{"", "A10", "Q", "-12Q", "A10-0Q", "A10-12X"} {
		if v, ok := sharing.ParseVGPUType(name); ok {
			t.Errorf("%q: %+v", name, v)
		}
	}
}
