// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// cutLast cuts around the last sep; without one, before is empty.
func cutLast(s string, sep byte) (before, after string) {
	i := strings.LastIndexByte(s, sep)
	return s[:max(i, 0)], s[i+1:]
}

func inFile(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// stem is a file's base name up to the first dot.
func stem(file string) string {
	base := path.Base(strings.ReplaceAll(file, `\`, "/"))
	base, _, _ = strings.Cut(base, ".")
	return base
}

// unique takes the first of the names that is not taken, or the first name with a number.
func unique(taken map[string]bool, names ...string) string {
	i := slices.IndexFunc(names, func(name string) bool { return !taken[name] })
	name := names[max(i, 0)]
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", names[0], n)
	}
	taken[name] = true
	return name
}

var badName = regexp.MustCompile(`[^-_.A-Za-z0-9]+`)

// workloadName is a name that a fleet file accepts.
func workloadName(namespace, name string) string {
	clean := func(s string, most int) string {
		s = strings.Trim(badName.ReplaceAllString(s, "-"), "-_.")
		if len(s) > most {
			s = strings.Trim(s[:most], "-_.")
		}
		return cmp.Or(s, "unnamed")
	}
	if namespace == "" {
		return clean(name, 63)
	}
	return clean(namespace, 63) + "/" + clean(name, 240)
}

// named is an object's name with its namespace; empty without one.
func named(namespace, name string) string {
	if name == "" {
		return ""
	}
	return namespace + "/" + name
}

func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// span writes a time as hours or minutes.
func span(d time.Duration) string {
	switch {
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

func round3(f float64) float64 { return float64(int(f*1000+0.5)) / 1000 }

// only returns the entries of some keys.
func only[M ~map[string]V, V any](all M, keys map[string]bool) M {
	out := maps.Clone(all)
	if maps.DeleteFunc(out, func(key string, _ V) bool { return !keys[key] }); len(out) == 0 {
		return nil
	}
	return out
}

const mostNames = 8 // bound of the names of a list that is written out

func begins(key string, with []string) bool {
	return slices.ContainsFunc(with, func(k string) bool { return strings.HasPrefix(key, k) })
}
