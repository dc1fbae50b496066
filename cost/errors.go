// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"errors"

	"github.com/cotenant/cotenant/internal/problem"
)

var (
	// errCurrency is returned for amounts of two currencies.
	errCurrency = errors.New("cost: amounts in different currencies")
	// errOverflow is returned for a result beyond the range of Money or PPM.
	errOverflow = errors.New("cost: result out of range")
	// errInput is returned for wrong arguments; the error names every one.
	errInput = errors.New("cost: invalid input")
	// ErrNoBreakEven is returned if no value breaks even.
	ErrNoBreakEven = errors.New("cost: there is no break-even point")
)

// inputErr returns nil for an empty list, and otherwise an errInput that names every problem.
func inputErr(l *problem.List) error { return problem.Input("cost: ", errInput, l.Err()) }

func badInput(format string, args ...any) error {
	var l problem.List
	l.Addf("", "", format, args...)
	return inputErr(&l)
}
