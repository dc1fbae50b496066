// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/golden"
)

const migConfig = `version: v1
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

// TestMIG holds the decisions of every word in one golden file.
func TestMIG(t *testing.T) {
	const manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: n}\ndata:\n  config.yaml: |\n" +
		"    version: v1\n    mig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.6gb: 4}}]}\n"
	var all strings.Builder
	for _, c := range []struct {
		args, stdin string
		code        int
	}{
		{"check -", migConfig, exitNo},
		{"check -gpu A100-SXM4-80GB -", migConfig, exitNo},
		{"pack -gpu A100-SXM4-80GB -demand 1g.10gb=40,3g.40gb=12", "", 0},
		{"plan -gpu A100-SXM4-80GB -have 3g.40gb@4!busy,1g.10gb@0 -want 2g.20gb=2,3g.40gb", "", 0},
		{"plan -gpu A100-SXM4-80GB -have 3g.40gb@0,1g.10gb@4!busy -want 2g.20gb=2,3g.40gb", "", exitNo},
		{"plan -gpu A100-SXM4-80GB -have 3g.40gb@0,1g.10gb@4!busy -want 2g.20gb=2,3g.40gb -allow-busy", "", 0},
		{"plan -gpu A100-SXM4-80GB -want 3g.40gb=2,1g.10gb", "", exitNo},
		{"plan -gpu A30 -have 1g.6gb@0 -want none", "", 0},
		{"apply -gpu H200 -have 7g.141gb@0 -want 3g.71gb,1g.35gb", "", 0},
		{"apply -gpu H200 -have 3g.71gb@4[],1g.18gb@0 -want 3g.71gb,1g.35gb", "", 0},
		{"apply -gpu H200 -have 7g.141gb@0 -want 3g.71gb -json", "", 0},
		{"apply -gpu H200 -have 7g.141gb@0 -want 3g.71gb=2 -dry-run", "", 0},
		{"apply -gpu H200 -have 1g.18gb@0!busy,1g.18gb@1 -want 4g.71gb -allow-busy", "", exitCannot},
		{"apply -gpu H200 -have 1g.18gb@0!busy,1g.18gb@1 -want 4g.71gb", "", exitNo},
	} {
		code, out, errs := program(t, c.stdin, strings.Fields("mig "+c.args)...)
		if code != c.code {
			t.Errorf("%s: exit %d, want %d: %s", c.args, code, c.code, errs)
		}
		fmt.Fprintf(&all, "$ cotenant mig %s\n%s%s", c.args, out, errs)
	}
	golden.Check(t, "testdata/mig.txt", []byte(all.String()))

	code, out, errs := program(t, manifest, "mig", "check", "-json", "-")
	var findings []struct {
		Source string
		Layout struct {
			Instances []struct {
				Profile string
				Start   int
			}
		}
	}
	err := json.Unmarshal([]byte(out), &findings)
	if code != 0 || err != nil || len(findings) != 1 || findings[0].Source != "n/m" || len(findings[0].Layout.Instances) != 4 ||
		findings[0].Layout.Instances[3].Profile != "1g.6gb" || findings[0].Layout.Instances[3].Start != 3 {
		t.Errorf("exit %d, %v, %+v %s", code, err, findings, errs)
	}
}

func TestMIGJSON(t *testing.T) {
	for _, args := range []string{"pack -gpu A30 -demand 1g.6gb=5 -json", "plan -gpu A30 -want 1g.6gb -json",
		"plan -gpu A30 -want 4g.24gb=2 -json"} {
		if _, out, errs := program(t, "", strings.Fields("mig "+args)...); !json.Valid([]byte(out)) {
			t.Errorf("%s: %s%s", args, out, errs)
		}
	}
}

// TestMIGBadInput must end with exit 2, one error and nothing on standard output.
func TestMIGBadInput(t *testing.T) {
	for _, c := range []struct{ args, stdin, want string }{
		{"", "", "use check, pack"},
		{"bogus", "", "use check, pack"},
		{"check", "", "name a file"},
		{"check no-such-file", "", "no-such-file"},
		{"check - -", "", "unexpected argument"},
		{"check -", "version: v1\nmig-configs: {a: [{devices: &x all, mig-enabled: true}]}", "anchors"},
		{"check -", "version: v1\nversion: v1\nmig-configs: {}", "duplicate key"},
		{"check -", strings.Repeat("# long\n", 10<<20/7), "larger than"},
		{"check -gpu A100 -", migConfig, "ambiguous"},
		{"pack -gpu A30", "", "say what is wanted"},
		{"pack -gpu A30 -demand 1g.6gb=-1", "", "not a count"},
		{"pack -gpu A30 -demand 1g.6gb=99999999999999999999", "", "not a count"},
		{"pack -gpu A30 -demand 1g.5gb=1", "", "has no profile"},
		{"pack -gpu A30,H200 -demand 1g.6gb", "", "name one GPU"},
		{"pack -gpu A30 -demand 1g.6gb -what", "", "-what"},
		{"pack -gpu rtx-pro-5000-blackwell-48gb -demand 1g.24gb", "", "placements unknown"},
		{"plan -gpu A30", "", "say what is wanted"},
		{"plan -gpu A30 -want 1g.6gb -have 1g.6gb@0,1g.6gb@0", "", "overlaps"},
		{"plan -gpu A30 -want 1g.6gb -have 1g.5gb@0", "", "has no profile"},
		{"plan -gpu A30 -want 1g.6gb -device GPU-1", "", "add -real"},
		{"plan -real -gpu A30 -want none", "", "leave them out"},
		{"plan -gpu A100-40GB -want 1c.3g.20gb=2", "", "divide it with nvidia-smi"},
		{"apply -gpu a100-40gb -have 1g.5gb@0 -want 1g.5gb=2,9g.99gb=1", "", "9g.99gb"},
	} {
		code, out, errs := program(t, c.stdin, strings.Fields("mig "+c.args)...)
		if code != exitBadInput || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, out %q, err %q; want %q", c.args, code, out, errs, c.want)
		}
	}
}

// TestMIGInterrupted stops before anything is done: nothing is left half-way.
func TestMIGInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	args := strings.Fields("mig apply -gpu A30 -want 1g.6gb")
	if code := run(ctx, args, stdio{nil, &out, &errs}); code != exitInterrupted || out.Len() > 0 {
		t.Errorf("exit %d, %s %s", code, &out, &errs)
	}
}

// TestMIGReal: without a driver, or in the static build, the refusal names the build.
func TestMIGReal(t *testing.T) {
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		t.Skip("there is a GPU")
	}
	code, out, errs := program(t, "", "mig", "plan", "-real", "-want", "none")
	if code != exitCannot || out != "" || !strings.Contains(errs, "this build is") || !strings.Contains(errs, "cotenant-gpu") {
		t.Errorf("exit %d, out %q, err %q", code, out, errs)
	}
}
