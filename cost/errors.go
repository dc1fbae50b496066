package cost

import (
	"errors"
	"fmt"

	"github.com/cotenant/cotenant/internal/problem"
)

// Errors that callers may test for with errors.Is.
var (
	// ErrCurrency says that amounts of two currencies met.
	ErrCurrency = errors.New("cost: amounts in different currencies")
	// ErrOverflow says that a result is beyond the range of Money or PPM.
	ErrOverflow = errors.New("cost: result out of range")
	// ErrInput says that an argument is wrong; the error names every one.
	ErrInput = errors.New("cost: invalid input")
	// ErrNoBreakEven says that no value breaks even.
	ErrNoBreakEven = errors.New("cost: there is no break-even point")
)

// inputErr returns nil for an empty list, and otherwise one error that names
// every problem.
func inputErr(l *problem.List) error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	return nil
}

// inputError is an ErrInput with one thing to say.
type inputError struct {
	text string
	err  error // may be nil
}

func badInput(format string, args ...any) error {
	return &inputError{text: fmt.Sprintf(format, args...)}
}

func (e *inputError) Error() string        { return "cost: " + e.text }
func (e *inputError) Is(target error) bool { return target == ErrInput }
func (e *inputError) Unwrap() error        { return e.err }
