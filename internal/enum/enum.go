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

// Unmarshal sets *v to the value of a text, as Parse reads it.
func Unmarshal[T ~uint8](v *T, unknown error, kind string, names []string, text []byte) error {
	i, err := Parse(unknown, kind, names, text)
	if err == nil {
		*v = T(i)
	}
	return err
}
