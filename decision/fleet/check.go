// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// namePattern is wider than that of Kubernetes labels; manifests fold names. A workload may have a namespace before
// its name, which may then be as long as Kubernetes allows.
var (
	namePattern   = regexp.MustCompile(`^[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$`)
	spacedPattern = regexp.MustCompile(strings.TrimSuffix(namePattern.String(), "$") +
		`/[A-Za-z0-9]([-_.A-Za-z0-9]{0,251}[A-Za-z0-9])?$`)
)

// checker collects the problems of a fleet.
type checker struct {
	problem.List
	partial bool
}

// known lists the values of an enumeration.
func known[T any](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return "known: " + strings.Join(texts, ", ")
}

// oneOf checks a text of an enumeration; empty is not stated.
func oneOf[T ~string](c *checker, path string, v T, values []T) {
	c.If(v != "" && !slices.Contains(values, v), path, known(values), "%q is not known", problem.Clip(string(v)))
}

func (c *checker) count(path string, n, limit int) {
	switch {
	case n == 0:
		c.Addf(path, "name at least one", "is empty")
	case n > limit:
		c.Addf(path, "split the fleet", "has %d entries; at most %d are taken", n, limit)
	}
}

func (c *checker) name(path, s string) {
	if s == "" && c.partial {
		return
	}
	c.If(!namePattern.MatchString(s), path,
		"use letters, digits, '-', '_' and '.', at most 63, beginning and ending with a letter or digit", "%q is not a name",
		problem.Clip(s))
}

func (c *checker) noPool(path, name string, pools []Pool) {
	var names []string
	for _, p := range pools {
		names = append(names, p.Name)
	}
	remedy := problem.Meant(name, names, "add the pool or remove the pin")
	c.Addf(path, remedy, "there is no pool %q", problem.Clip(name))
}

func (c *checker) within(path string, v, low, high int) {
	if v < low || v > high {
		c.Addf(path, fmt.Sprintf("use %d to %d", low, high), "%d is out of range", v)
	}
}

// optional checks a number that is left out where it is not known.
func (c *checker) optional(path string, v sharing.Optional[int], high int) {
	if n, stated := v.Get(); stated {
		c.within(path, n, 1, high)
	}
}

func (c *checker) share(path string, v sharing.Optional[float64]) {
	if f, stated := v.Get(); stated && !(f >= 0 && f <= 1) {
		c.Addf(path, "use a share between 0 and 1, for example 0.25", "%v is out of range", f)
	}
}
