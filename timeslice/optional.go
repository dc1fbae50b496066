package timeslice

import "github.com/cotenant/cotenant/internal/optional"

// Optional is a value that may be missing. The zero Optional is missing.
type Optional[T any] = optional.Value[T]

// Some returns a value that is there.
func Some[T any](v T) Optional[T] { return optional.Of(v) }
