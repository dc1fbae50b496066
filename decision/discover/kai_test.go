// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/sharing"
)

// TestKAI: what KAI holds of the shares that it gives depends on its version, which its own pods show; annotations by
// container are of the mode in which the driver holds them.
func TestKAI(t *testing.T) {
	scheduler := func(image string) string {
		return `,{"apiVersion":"v1","kind":"Pod","metadata":{"name":"s","namespace":"kai-scheduler"},"spec":{"containers":[{"image":"` + image + `"}]},"status":{"phase":"Running"}}`
	}
	const kai = "ghcr.io/kai-scheduler/kai-scheduler/"
	board, err := sharing.LookupGPU("L4")
	if err != nil {
		t.Fatal(err)
	}
	all, _ := board.Memory.Get()
	half := all / 2
	fraction, container := `"gpu-fraction":"0.5"`, `"nvidia.com/container.main.gpu-memory.limit":"2000Mi","nvidia.com/container.main.gpu-memory.request":"1000Mi"`
	for _, c := range []struct {
		name, annotation, image, message, source, text string
		memory                                         sharing.Bytes
	}{
		{"no version", fraction, "registry/app:1", "Which version runs is not among the objects", "kai-gpu-sharing-modes", "version not known", half},
		{"old", fraction, "ghcr.io/nvidia/kai-scheduler/binder:v0.9.4", "KAI 0.9.4 places pods by their share and holds none", "kai-gpu-sharing", "KAI 0.9.4 holds no memory", half},
		{"0.17", fraction, kai + "scheduler:v0.17.1", "plugin hamicore", "kai-hami-isolation", "plugin hamicore", half},
		{"0.18", fraction, kai + "admission:v0.18.0", "global.gpuSharingMode", "kai-gpu-sharing-modes", "HamiCore or NvFractions", half},
		{"a build", fraction, kai + "scheduler:0.0.0-4c29820", "Which version runs", "kai-gpu-sharing-modes", "version not known", half},
		{"the driver's", container, kai + "binder:v0.18.0", "", "", "", 2000 * sharing.MiB},
		{"the driver's, in parts of a unit", strings.Replace(container, "2000Mi", "1.5Gi", 1), kai + "binder:v0.18.0", "", "", "", 1536 * sharing.MiB},
		{"the driver's, more than there can be", strings.Replace(container, "2000Mi", "17Ti", 1), kai + "binder:v0.18.0", "", "", "", 1000 * sharing.MiB},
		{"the driver's, under a version that has none", container, kai + "binder:v0.14.1", "holds none of it", "kai-gpu-sharing", "holds no memory", 2000 * sharing.MiB},
	} {
		pod := `,{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"t","annotations":{` + c.annotation + `}},"spec":{"nodeName":"n","containers":[{"image":"i"}]},"status":{"phase":"Running"}}`
		d, err := read(t, discover.Options{}, c.name, `{"kind":"List","items":[`+aNode("n", l4+"nvidia.com/gpu.count=1", "", "nvidia.com/gpu=1")+pod+scheduler(c.image)+`]}`)
		if err != nil || len(d.Fleet.Workloads) != 1 {
			t.Errorf("%s: %v %+v", c.name, err, d.Fleet)
			continue
		}
		if got := d.Fleet.Workloads[0].Memory.Or(0); got != c.memory {
			t.Errorf("%s: %v, want %v", c.name, got, c.memory)
		}
		f := found(d, "kai-memory")
		if c.message == "" {
			if f != nil {
				t.Errorf("%s: %+v", c.name, f)
			}
			continue
		}
		if f == nil || !strings.Contains(f.Message, c.message) || f.Source != c.source || f.Object != "pool l4" {
			t.Errorf("%s: %+v", c.name, f)
		}
		var out bytes.Buffer
		if err := d.WriteText(&out); err != nil || !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(out.String(), "\n#", "")), " "), c.text) {
			t.Errorf("%s: %v\n%s", c.name, err, &out)
		}
	}
}
