package telemetry

import "github.com/cotenant/cotenant/internal/optional"

// Optional holds a value that may be missing; the zero Optional is missing. Get returns the value and whether it is
// there, Or the value or a fallback, IsZero whether it is missing; Equal compares two, String writes "-" for a
// missing one, and JSON null, or nothing with omitzero:
//
//	if v, ok := o.Get(); ok { use(v) } // or use(o.Or(0))
type Optional[T any] = optional.Value[T]

// Some returns an Optional that holds v.
func Some[T any](v T) Optional[T] { return optional.Of(v) }
