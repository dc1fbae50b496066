// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
)

// predictions asks for the prediction of every measured row, by the built-in constants.
func predictions(t *tree) (map[string]question, error) {
	files, err := t.rowsFiles()
	if err != nil {
		return nil, err
	}
	out := map[string]question{}
	for name, file := range files {
		out[name] = predicted(file)
	}
	return out, nil
}

// predicted asks for the rows of a file by name, with those that several rows share numbered.
func predicted(file string) question {
	args := []string{"-profiles", file, "-json"}
	return func(t *tree) (any, error) {
		name := "predict"
		given := append(args, "-splits=false")
		if !t.has[name] {
			name, given = "cotenant", append([]string{"predict"}, args...)
		}
		code, stdout, _, err := t.call(nil, name, given...)
		if err != nil || code != 0 {
			return output{Exit: code}, err // no rows
		}
		doc, _ := value(stdout).(map[string]any)
		rows, ok := doc["rows"].([]any)
		if !ok {
			return nil, fmt.Errorf("%s: no rows", file)
		}
		of := map[string]any{}
		for _, r := range rows {
			row, _ := r.(map[string]any)
			key := fmt.Sprint(row["mechanism"], ", ", row["case"], ", ", row["index"])
			if _, taken := of[key]; taken {
				return nil, fmt.Errorf("%s: two rows %s", file, key)
			}
			for _, said := range []string{"mechanism", "case", "index", "series", "load", "server", "actual", "kind"} {
				delete(row, said) // the input
			}
			of[key] = row
		}
		return of, nil
	}
}

// placement asks for the allocation of the built-in trace by every policy, and where OPENB_DIR names the
// openb trace's folder, for that too.
func placement(*tree) (map[string]question, error) {
	replayed := func(args ...string) question { return command(nil, "fleet", append([]string{"-json"}, args...)...) }
	out := map[string]question{"built-in": replayed(), "built-in, one seed": replayed("-policy", "cotenant")}
	for _, ratio := range []string{"0.9", "1.1"} {
		out["built-in, "+ratio+" times the GPUs"] = replayed("-ratio", ratio)
	}
	if dir, ok := openb(); ok {
		out["openb"] = replayed("-nodes", dir+"/openb_node_list_gpu_node.csv", "-tasks", dir+"/openb_pod_list_default.csv")
	}
	return out, nil
}

// load asks for what the load client makes of scripted servers.
func load(*tree) (map[string]question, error) {
	return map[string]question{"runs": func(t *tree) (any, error) {
		code, stdout, stderr, err := t.call(nil, "load")
		if err != nil || code != 0 {
			return nil, fmt.Errorf("exit %d, %w: %s%s", code, err, stdout, stderr)
		}
		var of map[string]any
		return of, json.Unmarshal(stdout, &of)
	}}, nil
}
