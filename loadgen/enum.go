package loadgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// ErrUnknownName says that a text names no value of an enumeration.
var ErrUnknownName = errors.New("loadgen: unknown name")

func enumString(names []string, v int) string {
	if v < 0 || v >= len(names) {
		return fmt.Sprintf("invalid(%d)", v)
	}
	return names[v]
}

func enumText(kind string, names []string, v int) ([]byte, error) {
	if v < 0 || v >= len(names) {
		return nil, fmt.Errorf("%w: %s %d", ErrUnknownName, kind, v)
	}
	return []byte(names[v]), nil
}

func enumParse(kind string, names []string, text []byte) (int, error) {
	s := string(text)
	if i := slices.Index(names, s); i >= 0 {
		return i, nil
	}
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	if near := problem.Nearest(s, names); near != "" {
		return 0, fmt.Errorf("%w: %s %q; did you mean %q?", ErrUnknownName, kind, s, near)
	}
	return 0, fmt.Errorf("%w: %s %q; known: %s", ErrUnknownName, kind, s, strings.Join(names, ", "))
}
