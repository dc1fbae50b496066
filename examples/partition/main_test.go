package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/mig"
)

const config = `version: v1
mig-configs:
  all-balanced:
    - device-filter: ["0x20B210DE", "0x233510DE"]
      devices: all
      mig-enabled: true
      mig-devices: {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}
  off:
    - {devices: all, mig-enabled: false}
  twice:
    - {devices: all, mig-enabled: true, mig-devices: {"3g.20gb": 2, "1g.5gb": 1}}
    - {device-filter: "0xFFFF10DE", devices: [0], mig-enabled: true, mig-devices: {"1g.5gb": 1}}
`

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, args, stdin string
		code              int
	}{
		{"help", "-h", "", 0},
		{"plan-help", "plan -h", "", 0},
		{"check", "check -", config, 1},
		{"check-json", "check - -json", config, 1},
		{"check-gpu", "check -gpu A100-SXM4-80GB -json -", config, 1},
		{"check-manifest", "check -json -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: n}\ndata:\n  config.yaml: |\n    version: v1\n    mig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.6gb: 4}}]}\n", 0},
		{"pack", "pack -gpu A100-SXM4-80GB -demand 1g.10gb=40,3g.40gb=12", "", 0},
		{"pack-parted", "pack -gpu A100-SXM4-80GB -demand 1g.10gb=40,3g.40gb=12 -parted", "", 0},
		{"pack-json", "pack -gpu A100-SXM4-80GB -demand 1g.10gb=4,3g.40gb=3 -json", "", 0},
		{"plan", "plan -gpu A100-SXM4-80GB -have 3g.40gb@4!busy,1g.10gb@0 -want 2g.20gb=2,3g.40gb", "", 0},
		{"plan-json", "plan -gpu A100-SXM4-80GB -have 3g.40gb@4!busy,1g.10gb@0 -want 2g.20gb=2,3g.40gb -json", "", 0},
		{"plan-empty", "plan -gpu A100-SXM4-80GB -want 3g.40gb -json", "", 0},
		{"plan-busy", "plan -gpu A100-SXM4-80GB -have 3g.40gb@0,1g.10gb@4!busy -want 2g.20gb=2,3g.40gb -json", "", 1},
		{"plan-allow-busy", "plan -gpu A100-SXM4-80GB -have 3g.40gb@0,1g.10gb@4!busy -want 2g.20gb=2,3g.40gb -json -allow-busy", "", 0},
		{"plan-infeasible", "plan -gpu A100-SXM4-80GB -want 3g.40gb=2,1g.10gb -json", "", 1},
		{"plan-infeasible-text", "plan -gpu A100-SXM4-80GB -want 3g.40gb=2,1g.10gb", "", 1},
		{"apply", "apply -gpu H200 -have 7g.141gb@0 -want 1c.3g.71gb=3,1g.35gb", "", 0},
		{"apply-complete", "apply -gpu H200 -have 3g.71gb@4[],1g.18gb@0 -want 3g.71gb,1g.35gb", "", 0},
		{"apply-journal", "apply -gpu H200 -have 7g.141gb@0 -want 3g.71gb -json", "", 0},
		{"apply-dry-run", "apply -gpu H200 -have 7g.141gb@0 -want 3g.71gb=2 -dry-run", "", 0},
		{"apply-allow-busy", "apply -gpu H200 -have 1g.18gb@0!busy,1g.18gb@1 -want 4g.71gb -allow-busy", "", 1},
		{"generate", "generate -gpu A30", "", 0},
		{"generate-configmap", "generate -gpu A30,H200 -balanced -configmap mig -namespace gpu-operator", "", 0},
		{"enumerate", "enumerate -gpu a100-40gb -profiles 1g.5gb,2g.10gb,3g.20gb,4g.20gb,7g.40gb", "", 0},
		{"enumerate-json", "enumerate -gpu a100-40gb -json", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(context.Background(), strings.Fields(c.args), strings.NewReader(c.stdin), &out, &errs)
			if code != c.code {
				t.Errorf("exit %d, want %d: %s", code, c.code, &errs)
			}
			golden.Check(t, filepath.Join("testdata", c.name+".txt"), fmt.Appendf(nil, "$ partition %s\n%sexit %d\n%s", c.args, &out, code, &errs))
			if strings.HasSuffix(c.name, "json") && !json.Valid(out.Bytes()) {
				t.Error("not JSON")
			}
		})
	}
}

// TestBadInput must end with exit 2, one error and nothing on standard output.
func TestBadInput(t *testing.T) {
	for _, c := range []struct {
		args  []string
		stdin string
		want  string
	}{
		{nil, "", "partition plans"},
		{[]string{"bogus"}, "", "unknown command"},
		{[]string{"check"}, "", "name a file"},
		{[]string{"check", "no-such-file"}, "", "no-such-file"},
		{[]string{"check", "-", "-"}, "", "unexpected argument"},
		{[]string{"check", "-"}, "version: v1\nmig-configs: {a: [{devices: &x all, mig-enabled: true}]}", "anchors"},
		{[]string{"check", "-"}, "version: v1\nversion: v1\nmig-configs: {}", "duplicate key"},
		{[]string{"check", "-"}, strings.Repeat("# long\n", 10<<20/7), "larger than"},
		{[]string{"check", "-gpu", "A100", "-"}, config, "ambiguous"},
		{[]string{"pack", "-gpu", "A30"}, "", "say what is wanted"},
		{[]string{"pack", "-gpu", "A30", "-demand", "1g.6gb=-1"}, "", "not a count"},
		{[]string{"pack", "-gpu", "A30", "-demand", "1g.6gb", "-parted", "-json"}, "", "one of -json and -parted"},
		{[]string{"pack", "-gpu", "A30", "-demand", "1g.6gb=99999999999999999999"}, "", "not a count"},
		{[]string{"pack", "-gpu", "A30", "-demand", "1g.5gb=1"}, "", "has no profile"},
		{[]string{"pack", "-gpu", "A30", "-demand", "1g.6gb", "-what"}, "", "-what"},
		{[]string{"pack", "-gpu", "rtx-pro-5000-blackwell-48gb", "-demand", "1g.24gb"}, "", "placements unknown"},
		{[]string{"plan", "-gpu", "A30"}, "", "say what is wanted"},
		{[]string{"plan", "-gpu", "A30", "-want", "1g.6gb", "-have", "1g.6gb@0,1g.6gb@0"}, "", "overlaps"},
		{[]string{"plan", "-gpu", "A30", "-want", "1g.6gb", "-have", "1g.5gb@0"}, "", "has no profile"},
		{[]string{"plan", "-gpu", "A30", "-want", "1g.6gb", "-device", "GPU-1"}, "", "add -real"},
		{[]string{"plan", "-real", "-gpu", "A30"}, "", "leave them out"},
		{[]string{"apply", "-gpu", "a100-40gb", "-have", "1g.5gb@0", "-want", "1g.5gb=2,9g.99gb=1"}, "", "9g.99gb"},
		{[]string{"generate"}, "", "name the GPU"},
		{[]string{"generate", "-gpu", "rtx-pro-4500-blackwell", "-balanced"}, "", "balanced"},
		{[]string{"enumerate", "-gpu", "A30", "-profiles", "1g.6gb,x"}, "", "not a MIG profile name"},
	} {
		var out, errs bytes.Buffer
		code := run(context.Background(), c.args, strings.NewReader(c.stdin), &out, &errs)
		if code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%v: exit %d, out %q, err %q; want %q", c.args, code, &out, &errs, c.want)
		}
	}
}

func TestSVG(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.svg")
	for _, args := range []string{"pack -gpu A30 -demand 1g.6gb=5 -svg ", "plan -gpu A30 -want 1g.6gb -svg "} {
		var out, errs bytes.Buffer
		if code := run(context.Background(), strings.Fields(args+name), nil, &out, &errs); code != 0 {
			t.Fatal(errs.String())
		}
		data, err := os.ReadFile(name)
		if err != nil || !bytes.HasPrefix(data, []byte("<svg")) || !bytes.Contains(data, []byte("1g.6gb")) {
			t.Errorf("%s: %.60s, %v", args, data, err)
		}
	}
}

// TestInterrupted stops before anything is done: nothing is left half-way.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, strings.Fields("apply -gpu A30 -want 1g.6gb"), nil, &out, &errs); code != 1 || out.Len() > 0 {
		t.Errorf("exit %d, %s %s", code, &out, &errs)
	}
}

// TestPlanSwitchesModeOn: where MIG mode is off the plan says that it is switched on
// first.
func TestPlanSwitchesModeOn(t *testing.T) {
	model, err := lookup("h100-80gb-sxm")
	if err != nil {
		t.Fatal(err)
	}
	want, err := mig.ParseCounts("3g.40gb")
	if err != nil {
		t.Fatal(err)
	}
	for _, off := range []bool{true, false} {
		var out strings.Builder
		r := &resolved{model: model, have: mig.Layout{Model: model}, want: want, off: off}
		p, reason, err := (&target{}).diff(r)
		if err != nil {
			t.Fatal(err)
		}
		(&console{out: &out}).plan(r, p, reason)
		if got := strings.Contains(out.String(), "MIG mode is switched on"); got != off {
			t.Errorf("off %v: %s", off, out.String())
		}
	}
}
