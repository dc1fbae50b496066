// SPDX-License-Identifier: Apache-2.0

// Package optional holds a value that may be missing. A package with such values in its API declares its own name:
//
//	type Optional[T any] = optional.Value[T]
package optional

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// Value is a value that may be missing. The zero Value is missing. In JSON a
// missing value is null, or left out with the omitzero option.
type Value[T any] struct {
	v  T
	ok bool
}

// Of returns a value that is there.
func Of[T any](v T) Value[T] { return Value[T]{v: v, ok: true} }

// Get returns the value and whether there is one; without one the value is T's zero value and means nothing.
func (o Value[T]) Get() (T, bool) { return o.v, o.ok }

// Or returns the value, or fallback when it is missing.
func (o Value[T]) Or(fallback T) T {
	if o.ok {
		return o.v
	}
	return fallback
}

// Any returns the value, or nil when it is missing.
func (o Value[T]) Any() any {
	if !o.ok {
		return nil
	}
	return o.v
}

// IsZero reports whether the value is missing; encoding/json's omitzero uses it.
func (o Value[T]) IsZero() bool { return !o.ok }

// Equal says whether both are missing, or both are there and equal as reflect.DeepEqual has it; go-cmp uses it.
func (o Value[T]) Equal(p Value[T]) bool { return o.ok == p.ok && reflect.DeepEqual(o.v, p.v) }

// String formats the value, or "-" when it is missing.
func (o Value[T]) String() string {
	if !o.ok {
		return "-"
	}
	return fmt.Sprint(o.v)
}

// MarshalJSON writes the value, or null when it is missing.
func (o Value[T]) MarshalJSON() ([]byte, error) {
	if !o.ok {
		return []byte("null"), nil
	}
	return json.Marshal(o.v)
}

// UnmarshalJSON reads a value, or null as missing.
func (o *Value[T]) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*o = Value[T]{}
		return nil
	}
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*o = Of(v)
	return nil
}

// Fill makes a value, given by its pointer, one that is there and returns where to store it: a *T. It answers false
// where v is no *Value. Decoders that know no JSON need it.
func Fill(v any) (at any, ok bool) {
	f, ok := v.(interface{ fill() any })
	if !ok {
		return nil, false
	}
	return f.fill(), true
}

func (o *Value[T]) fill() any {
	o.ok = true
	return &o.v
}

// Positive reads a figure that is not known where it is 0.
func Positive(v Value[float64]) (float64, bool) {
	if f, ok := v.Get(); ok && f > 0 {
		return f, true
	}
	return 0, false
}
