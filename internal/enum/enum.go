// Package enum gives enumerations their texts.
package enum

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// String is the text of v, or "invalid(v)" for a value that has none.
func String(names []string, v int) string {
	if v < 0 || v >= len(names) {
		return fmt.Sprintf("invalid(%d)", v)
	}
	return names[v]
}

// Text is the text of v. A value that has none is an error that wraps unknown.
func Text(unknown error, kind string, names []string, v int) ([]byte, error) {
	if v < 0 || v >= len(names) {
		return nil, fmt.Errorf("%w: %s %d", unknown, kind, v)
	}
	return []byte(names[v]), nil
}

// Parse is the value of a text. A text that names none is an error that wraps
// unknown and says what is near, or what is known.
func Parse(unknown error, kind string, names []string, text []byte) (int, error) {
	if i := slices.Index(names, string(text)); i >= 0 {
		return i, nil
	}
	s := problem.Clip(string(text))
	if near := problem.Nearest(s, names); near != "" {
		return 0, fmt.Errorf("%w: %s %q; did you mean %q?", unknown, kind, s, near)
	}
	return 0, fmt.Errorf("%w: %s %q; known: %s", unknown, kind, s, strings.Join(names, ", "))
}

// Set holds the texts of an enumeration T whose values count from 0, so that a
// type's String, MarshalText and UnmarshalText are a line each.
type Set[T ~int | ~uint8] struct {
	unknown error
	kind    string
	names   []string
}

// Of returns the Set of names. Errors wrap unknown and call a value a kind.
func Of[T ~int | ~uint8](unknown error, kind string, names ...string) *Set[T] {
	return &Set[T]{unknown, kind, names}
}

// String is the text of v, or "invalid(v)" for a value that has none.
func (s *Set[T]) String(v T) string { return String(s.names, int(v)) }

// Text is for MarshalText.
func (s *Set[T]) Text(v T) ([]byte, error) { return Text(s.unknown, s.kind, s.names, int(v)) }

// Parse is for UnmarshalText: it leaves v alone when it fails.
func (s *Set[T]) Parse(v *T, text []byte) error {
	i, err := Parse(s.unknown, s.kind, s.names, text)
	if err == nil {
		*v = T(i)
	}
	return err
}

// Has says whether v has a text.
func (s *Set[T]) Has(v T) bool { return int(v) >= 0 && int(v) < len(s.names) }

// Values lists the values that have a text, in order.
func (s *Set[T]) Values() []T {
	all := make([]T, len(s.names))
	for i := range all {
		all[i] = T(i)
	}
	return all
}
