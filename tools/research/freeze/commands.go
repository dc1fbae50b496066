// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// openb returns the folder of the openb trace, which OPENB_DIR names.
func openb() (string, bool) {
	dir := os.Getenv("OPENB_DIR")
	return dir, dir != ""
}

// migPacks asks for the packing of a grid of demands on every kind of GPU with MIG.
func migPacks(t *tree) (map[string]question, error) {
	data, err := os.ReadFile(filepath.Join(t.dir, "mig/catalogue.json"))
	if err != nil {
		return nil, err
	}
	var catalogue struct {
		GPUs []struct {
			Key      string `json:"key"`
			Profiles []struct {
				Name string `json:"name"`
			} `json:"profiles"`
		} `json:"gpus"`
	}
	if err := json.Unmarshal(data, &catalogue); err != nil {
		return nil, err
	}
	out := map[string]question{}
	for _, g := range catalogue.GPUs {
		pack := func(demand string) {
			out[g.Key+": "+demand] = command(nil, "cotenant", "mig", "pack", "-gpu", g.Key, "-json", "-demand", demand)
		}
		var all []string
		for i, p := range g.Profiles {
			pack(p.Name + "=5")
			all = append(all, p.Name+"=2")
			for _, q := range g.Profiles[i+1:] {
				if plain(p.Name) && plain(q.Name) {
					pack(p.Name + "=3," + q.Name + "=2")
				}
			}
		}
		pack(strings.Join(all, ","))
	}
	return out, nil
}

// plain reports whether a profile has no attribute, such as +me.
func plain(profile string) bool { return !strings.ContainsAny(profile, "+-") }

// commands asks for one or more answers of every command that gives the same one each time.
func commands(t *tree) (map[string]question, error) {
	rows, err := t.rowsFiles()
	if err != nil {
		return nil, err
	}
	out := map[string]question{}
	for _, line := range commandLines {
		line = strings.ReplaceAll(line, "ROWS", rows[profiles])
		words := strings.Fields(line)
		out[strings.ReplaceAll(line, filepath.Dir(rows[profiles])+"/", "")] = command(nil, words[0], words[1:]...)
	}
	out["cotenant diff -fleet OF-THE-CLUSTER"] = afterDiscover("diff", "-fleet")
	out["cotenant decide OF-THE-CLUSTER"] = afterDiscover("decide")
	return out, nil
}

// afterDiscover asks a command about the fleet of the built-in cluster.
func afterDiscover(args ...string) question {
	return func(t *tree) (any, error) {
		fleet := filepath.Join(t.bin, "after-"+args[0]+".yaml")
		code, _, stderr, err := t.call(nil, "cotenant", "discover", "-out", fleet)
		if err != nil || code != 0 {
			return nil, fmt.Errorf("exit %d, %w: %s", code, err, stderr)
		}
		return command(nil, "cotenant", append(args, fleet)...)(t)
	}
}

const runsFolder = "loadgen/report/testdata/runs/example/"

var commandLines = []string{
	"cotenant help", "cotenant nothing", "cotenant decide", "cotenant decide -schema",
	"cotenant decide examples/quickstart/fleet.yaml",
	"cotenant decide examples/quickstart/testdata/four-teams.yaml",
	"cotenant decide examples/quickstart/testdata/migration.yaml",
	"cotenant decide -explain chat examples/quickstart/fleet.yaml",
	"cotenant decide -explain chat -profiles ROWS examples/quickstart/testdata/measured.yaml",
	"cotenant decide -strict examples/quickstart/testdata/llm-70b-on-l4.yaml",
	"cotenant discover", "cotenant discover -json", "cotenant plan",
	"cotenant discover decision/discover/testdata/clusters/hami.json",
	"cotenant plan -out TEMP/plan decision/discover/testdata/clusters/time-slicing.json",
	"cotenant bench table " + runsFolder, "cotenant bench table -json " + runsFolder,
	"cotenant bench compare -json -allow-invalid " + runsFolder + "baseline-c8 " + runsFolder + "baseline-c16 " +
		runsFolder + "baseline-c24 -- " + runsFolder + "mps-c8 " + runsFolder + "mps-c16 " + runsFolder + "mps-c24",
	"cotenant bench job -name load -image cotenant:1 -workers 3 -- -endpoint http://chat:8000 -model m -rate 5 " +
		"-duration 30s",
	"cotenant bench import -json loadgen/report/testdata/results/vllm.json",
	"cotenant capacity", "cotenant guard -seed 1", "cotenant guard -print-config",
	"cotenant canary -plan examples/cotenant/canary.yaml", "cotenant canary -print-plan",
	"cotenant mig pack -gpu A100-80GB -demand 1g.10gb=40,3g.40gb=12",
	"cotenant mig plan -gpu A100-80GB -have 3g.40gb@4!busy,2g.20gb@0 -want 3g.40gb=2",
	"cotenant mig plan -json -gpu A100-80GB -have 3g.40gb@4!busy,2g.20gb@0 -want 3g.40gb=2",
	"cotenant mig plan -json -gpu H100-SXM5-80GB -have 1g.10gb@0,1g.10gb@1!busy,2g.20gb@2 -want 4g.40gb,1g.10gb=1",
	"cotenant mig apply -gpu A100-80GB -have 3g.40gb@4!busy,2g.20gb@0 -want 3g.40gb=2",
	"cotenant probe", "cotenant probe -json",
	"cotenant measure -print-plan", "cotenant measure -print-plan -plan mixed", "cotenant rows -schema",
	"cotenant monitor", "cotenant monitor -json -duration 2h", "cotenant monitor -price 3.50 -duration 6h -every 3h",
	"quickstart", "cost", "mps", "timeslice", "judge",
}
