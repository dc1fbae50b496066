// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/sharing"
)

// TestModelThatNobodyHas: such a task fails, which is no mistake of the trace.
func TestModelThatNobodyHas(t *testing.T) {
	empty, problems := layout.Observe([]layout.Node{{Name: "n", CPUMilli: 8_000, Memory: sharing.GiB, Devices: []layout.Device{{GPU: &layout.GPU{Name: "A"}, Mode: sharing.MechanismTimeSlicing}}}})
	err := layout.Err(problems)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := readTasks("t", strings.NewReader("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1,1,1,500,B|C\nb,1,1,1,500,A|B\n"), empty)
	if err != nil || len(tasks) != 2 {
		t.Fatal(err)
	}
	res, err := replay(context.Background(), empty, 1000, arrivals(tasks, 42, 1, 1000), placement.BestFit)
	if err != nil || res.Placed != 1 || res.Failed != 1 || res.Allocated != 50 || res.Arrived != 100 {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestArrivals holds the protocol: every task once, then copies, up to the ratio;
// the same for a seed, and the start of seed 42 on three tasks.
func TestArrivals(t *testing.T) {
	var tasks []task
	for _, n := range []string{"c", "a", "b"} {
		tasks = append(tasks, task{n, placement.Request{GPUs: 1, Milli: 400}})
	}
	var names []string
	for _, r := range arrivals(tasks, 42, 1.3, 2000) {
		names = append(names, r.Name)
	}
	// 2,600 thousandths: six tasks of 400.
	if len(names) != 6 || slices.Equal(names[:3], []string{"c", "a", "b"}) {
		t.Errorf("%v", names)
	}
	slices.Reverse(tasks)
	var again []string
	for _, r := range arrivals(tasks, 42, 1.3, 2000) {
		again = append(again, r.Name)
	}
	if diff := cmp.Diff(names, again); diff != "" {
		t.Errorf("the order of the file matters: %s", diff)
	}
	if few := arrivals(tasks, 42, 0.5, 2000); len(few) != 2 {
		t.Errorf("%d tasks of 400 arrive where 1,000 thousandths may", len(few))
	}
}

func FuzzReadTasks(f *testing.F) {
	empty, problems := layout.Observe([]layout.Node{{Name: "n", CPUMilli: 8_000, Memory: sharing.GiB, Devices: []layout.Device{{GPU: &layout.GPU{Name: "A"}, Mode: sharing.MechanismTimeSlicing}}}})
	err := layout.Err(problems)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1,1,1,500,B|C\n")
	f.Add("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n\"a\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, in string) {
		tasks, err := readTasks("t", strings.NewReader(in), empty)
		if (err == nil) == (len(tasks) == 0) {
			t.Fatalf("%d tasks, %v", len(tasks), err)
		}
		for i := range tasks {
			if err := tasks[i].request.Validate(); err != nil {
				t.Fatalf("%v", err)
			}
		}
	})
}

func BenchmarkReplay(b *testing.B) {
	c, err := Load("", "")
	if err != nil {
		b.Fatal(err)
	}
	requests := arrivals(c.tasks, 42, 1.3, c.capacity)
	for _, name := range policyNames {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p, err := policyOf(name, c.mix, 42)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := replay(context.Background(), c.empty, c.capacity, requests, p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(requests)), "ns/placement")
		})
	}
}

// TestBound holds the fluid limit against clusters whose limit is known.
func TestBound(t *testing.T) {
	const nodes = "sn,cpu_milli,memory_mib,gpu,model\na,10000,1024,1,A\nb,10000,1024,1,A\n"
	for name, c := range map[string]struct {
		tasks string
		want  float64
	}{
		"shares that fit together": {"x,0,0,1,600,\ny,0,0,1,400,\n", 100},
		"shares that do not":       {"x,0,0,1,600,\n", 60},
		"CPU":                      {"x,6000,0,1,500,\n", 100 * 20. / 6 * 500 / 2000},
		"memory":                   {"x,0,1024,1,500,\n", 50},
		"a model that nobody has":  {"x,0,0,1,600,\ny,0,0,1,1000,B\n", 60},
		"one stops, one goes on":   {"x,10000,0,1,500,\ny,0,0,1,250,\n", 100},
		"what arrives":             {"x,0,0,1,1,\n", 100},
	} {
		c := c
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"nodes": nodes, "tasks": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + c.tasks}
			for f, text := range files {
				if err := os.WriteFile(filepath.Join(dir, f), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cluster, err := Load(filepath.Join(dir, "nodes"), filepath.Join(dir, "tasks"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := cluster.Bound(context.Background(), 3)
			if err != nil || math.Abs(got-c.want) > 1e-6 {
				t.Errorf("%v, %v, want %v", got, err, c.want)
			}
		})
	}
	c, err := Load("", "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if got, err := c.Bound(ctx, 1.3); err != nil || got < 70 || got > 100 {
		t.Errorf("synthetic trace: %v, %v", got, err)
	}
	cancel()
	if _, err := c.Bound(ctx, 1.3); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
