package discover_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
)

// TestSettleJob: the Job stands on the node with most money at stake, and what its script prints over a stand-in for
// nvidia-smi settles the memory and busy time of the pods there, each its own.
func TestSettleJob(t *testing.T) {
	opts := priced(t, "Tesla T4: 1 USD\nL4: 9 USD\n")
	shared := "nvidia.com/gpu.product=Tesla-T4-SHARED nvidia.com/gpu.replicas=2 nvidia.com/gpu.count=1 nvidia.com/gpu.sharing-strategy=time-slicing"
	objects := list(aNode("cheap", shared, "", "nvidia.com/gpu=2"), aNode("dear", strings.Replace(shared, "Tesla-T4", "NVIDIA-L4", 1), "", "nvidia.com/gpu=2"),
		aPod("a", "cheap", "x=1"), aPod("b", "cheap", "x=1"), aPod("c", "dear", "x=1"), aPod("d", "dear", "x=1"))
	d := joined(t, opts, "objects", objects)
	var out bytes.Buffer
	if err := d.WriteSettleJob(&out); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/settle-job.yaml", out.Bytes())
	var job struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Spec       struct {
			Template struct {
				Spec struct {
					NodeName   string `yaml:"nodeName"`
					HostPID    bool   `yaml:"hostPID"`
					Containers []struct {
						Args      []string
						Resources map[string]any
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(out.Bytes(), &job); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	spec := &job.Spec.Template.Spec
	if job.APIVersion != "batch/v1" || job.Kind != "Job" || spec.NodeName != "dear" || !spec.HostPID || len(spec.Containers) != 1 || spec.Containers[0].Resources != nil {
		t.Fatalf("%+v", job)
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	// Two processes of pod c and one of pod d, as driver 580 prints them; /proc is stood in for.
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("nvidia-smi", `#!/bin/bash
if [ "$1" = pmon ]; then
  printf '# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command \n# Idx           #    C/G      %%      %%      %%      %%      %%      %%     MB     MB    name \n'
  printf '    0        101     C     40      3      -      -      -      -   3000      0    python3        \n    0        102     C      5      -      -      -      -      -   1000      0    worker         \n'
  printf '    0        103     C      -      -      -      -      -      -    500      0    idle           \n    1          -     -      -      -      -      -      -      -      -      -    -              \n'
else
  printf '0, GPU-dear-0, 4600, 47\n'
fi
`)
	write("sleep", "#!/bin/bash\n")
	for pid, uid := range map[int]string{101: "uid-c", 102: "uid-c", 103: "uid-d"} {
		write(fmt.Sprintf("proc/%d/cgroup", pid), "0::/../../kubepods.slice/kubepods-pod"+strings.ReplaceAll(uid, "-", "_")+".slice/x\n")
	}
	script := strings.NewReplacer("/proc/", dir+"/proc/", "60 * 60 / 15", "3").Replace(spec.Containers[0].Args[0])
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "NODE=dear"}
	page, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, page)
	}
	d = joined(t, opts, "objects", objects, "settled.prom", string(page))
	for i, want := range []struct {
		memory sharing.Bytes
		busy   float64
	}{{0, 0}, {0, 0}, {4000 * sharing.MiB, 0.45}, {500 * sharing.MiB, 0}} {
		if w := d.Fleet.Workloads[i]; w.Memory.Or(0) != want.memory || w.GPUBusy.Or(0) != want.busy {
			t.Errorf("%s: %v and %v, want %v and %v\n%s", w.Name, w.Memory, w.GPUBusy, want.memory, want.busy, page)
		}
	}
	// The next Job is for the other node, and then there is nothing left.
	out.Reset()
	if err := d.WriteSettleJob(&out); err != nil || !strings.Contains(out.String(), `nodeName: "cheap"`) {
		t.Errorf("%v\n%s", err, out.String())
	}
	empty := joined(t, discover.Options{}, "x", list(aNode("n", l4, "", "nvidia.com/gpu=1")))
	if err := empty.WriteSettleJob(&out); !errors.Is(err, discover.ErrSettled) {
		t.Error(err)
	}
}
