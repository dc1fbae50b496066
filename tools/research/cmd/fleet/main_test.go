// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/tools/research/replay"
)

func invoke(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// textTime matches the times, which differ from run to run.
var textTime = regexp.MustCompile(`(?m)^( *seconds).*$`)

func TestCompareTable(t *testing.T) {
	code, out, errs := invoke()
	if code != 0 || errs != "" {
		t.Fatalf("exit %d, stderr %q", code, errs)
	}
	golden.Check(t, filepath.Join("testdata", "compare.txt"), []byte(textTime.ReplaceAllString(out, "$1 0")))
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

// TestCompare holds the JSON, and that on the embedded trace ours is above the others.
func TestCompare(t *testing.T) {
	code, out, errs := invoke("-json")
	if code != 0 {
		t.Fatal(errs)
	}
	var c replay.Comparison
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
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
		"policy":    {[]string{"-policy", "cotenat"}, []string{`no policy "cotenat": use random, best-fit, fgd, cotenant`}},
		"all flags": {[]string{"-policy", "zzzzzzzz", "-ratio", "NaN", "-nodes", nodes, "extra"}, []string{`no policy "zzzzzzzz"`, "-ratio", "belong together", `"extra"`}},
		"flag":      {[]string{"-seeds", "1"}, []string{"-seeds"}},
		"no file":   {[]string{"-nodes", filepath.Join(dir, "none.csv"), "-tasks", tasks}, []string{"none.csv"}},
		"no column": {[]string{"-nodes", write("a.csv", "sn,cpu_milli,memory_mib,gpus,model\n"), "-tasks", tasks}, []string{`a.csv:1: there is no column "gpu"`}},
		"nodes": {[]string{"-nodes", write("b.csv", "sn,cpu_milli,memory_mib,gpu,model\nn,-1,x,0,\nn,1,1,1,A\n,1,1,99,A\nshort,1\n"), "-tasks", tasks},
			[]string{"b.csv:2:3: cpu_milli: -1", `b.csv:2:6: memory_mib: "x"`, "b.csv:2:8: gpu: a node of zero GPUs", "b.csv:2:10: model: empty", `b.csv:3:1: sn: "n" is the name on line 2`, "b.csv:4:1: sn: empty", "b.csv:4:6: gpu: 99", "b.csv:5: 2 fields"}},
		"tasks": {[]string{"-nodes", nodes, "-tasks", write("c.csv", head+"t,9000,10,1,500,\nu,1,1,3,1000,\nv,1,1,1,0,\nw,1,1,1,1001,\nt,1,1,-1,1,\nx,1,1,2,1000,H100\n")},
			[]string{"c.csv:2: t is larger than any node: needs 9000m CPU", "c.csv:3: u is larger than any node: needs 3 GPUs", "c.csv:4:9: gpu_milli: 0 of a GPU", "c.csv:5:9: gpu_milli: 1001", `c.csv:6:1: name: "t" is the name on line 2`, "c.csv:6:7: num_gpu: -1"}},
		"empty":       {[]string{"-nodes", write("d.csv", ""), "-tasks", tasks}, []string{"d.csv: the file is empty"}},
		"no node":     {[]string{"-nodes", write("e.csv", "sn,cpu_milli,memory_mib,gpu,model\n"), "-tasks", tasks}, []string{"there is no node"}},
		"no gpu task": {[]string{"-nodes", nodes, "-tasks", write("f.csv", head+"t,1,1,0,0,\n")}, []string{"no task that asks for a GPU"}},
		"quote":       {[]string{"-nodes", write("h.csv", "sn,cpu_milli,memory_mib,gpu,model\n\"n,1,1,1,A\n"), "-tasks", tasks}, []string{"h.csv:2"}},
		"twice":       {[]string{"-nodes", write("i.csv", "sn,sn,cpu_milli,memory_mib,gpu,model\n"), "-tasks", tasks}, []string{`"sn" stands twice`}},
		"many":        {[]string{"-nodes", write("j.csv", "sn,cpu_milli,memory_mib,gpu,model\n"+strings.Repeat("n,1,1,0,A\n", 50)), "-tasks", tasks}, []string{"j.csv:11:7: gpu: a node of zero GPUs"}},
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

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{{}, {"-policy", "cotenant"}} {
		var out, errs bytes.Buffer
		if code := run(ctx, args, &out, &errs); code != 130 || !strings.Contains(errs.String(), "interrupted") || out.Len() == 0 {
			t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
		}
	}
}
