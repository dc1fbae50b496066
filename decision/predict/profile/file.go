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
	return strictyaml.Load(path, func(data []byte) (*Profiles, error) {
		list, err := ParseProfiles(data)
		if err != nil {
			rows, err := ParseRows(data)
			if err != nil {
				return nil, fmt.Errorf("neither profiles nor co-location rows: %w", err)
			}
			list = rows.Profiles()
		}
		if len(list) == 0 {
			return nil, errors.New("holds nothing that was measured isolated (give profiles, or rows with one tenant)")
		}
		return NewProfiles(list...)
	})
}

// LoadRows reads a file that [ParseRows] takes. Rows that do not state which series
// they are of are of one that is named after the file.
func LoadRows(path string) (Rows, error) {
	rows, err := strictyaml.Load(path, ParseRows)
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	for i := range rows {
		if rows[i].Series == "" {
			rows[i].Series = name
		}
	}
	return rows, err
}
