// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	_ "embed"

	"github.com/cotenant/cotenant/internal/strictyaml"
)

// maxInputBytes bounds a fleet file.
const maxInputBytes = 16 << 20

func init() {
	strictyaml.Register((*Pool).decode)
	strictyaml.Register((*gpuText).decode)
	strictyaml.Register((*Workload).decode)
	strictyaml.Register((*Replicas).decode)
	strictyaml.Register((*busyOn).decode)
	strictyaml.Register((*LanguageModel).decode)
}

// ParseFleet reads a fleet from YAML or JSON. The error names every problem with its path and, where there is one,
// a remedy: unknown keys, duplicate keys and names, numbers out of range, unknown GPUs, contradictions. readFile reads
// files that it names, the config.json of models: [os.ReadFile] from the working folder, the ReadFile of an [embed.FS]
// from embedded files; nil refuses such models.
func ParseFleet(data []byte, readFile func(name string) ([]byte, error)) (*Fleet, error) {
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
