// SPDX-License-Identifier: Apache-2.0

// Package enum gives enumerations their texts. The names of an enumeration are listed by value; an empty name means a
// value without a text.
package enum

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// Parse returns the value of a text. A text that names none is an error that
// wraps unknown and lists what is near, or what is known.
func Parse(unknown error, kind string, names []string, text []byte) (int, error) {
	if i := slices.Index(names, string(text)); i >= 0 && names[i] != "" {
		return i, nil
	}
	names = slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" })
	s := problem.Clip(string(text))
	if near := problem.Nearest(s, names); near != "" {
		return 0, fmt.Errorf("%w: %s %q; did you mean %q?", unknown, kind, s, near)
	}
	return 0, fmt.Errorf("%w: %s %q; known: %s", unknown, kind, s, strings.Join(names, ", "))
}

// ParseText serves the UnmarshalText of an enumeration of texts; it leaves v alone when it fails.
func ParseText[T ~string](v *T, unknown error, kind string, known []T, text []byte) error {
	names := make([]string, len(known))
	for i, name := range known {
		names[i] = string(name)
	}
	_, err := Parse(unknown, kind, names, text)
	if err == nil {
		*v = T(text)
	}
	return err
}

// Names holds the texts of an enumeration T. From the variable that holds one,
// tools/enumgen writes T's String, MarshalText and UnmarshalText.
type Names[T ~int | ~uint8] struct {
	unknown error
	kind    string
	names   []string
}

// Of returns the Names that are listed by value. Errors wrap unknown and call a value a kind.
func Of[T ~int | ~uint8](unknown error, kind string, names ...string) *Names[T] {
	return &Names[T]{unknown, kind, names}
}

// Has reports whether v has a text.
func (n *Names[T]) Has(v T) bool {
	i := int(v)
	return i >= 0 && i < len(n.names) && n.names[i] != ""
}

// String returns the text of v, or "invalid(v)" for a value that has none.
func (n *Names[T]) String(v T) string {
	if !n.Has(v) {
		return fmt.Sprintf("invalid(%d)", v)
	}
	return n.names[v]
}

// Text serves MarshalText. A value without a text is an error that wraps unknown.
func (n *Names[T]) Text(v T) ([]byte, error) {
	if !n.Has(v) {
		return nil, fmt.Errorf("%w: %s %d", n.unknown, n.kind, v)
	}
	return []byte(n.names[v]), nil
}

// Parse serves UnmarshalText: it leaves v alone when it fails.
func (n *Names[T]) Parse(v *T, text []byte) error {
	i, err := Parse(n.unknown, n.kind, n.names, text)
	if err == nil {
		*v = T(i)
	}
	return err
}

// Values lists the values that have a text, in order.
func (n *Names[T]) Values() []T {
	var all []T
	for v := range n.names {
		if n.Has(T(v)) {
			all = append(all, T(v))
		}
	}
	return all
}
