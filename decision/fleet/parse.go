// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	_ "embed"
	"path/filepath"

	"github.com/cotenant/cotenant/internal/strictyaml"
)

// maxInputBytes bounds a fleet file.
const maxInputBytes = 16 << 20

// maxConfigBytes bounds a model's config.json.
const maxConfigBytes = 4 << 20

// LoadFleet reads a fleet from a file; see [ParseFleet]. The error names the file. Files that it names are looked for
// from its folder.
func LoadFleet(path string) (*Fleet, error) {
	return strictyaml.Load(path, func(data []byte) (*Fleet, error) {
		return ParseFleetWith(data, func(name string) ([]byte, error) {
			if !filepath.IsAbs(name) {
				name = filepath.Join(filepath.Dir(path), filepath.FromSlash(name))
			}
			return strictyaml.ReadFile(name, strictyaml.Options{MaxBytes: maxConfigBytes})
		})
	})
}

// ParseFleet reads a fleet from YAML or JSON. The error names every problem with its path and, where there is one,
// a remedy: unknown keys, duplicate keys and names, numbers out of range, unknown GPUs, contradictions. A fleet with
// models that name a config needs [ParseFleetWith].
func ParseFleet(data []byte) (*Fleet, error) { return ParseFleetWith(data, nil) }

// ParseFleetWith is ParseFleet of a fleet that may name files, the config.json of models, which readFile reads by the
// names in the fleet: [os.ReadFile] from the working folder, the ReadFile of an [embed.FS] from embedded files.
func ParseFleetWith(data []byte, readFile func(name string) ([]byte, error)) (*Fleet, error) {
	var f Fleet
	err := strictyaml.Decode(data, &f, strictyaml.Options{MaxBytes: maxInputBytes})
	if err = joinProblems(err, f.readConfigs(readFile)); err != nil {
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
