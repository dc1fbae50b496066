package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/sharing"
)

func invoke(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// Times differ from run to run: they are left out of what is compared.
var (
	jsonTime = regexp.MustCompile(`("(?:mean_)?seconds": ?)[0-9.e-]+`)
	textTime = regexp.MustCompile(`(?m)^( *seconds).*$`)
)

func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"help.txt":      {"-h"},
		"compare.txt":   {},
		"cotenant.json": {"-seed", "42", "-ratio", "1.3", "-policy", "cotenant", "-json"},
		"fgd.txt":       {"-policy", "fgd", "-ratio", "1"},
		"random.txt":    {"-policy", "random", "-seed", "7"},
		"best-fit.txt":  {"-policy", "best-fit"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := invoke(args...)
			if code != 0 || errs != "" {
				t.Fatalf("exit %d, stderr %q", code, errs)
			}
			out = textTime.ReplaceAllString(jsonTime.ReplaceAllString(out, "${1}0"), "$1 0")
			golden.Check(t, filepath.Join("testdata", "golden", name), []byte(out))
			if strings.HasSuffix(name, ".json") && !json.Valid([]byte(out)) {
				t.Error("not JSON")
			}
		})
	}
}

// TestJSON holds the keys of the command's contract.
func TestJSON(t *testing.T) {
	_, out, _ := invoke("-policy", "cotenant", "-json")
	var got map[string]float64
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for k := range got {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if diff := cmp.Diff([]string{"allocated_percent", "arrived_percent", "failed", "placed", "seconds"}, keys); diff != "" {
		t.Error(diff)
	}
}

// TestCompare holds the JSON and the drawing, and that on the embedded trace ours
// is above the others.
func TestCompare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.svg")
	code, out, errs := invoke("-json", "-svg", file)
	if code != 0 {
		t.Fatal(errs)
	}
	drawing, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, filepath.Join("testdata", "golden", "compare.svg"), drawing)
	golden.Check(t, filepath.Join("testdata", "golden", "compare.json"), []byte(jsonTime.ReplaceAllString(out, "${1}0")))
	var c comparison
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"both axes begin at 60 %", fmt.Sprintf("%.0f tasks of %.2f GPUs", c.Policies[0].Placed, c.Policies[0].PlacedGPUs)} {
		if !strings.Contains(string(drawing), want) {
			t.Errorf("the drawing does not say %q", want)
		}
	}
	if r, of := c.Policies[0], c.Policies[1]; r.Placed < of.Placed || r.PlacedGPUs > of.PlacedGPUs || r.FailedGPUs < of.FailedGPUs {
		t.Errorf("random places %v of %v GPUs, %s %v of %v", r.Placed, r.PlacedGPUs, of.Name, of.Placed, of.PlacedGPUs)
	}
	ours := c.Policies[len(c.Policies)-1]
	for _, p := range c.Policies[:len(c.Policies)-1] {
		if p.Mean >= ours.Mean {
			t.Errorf("%s %.2f%%, %s %.2f%%", p.Name, p.Mean, ours.Name, ours.Mean)
		}
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	nodes := write("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn,8000,1024,2,A\n")
	const head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
	tasks := write("tasks.csv", head+"t,1000,10,1,500,\n")
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"policy":    {[]string{"-policy", "cotenat"}, []string{`did you mean "cotenant"?`}},
		"all flags": {[]string{"-policy", "zzzzzzzz", "-ratio", "NaN", "-nodes", nodes, "extra"}, []string{`no policy "zzzzzzzz"`, "-ratio", "belong together", `"extra"`}},
		"flag":      {[]string{"-seeds", "1"}, []string{"-seeds"}},
		"svg":       {[]string{"-policy", "fgd", "-svg", "x"}, []string{"-svg"}},
		"no file":   {[]string{"-nodes", filepath.Join(dir, "none.csv"), "-tasks", tasks}, []string{"none.csv"}},
		"no column": {[]string{"-nodes", write("a.csv", "sn,cpu_milli,memory_mib,gpus,model\n"), "-tasks", tasks}, []string{`a.csv:1: there is no column "gpu"`, `rename column "gpus"?`}},
		"nodes": {[]string{"-nodes", write("b.csv", "sn,cpu_milli,memory_mib,gpu,model\nn,-1,x,0,\nn,1,1,1,A\n,1,1,99,A\nshort,1\n"), "-tasks", tasks},
			[]string{"b.csv:2:3: cpu_milli: -1", `b.csv:2:6: memory_mib: "x"`, "b.csv:2:8: gpu: a node of zero GPUs", "b.csv:2:10: model: empty", `b.csv:3:1: sn: "n" is the name on line 2`, "b.csv:4:1: sn: empty", "b.csv:4:6: gpu: 99", "b.csv:5: 2 fields"}},
		"tasks": {[]string{"-nodes", nodes, "-tasks", write("c.csv", head+"t,9000,10,1,500,\nu,1,1,3,1000,\nv,1,1,1,0,\nw,1,1,1,1001,\nt,1,1,-1,1,\nx,1,1,2,1000,H100\n")},
			[]string{"c.csv:2: t is larger than any node: needs 9000m CPU", "c.csv:3: u is larger than any node: needs 3 GPUs", "c.csv:4:9: gpu_milli: 0 of a GPU", "c.csv:5:9: gpu_milli: 1001", `c.csv:6:1: name: "t" is the name on line 2`, "c.csv:6:7: num_gpu: -1"}},
		"empty":       {[]string{"-nodes", write("d.csv", ""), "-tasks", tasks}, []string{"d.csv: the file is empty"}},
		"no node":     {[]string{"-nodes", write("e.csv", "sn,cpu_milli,memory_mib,gpu,model\n"), "-tasks", tasks}, []string{"there is no node"}},
		"no gpu task": {[]string{"-nodes", nodes, "-tasks", write("f.csv", head+"t,1,1,0,0,\n")}, []string{"no task that asks for a GPU"}},
		"not text":    {[]string{"-nodes", write("g.csv", "sn,\xff"), "-tasks", tasks}, []string{"not text"}},
		"quote":       {[]string{"-nodes", write("h.csv", "sn,cpu_milli,memory_mib,gpu,model\n\"n,1,1,1,A\n"), "-tasks", tasks}, []string{"h.csv:2"}},
		"twice":       {[]string{"-nodes", write("i.csv", "sn,sn,cpu_milli,memory_mib,gpu,model\n"), "-tasks", tasks}, []string{`"sn" stands twice`}},
		"many":        {[]string{"-nodes", write("j.csv", "sn,cpu_milli,memory_mib,gpu,model\n"+strings.Repeat("n,1,1,0,A\n", 50)), "-tasks", tasks}, []string{"more problems in"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := invoke(c.args...)
			if code != 2 || out != "" {
				t.Fatalf("exit %d, stdout %q, stderr %q", code, out, errs)
			}
			for _, w := range c.want {
				if !strings.Contains(errs, w) {
					t.Errorf("no %q in\n%s", w, errs)
				}
			}
		})
	}
}

// TestModelThatNobodyHas: such a task fails, which is no mistake of the trace.
func TestModelThatNobodyHas(t *testing.T) {
	empty, err := placement.NewSnapshot([]placement.Node{{Name: "n", CPUMilli: 8_000, Memory: sharing.GiB, Model: "A", GPUs: []placement.GPU{{Mechanism: sharing.MechanismTimeSlicing}}}})
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := readTasks("t", strings.NewReader("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1,1,1,500,B|C\nb,1,1,1,500,A|B\n"), empty)
	if err != nil || len(tasks) != 2 {
		t.Fatal(err)
	}
	res, err := replay(context.Background(), empty, 1000, arrivals(tasks, 42, 1, 1000), placement.BestFit{})
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
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{{}, {"-policy", "cotenant"}} {
		var out, errs bytes.Buffer
		if code := run(ctx, args, &out, &errs); code != 1 || !strings.Contains(errs.String(), "interrupted") || out.Len() == 0 {
			t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
		}
	}
}

func FuzzReadTasks(f *testing.F) {
	empty, err := placement.NewSnapshot([]placement.Node{{Name: "n", CPUMilli: 8_000, Memory: sharing.GiB, Model: "A", GPUs: []placement.GPU{{Mechanism: sharing.MechanismTimeSlicing}}}})
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
	c, err := load("", "")
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
