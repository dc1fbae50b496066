package pluginconf

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMIGResourceNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"nvidia.com/gpu": true, "nvidia.com/mig-1g.5gb": true, "nvidia.com/mig-1g.10gb.me": true, "nvidia.com/mig-1c.3g.20gb": true, "nvidia.com/mig-1g.24gb.me.all": true,
		"nvidia.com/mig-1g.24gb-me": true, "gpu": false, "nvidia.com/mig-*": false, "nvidia.com/mig-1g": false, "nvidia.com/mig-1g.5gb.": false, "nvidia.com/gpu.shared": false,
	} {
		d := Document{TimeSlicing: &Block{Resources: []Resource{{Name: name, Replicas: 2}}}}
		if err := d.Validate(); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseAndMarshal(t *testing.T) {
	in := "version: v1\nflags:\n  migStrategy: none\n  plugin:\n    deviceListStrategy: envvar\n  gfd:\n    oneshot: true\nsharing:\n  mps:\n    resources:\n      - {name: nvidia.com/gpu, replicas: 2}\n"
	d, ws, err := Parse([]byte(in))
	if err != nil || len(ws) != 0 {
		t.Fatal(ws, err)
	}
	out, err := d.Marshal("head")
	if err != nil {
		t.Fatal(err)
	}
	want := "# head\nversion: v1\nflags:\n  migStrategy: none\n  plugin:\n    deviceListStrategy:\n      - envvar\n  gfd:\n    oneshot: true\nsharing:\n  mps:\n    resources:\n      - name: nvidia.com/gpu\n        replicas: 2\n"
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Error(diff)
	}
	if _, _, err := Parse([]byte(strings.Repeat("x", 9<<20))); err == nil {
		t.Error("9 MiB are read")
	}
	for _, bad := range []string{"version: 1", "version: v1\nflags: {plugin: {deviceListStrategy: [1]}}", "version: v1\nsharing: []", "version: v1\nversion: v1"} {
		if d, _, err := Parse([]byte(bad)); err == nil || d != nil {
			t.Errorf("%q is read", bad)
		}
	}
}
