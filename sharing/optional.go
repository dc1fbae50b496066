// SPDX-License-Identifier: Apache-2.0

package sharing

import "github.com/cotenant/cotenant/internal/optional"

// Optional holds a value that may be missing; the zero Optional holds none: if v, ok := o.Get(); ok { use(v) } or
// use(o.Or(0)). IsZero reports a missing value, Equal compares two; String writes "-" for it, JSON null, or omitzero
// nothing. All packages use it; loadgen, which imports none of the others, has the same type as loadgen.Optional.
type Optional[T any] = optional.Value[T]

// Some returns an Optional that holds v.
func Some[T any](v T) Optional[T] { return optional.Of(v) }
