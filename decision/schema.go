package decision

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var schemaJSON []byte

// Schema returns the JSON Schema (2020-12) of a fleet file.
func Schema() []byte { return bytes.Clone(schemaJSON) }
