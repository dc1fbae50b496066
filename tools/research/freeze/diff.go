// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// change is a difference in one field, of one answer or of several alike.
type change struct {
	kind, path    string // kind: went, came or changed
	answers       []string
	places        int
	before, after string // of the first
}

// diff lists the differences between two records and returns how many answers differ.
func diff(a, b string, w io.Writer) (int, error) {
	total := 0
	for _, k := range kinds {
		before, err := read(filepath.Join(a, k.name+".json"))
		after, err2 := read(filepath.Join(b, k.name+".json"))
		if err := errors.Join(err, err2); err != nil {
			return total, err
		}
		total += diffKind(k.name, before, after, w)
	}
	return total, nil
}

func diffKind(kind string, before, after map[string]any, w io.Writer) int {
	names := slices.Sorted(maps.Keys(before))
	for name := range after {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}
	found := map[string]*change{}
	differ := map[string]bool{}
	for _, name := range names {
		old, was := before[name]
		now, is := after[name]
		note := func(kind, path string, a, b any) {
			differ[name] = true
			c := found[kind+path]
			if c == nil {
				c = &change{kind: kind, path: path, before: short(a), after: short(b)}
				found[kind+path] = c
			}
			if c.places++; !slices.Contains(c.answers, name) {
				c.answers = append(c.answers, name)
			}
		}
		switch {
		case !is:
			note("answer went", name, old, nil)
		case !was:
			note("answer came", name, nil, now)
		default:
			compare("", old, now, note)
		}
	}
	fmt.Fprintf(w, "%s: %d of %d answers differ\n", kind, len(differ), len(names))
	for _, what := range []string{"answer went", "answer came", "key went", "key came", "value changed"} {
		byPath := func(a, b *change) int { return strings.Compare(a.path, b.path) }
		for _, c := range slices.SortedFunc(maps.Values(found), byPath) {
			if c.kind != what {
				continue
			}
			fmt.Fprintf(w, "  %s: %s", c.kind, c.path)
			if !strings.HasPrefix(c.kind, "answer") {
				fmt.Fprintf(w, ": %d places in %d answers, first in %s", c.places, len(c.answers), c.answers[0])
			}
			switch c.kind {
			case "value changed":
				fmt.Fprintf(w, ": %s -> %s", c.before, c.after)
			case "key went":
				fmt.Fprintf(w, ": %s", c.before)
			case "key came":
				fmt.Fprintf(w, ": %s", c.after)
			}
			fmt.Fprintln(w)
		}
	}
	return len(differ)
}

// compare notes the differences of two values. The places of a list have one path.
func compare(path string, a, b any, note func(kind, path string, a, b any)) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			note("value changed", path, a, b)
			return
		}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if of, ok := y[k]; ok {
				compare(path+"."+k, x[k], of, note)
			} else {
				note("key went", path+"."+k, x[k], nil)
			}
		}
		for _, k := range slices.Sorted(maps.Keys(y)) {
			if _, ok := x[k]; !ok {
				note("key came", path+"."+k, nil, y[k])
			}
		}
	case []any:
		y, ok := b.([]any)
		if !ok {
			note("value changed", path, a, b)
			return
		}
		for i := range min(len(x), len(y)) {
			compare(path+"[]", x[i], y[i], note)
		}
		if len(x) != len(y) {
			note("value changed", path+" (length)", len(x), len(y))
		}
	default:
		if !reflect.DeepEqual(a, b) {
			note("value changed", path, a, b)
		}
	}
}

// short abbreviates a value.
func short(v any) string {
	data, _ := json.Marshal(v)
	if text := []rune(string(data)); len(text) > 100 {
		return string(text[:97]) + "..."
	}
	return string(data)
}

// read reads the answers of one kind, compressed or not.
func read(file string) (map[string]any, error) {
	var r io.Reader
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		if f, err = os.Open(file + ".gz"); err == nil {
			r, err = gzip.NewReader(f)
		}
	} else {
		r = f
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dec := json.NewDecoder(r)
	dec.UseNumber()
	var answers map[string]any
	if err := dec.Decode(&answers); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return answers, nil
}
