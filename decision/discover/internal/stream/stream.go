// SPDX-License-Identifier: Apache-2.0

// Package stream reads large JSON documents value by value.
package stream

import (
	"encoding/json"
	"fmt"
	"io"
)

// Object calls field for each key of the object that comes next; field must read the value. The error is io.EOF only
// where nothing is left to read.
func Object(d *json.Decoder, field func(key string) error) error {
	return walk(d, '{', func() error {
		key, err := d.Token()
		if err == nil {
			err = field(key.(string)) // a decoder takes nothing else for a key
		}
		return err
	})
}

// Array calls item for each element of the array that comes next, which may be null; item must read the element.
func Array(d *json.Decoder, item func() error) error { return walk(d, '[', item) }

func walk(d *json.Decoder, open json.Delim, item func() error) error {
	t, err := d.Token()
	if err != nil || open == '[' && t == nil {
		return err
	}
	if t != open {
		return fmt.Errorf("there is %.30q where a %v belongs", fmt.Sprint(t), open)
	}
	for err == nil && d.More() {
		err = item()
	}
	if err == nil {
		_, err = d.Token()
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
