package sharing

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"sync"
)

// The package's tables. A file is a list of rows whose keys are the fields of the row's type; a field that is left
// out is unknown, or empty.
//
//go:embed data
var data embed.FS

// table returns a function that reads a file of rows when it is first called. A test holds that every file can be
// read; of a damaged one there would be no rows.
func table[T any](file string) func() []T {
	return sync.OnceValue(func() []T {
		rows, _ := readTable[T](file)
		return rows
	})
}

func readTable[T any](file string) ([]T, error) {
	text, err := data.ReadFile("data/" + file)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var rows []T
	if err := dec.Decode(&rows); err != nil {
		return nil, fmt.Errorf("sharing: data/%s: %w", file, err)
	}
	return rows, nil
}
