// Package enum gives enumerations their texts. The names of an enumeration are
// listed by value; an empty name is a value that has no text.
package enum

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

func has(names []string, v int) bool { return v >= 0 && v < len(names) && names[v] != "" }

// String is the text of v, or "invalid(v)" for a value that has none.
func String(names []string, v int) string {
	if !has(names, v) {
		return fmt.Sprintf("invalid(%d)", v)
	}
	return names[v]
}

// Text is the text of v. A value that has none is an error that wraps unknown.
func Text(unknown error, kind string, names []string, v int) ([]byte, error) {
	if !has(names, v) {
		return nil, fmt.Errorf("%w: %s %d", unknown, kind, v)
	}
	return []byte(names[v]), nil
}

// Parse is the value of a text. A text that names none is an error that wraps
// unknown and says what is near, or what is known.
func Parse(unknown error, kind string, names []string, text []byte) (int, error) {
	if i := slices.Index(names, string(text)); has(names, i) {
		return i, nil
	}
	names = slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" })
	s := problem.Clip(string(text))
	if near := problem.Nearest(s, names); near != "" {
		return 0, fmt.Errorf("%w: %s %q; did you mean %q?", unknown, kind, s, near)
	}
	return 0, fmt.Errorf("%w: %s %q; known: %s", unknown, kind, s, strings.Join(names, ", "))
}

// Set parses a text as Parse does and stores its value in v, which stays as it
// is on an error.
func Set[T ~int | ~uint8](v *T, unknown error, kind string, names []string, text []byte) error {
	i, err := Parse(unknown, kind, names, text)
	if err == nil {
		*v = T(i)
	}
	return err
}

// Names are the texts of an enumeration T, so that a type's String, MarshalText
// and UnmarshalText are a line each.
type Names[T ~int | ~uint8] struct {
	unknown error
	kind    string
	names   []string
}

// Of returns the Names that are listed by value. Errors wrap unknown and call a
// value a kind.
func Of[T ~int | ~uint8](unknown error, kind string, names ...string) *Names[T] {
	return &Names[T]{unknown, kind, names}
}

// String is the text of v, or "invalid(v)" for a value that has none.
func (n *Names[T]) String(v T) string { return String(n.names, int(v)) }

// Text is for MarshalText.
func (n *Names[T]) Text(v T) ([]byte, error) { return Text(n.unknown, n.kind, n.names, int(v)) }

// Parse is for UnmarshalText: it leaves v alone when it fails.
func (n *Names[T]) Parse(v *T, text []byte) error { return Set(v, n.unknown, n.kind, n.names, text) }

// Has says whether v has a text.
func (n *Names[T]) Has(v T) bool { return has(n.names, int(v)) }

// Values lists the values that have a text, in order.
func (n *Names[T]) Values() []T {
	var all []T
	for v, name := range n.names {
		if name != "" {
			all = append(all, T(v))
		}
	}
	return all
}
