// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cotenant/cotenant/internal/strictyaml"
)

// LoadProfiles reads a file of profiles ([ParseProfiles]) or of rows in the
// co-location format ([ParseRows]); rows with one tenant are the profiles.
func LoadProfiles(path string) (*Profiles, error) {
	return ReadFile(path, func(data []byte) (*Profiles, error) {
		list, err := ParseProfiles(data)
		if err != nil {
			rows, err := ParseRows(data)
			if err != nil {
				return nil, fmt.Errorf("neither profiles nor co-location rows: %w", err)
			}
			list = rows.Profiles()
		}
		if len(list) == 0 {
			return nil, errors.New("holds nothing that was measured alone (give profiles, or rows with one tenant)")
		}
		return NewProfiles(list...)
	})
}

// LoadRows reads a file that [ParseRows] takes. Rows that do not say which series
// they are of are of one that is named after the file.
func LoadRows(path string) (Rows, error) {
	rows, err := ReadFile(path, ParseRows)
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	for i := range rows {
		if rows[i].Series == "" {
			rows[i].Series = name
		}
	}
	return rows, err
}

// maxFile is that of a fleet; the others are smaller.
const maxFile = 16 << 20

// ReadFile reads and parses a file of 16 MiB at most; the error of parse names it.
func ReadFile[T any](path string, parse func([]byte) (T, error)) (T, error) {
	data, err := strictyaml.ReadFile(path, strictyaml.Options{MaxBytes: maxFile})
	if err != nil {
		var none T
		return none, err
	}
	v, err := parse(data)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return v, err
}
