// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

const measuredFleet, profiles = "examples/quickstart/testdata/measured.yaml", "h200-colocation.json"

// fleetFiles are the example fleets, which the scenes of cotenant measure are made of too.
func (t *tree) fleetFiles() (map[string]string, error) {
	return t.glob("examples/quickstart/*.yaml", "examples/quickstart/testdata/*.yaml")
}

// rowsFiles are the files of measured rows.
func (t *tree) rowsFiles() (map[string]string, error) {
	return t.glob("examples/predict/testdata/h*.json", "decision/predict/testdata/h*.json")
}

// decisions asks for the decision of every fleet in the tree.
func decisions(t *tree) (map[string]question, error) {
	out := map[string]question{}
	corpus, err := t.glob("decision/testdata/corpus/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range corpus {
		data, err := os.ReadFile(filepath.Join(t.dir, file))
		if err != nil {
			return nil, err
		}
		var cases []struct {
			Name  string    `yaml:"name"`
			Fleet yaml.Node `yaml:"fleet"`
		}
		if err := yaml.Unmarshal(data, &cases); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, c := range cases {
			fleet, err := yaml.Marshal(&c.Fleet)
			if err != nil {
				return nil, err
			}
			out["corpus/"+c.Name] = command(fleet, "cotenant", "decide", "-json", "-")
		}
	}
	fleets, err := t.fleetFiles()
	if err != nil {
		return nil, err
	}
	for name, file := range fleets {
		out["fleets/"+name] = command(nil, "cotenant", "decide", "-json", file)
		out["fleets at 99%/"+name] = command(nil, "cotenant", "decide", "-json", "-confidence", "0.99", file)
	}
	rows, err := t.rowsFiles()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{profiles, "h100-colocation.json", "h200-mixes.json"} {
		out["measured.yaml with "+name] = command(nil, "cotenant", "decide", "-json", "-profiles", rows[name], measuredFleet)
	}
	clusters, err := t.glob("decision/discover/testdata/clusters/*.json", "decision/discover/testdata/others/*.json",
		"examples/cotenant/discover/cluster.json")
	if err != nil {
		return nil, err
	}
	for name, file := range clusters {
		out["discovered/"+name] = discovered(file)
	}
	out["discovered/built-in"] = discovered()
	return out, nil
}

// discovered decides the fleet that is discovered of files.
func discovered(files ...string) question {
	return func(t *tree) (any, error) {
		fleet := filepath.Join(t.bin, fmt.Sprintf("fleet-%s.yaml", filepath.Base(filepath.Join(files...))))
		_, _, stderr, err := t.call(nil, "cotenant", append([]string{"discover", "-out", fleet}, files...)...)
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(fleet)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, stderr)
		}
		of, err := command(data, "cotenant", "decide", "-json", "-")(t)
		return map[string]any{"fleet": value(data), "decision": of}, err
	}
}

// files asks for the configuration written for every example fleet.
func files(t *tree) (map[string]question, error) {
	fleets, err := t.fleetFiles()
	if err != nil {
		return nil, err
	}
	out := map[string]question{}
	for name, file := range fleets {
		out[name] = func(t *tree) (any, error) {
			dir := filepath.Join(t.bin, "plan-"+name)
			code, _, stderr, err := t.call(nil, "cotenant", "decide", "-out", dir, file)
			if err != nil || code != 0 {
				return nil, fmt.Errorf("exit %d, %w: %s", code, err, stderr)
			}
			written := map[string]any{}
			err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				data, err := os.ReadFile(path)
				rel, _ := filepath.Rel(dir, path)
				written[filepath.ToSlash(rel)] = value(data)
				return err
			})
			return written, err
		}
	}
	return out, nil
}
