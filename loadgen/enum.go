package loadgen

import (
	"errors"

	"github.com/cotenant/cotenant/internal/enum"
)

// ErrUnknownName says that a text names no value of an enumeration.
var ErrUnknownName = errors.New("loadgen: unknown name")

func enumString(names []string, v int) string { return enum.String(names, v) }

func enumText(kind string, names []string, v int) ([]byte, error) {
	return enum.Text(ErrUnknownName, kind, names, v)
}

func enumParse(kind string, names []string, text []byte) (int, error) {
	return enum.Parse(ErrUnknownName, kind, names, text)
}
