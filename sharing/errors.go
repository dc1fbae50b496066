package sharing

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// ErrUnknownName is what an error wraps when a text or a number names no value
// of an enumeration.
var ErrUnknownName = errors.New("sharing: unknown name")

// UnknownNameError says that a text names no value of an enumeration or table.
type UnknownNameError struct {
	Kind  string   // what was looked for, e.g. "mechanism"
	Name  string   // the text that was given
	Known []string // the texts that are known
}

// Error names the nearest known text, or all of them when none is near.
func (e *UnknownNameError) Error() string {
	name := e.Name
	if r := []rune(name); len(r) > 60 {
		name = string(r[:60]) + "…"
	}
	if near := problem.Nearest(e.Name, e.Known); near != "" {
		return fmt.Sprintf("sharing: unknown %s %q; did you mean %q?", e.Kind, name, near)
	}
	return fmt.Sprintf("sharing: unknown %s %q; known: %s", e.Kind, name, strings.Join(e.Known, ", "))
}
