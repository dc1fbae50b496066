package predict

import (
	"fmt"
	"os"
)

// LoadProfiles reads a file of profiles ([ParseProfiles]) or of rows in the
// co-location format ([ParseRows]), whose lone tenants are the profiles.
func LoadProfiles(path string) (*Profiles, error) {
	return load(path, func(data []byte) (*Profiles, error) {
		list, err := ParseProfiles(data)
		if err != nil {
			rows, err := ParseRows(data)
			if err != nil {
				return nil, fmt.Errorf("neither profiles nor co-location rows: %w", err)
			}
			list = rows.Profiles()
		}
		return NewProfiles(list...)
	})
}

// LoadPredictor reads a file that [ParsePredictor] takes.
func LoadPredictor(path string) (*Predictor, error) { return load(path, ParsePredictor) }

// LoadRows reads a file that [ParseRows] takes.
func LoadRows(path string) (Rows, error) { return load(path, ParseRows) }

func load[T any](path string, parse func([]byte) (T, error)) (T, error) {
	data, err := os.ReadFile(path)
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
