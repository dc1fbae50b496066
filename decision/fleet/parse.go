package fleet

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/cotenant/cotenant/internal/strictyaml"
)

// MaxInputBytes bounds a fleet file.
const maxInputBytes = 16 << 20

// LoadFleet reads a fleet from a file; see [ParseFleet]. The error names the file.
func LoadFleet(path string) (*Fleet, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fleet, err := ReadFleet(f)
	var failed *fs.PathError // names the file already
	if err != nil && !errors.As(err, &failed) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return fleet, err
}

// ReadFleet reads a fleet from r; see [ParseFleet].
func ReadFleet(r io.Reader) (*Fleet, error) {
	data, err := strictyaml.Read(r, strictyaml.Options{MaxBytes: maxInputBytes})
	if err != nil {
		return nil, err
	}
	return ParseFleet(data)
}

// ParseFleet reads a fleet from YAML or JSON. The error names every problem with its path and, where there is one,
// a remedy: unknown keys, duplicate keys and names, numbers out of range, unknown GPUs, contradictions.
func ParseFleet(data []byte) (*Fleet, error) {
	var f Fleet
	if err := strictyaml.Decode(data, &f, strictyaml.Options{MaxBytes: maxInputBytes}); err != nil {
		// What was decoded is still checked, so that one run shows everything.
		return nil, joinProblems(err, f.validate(true))
	}
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return &f, nil
}

//go:embed schema.json
var schemaJSON []byte

// Schema returns the JSON Schema (2020-12) of a fleet file.
func Schema() []byte { return bytes.Clone(schemaJSON) }
