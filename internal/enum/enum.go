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
