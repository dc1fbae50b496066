// SPDX-License-Identifier: Apache-2.0

package loadgen

import "github.com/cotenant/cotenant/loadgen/internal/wire"

// Receiving returns the options of a run that reads answers in another mode than the best that there is.
func Receiving(mode wire.Mode, o Options) Options {
	o.mode = mode
	return o
}
