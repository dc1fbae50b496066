// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tree is a checked-out tree and the commands built from it.
type tree struct {
	dir, bin string
	has      map[string]bool
}

// programs lists the commands by name, and where each may be.
var programs = map[string][]string{
	"cotenant": {"examples/cotenant"}, "quickstart": {"examples/quickstart"}, "cost": {"examples/cost"},
	"mps":     {"examples/mps"},
	"predict": {"examples/predict"}, // now cotenant predict
	"fleet":   {"tools/research/cmd/fleet", "examples/fleet"},
	"judge":   {"tools/research/cmd/judge", "examples/judge"},
}

func openTree(dir string) (*tree, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	bin, err := os.MkdirTemp("", "freeze-")
	if err != nil {
		return nil, err
	}
	t := &tree{dir, bin, map[string]bool{}}
	for name, places := range programs {
		for _, place := range places {
			if _, err := os.Stat(filepath.Join(dir, place)); err != nil || t.has[name] {
				continue
			}
			if err := build(filepath.Join(dir, place), filepath.Join(bin, name), "."); err != nil {
				return t, err
			}
			t.has[name] = true
		}
	}
	return t, t.buildLoad()
}

func build(dir, out string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-o", out}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building in %s: %w", dir, err)
	}
	return nil
}

// buildLoad builds the program of ./load against the tree. The working directory is this module's.
func (t *tree) buildLoad() error {
	mod, err := os.ReadFile("go.mod")
	sum, err2 := os.ReadFile("go.sum")
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("run it in tools/research, as go run -C does: %w", err)
	}
	there := bytes.Replace(mod, []byte("=> ../.."), []byte("=> "+t.dir), 1)
	file := filepath.Join(t.bin, "load.mod")
	err = errors.Join(os.WriteFile(file, there, 0o666), os.WriteFile(filepath.Join(t.bin, "load.sum"), sum, 0o666))
	if err != nil {
		return err
	}
	return build(".", filepath.Join(t.bin, "load"), "-modfile="+file, "./freeze/load")
}

// output holds a command's printed text and its exit code.
type output struct {
	Exit   int `json:"exit"`
	Stdout any `json:"stdout,omitempty"` // a value where it was JSON, otherwise the lines
	Stderr any `json:"stderr,omitempty"` // of a command that failed without output
}

// call runs a command in the tree.
func (t *tree) call(stdin []byte, name string, args ...string) (code int, stdout, stderr []byte, err error) {
	cmd := exec.Command(filepath.Join(t.bin, name), args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = t.dir, bytes.NewReader(stdin), &out, &errs
	cmd.Env = append(os.Environ(), "COLUMNS=", "TZ=UTC", "NO_COLOR=1")
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return cmd.ProcessState.ExitCode(), out.Bytes(), errs.Bytes(), err
}

// command asks what a command prints. It may name temporary files with TEMP.
func command(stdin []byte, name string, args ...string) question {
	return func(t *tree) (any, error) {
		if !t.has[name] {
			return "no such program", nil
		}
		temp, err := os.MkdirTemp(t.bin, "")
		if err != nil {
			return nil, err
		}
		given := make([]string, len(args))
		for i, a := range args {
			given[i] = strings.ReplaceAll(a, "TEMP", temp)
		}
		code, stdout, stderr, err := t.call(stdin, name, given...)
		if err != nil {
			return nil, err
		}
		out := output{Exit: code, Stdout: value(bytes.ReplaceAll(stdout, []byte(temp), []byte("TEMP")))}
		if len(stdout) == 0 {
			out.Stderr = value(bytes.ReplaceAll(stderr, []byte(temp), []byte("TEMP")))
		}
		return out, nil
	}
}

// value returns JSON as its value, with numbers as they were written, and text as its lines.
func value(data []byte) any {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err == nil && !dec.More() {
		return without(v, "seconds", "mean_seconds") // that it took
	}
	if len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// without removes keys of numbers from a value, wherever they are.
func without(v any, keys ...string) any {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range keys {
			if _, ok := v[k].(json.Number); ok {
				delete(v, k)
			}
		}
		for _, of := range v {
			without(of, keys...)
		}
	case []any:
		for _, of := range v {
			without(of, keys...)
		}
	}
	return v
}

// glob lists files of the tree by their base names.
func (t *tree) glob(patterns ...string) (map[string]string, error) {
	found := map[string]string{}
	for _, p := range patterns {
		files, err := filepath.Glob(filepath.Join(t.dir, p))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			rel, err := filepath.Rel(t.dir, f)
			if err != nil {
				return nil, err
			}
			found[filepath.Base(f)] = rel
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no files %s in %s", strings.Join(patterns, ", "), t.dir)
	}
	return found, nil
}
