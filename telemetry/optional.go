package telemetry

import (
	"encoding/json"
	"fmt"
)

// Optional is a value that may be missing. The zero Optional is missing. In
// JSON a missing value is null, or left out with the omitzero option.
type Optional[T any] struct {
	v  T
	ok bool
}

// Some returns a value that is there.
func Some[T any](v T) Optional[T] { return Optional[T]{v: v, ok: true} }

// Get returns the value and whether there is one; without one the value is
// T's zero value and means nothing.
func (o Optional[T]) Get() (T, bool) { return o.v, o.ok }

// Or returns the value, or fallback when it is missing.
func (o Optional[T]) Or(fallback T) T {
	if o.ok {
		return o.v
	}
	return fallback
}

// IsZero says whether the value is missing; encoding/json's omitzero uses it.
func (o Optional[T]) IsZero() bool { return !o.ok }

// String formats the value, or "-" when it is missing.
func (o Optional[T]) String() string {
	if !o.ok {
		return "-"
	}
	return fmt.Sprint(o.v)
}

// MarshalJSON writes the value, or null when it is missing.
func (o Optional[T]) MarshalJSON() ([]byte, error) {
	if !o.ok {
		return []byte("null"), nil
	}
	return json.Marshal(o.v)
}

// UnmarshalJSON reads a value, or null as missing.
func (o *Optional[T]) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*o = Optional[T]{}
		return nil
	}
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*o = Some(v)
	return nil
}
