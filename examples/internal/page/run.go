// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// The exit codes of every program.
const (
	ExitDone        = 0
	ExitNo          = 1 // the answer is no
	ExitBadInput    = 2
	ExitInvalid     = 3 // measured, but not valid
	ExitCannot      = 5 // disk, driver or network failed
	ExitInterrupted = 130
)

// ExitError is an error with the exit code that it causes; without Err the program has printed the reason.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return fmt.Sprint(e.Err) }

func (e *ExitError) Unwrap() error { return e.Err }

// BadInput marks an error as the caller's: exit code 2.
func BadInput(err error) error { return ExitWith(ExitBadInput, err) }

// ExitWith gives an error its exit code, unless it has one or is nil.
func ExitWith(code int, err error) error {
	if err == nil || errors.As(err, new(*ExitError)) {
		return err
	}
	return &ExitError{code, err}
}

// Run runs a program and returns its exit code: 0 for no error and for help, the code of an ExitError, 130 for an
// error of a cancelled ctx, and else 5. It reports the error under the program's name, and failed writes.
func Run(ctx context.Context, name string, stdout, stderr io.Writer, do func(stdout io.Writer) error) (code int) {
	stdout, done := Check(name, stdout, stderr)
	defer done(&code)
	err := do(stdout)
	var coded *ExitError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return ExitDone
	case errors.As(err, &coded):
		code = coded.Code
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		code = ExitInterrupted
	default:
		code = ExitCannot
	}
	if coded == nil || coded.Err != nil {
		Fail(name, stderr, err)
	}
	return code
}

// FlagSet returns the empty flags of a program; Parse reads them.
func FlagSet(name string) *flag.FlagSet {
	fl := flag.NewFlagSet(name, flag.ContinueOnError)
	fl.SetOutput(io.Discard) // Run reports the error, once
	return fl
}

// Parse reads flags, and at most maxArgs arguments after them. With -h it prints usage and the flags and
// returns flag.ErrHelp; other errors are bad input.
func Parse(fl *flag.FlagSet, args []string, usage string, maxArgs int, stdout io.Writer) error {
	err := fl.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage, Flags(fl))
		return err
	case err != nil && strings.HasSuffix(err.Error(), "parse error"):
		return BadInput(fmt.Errorf("%w: a number is plain, a duration like 500ms or 2s (see -h)", err))
	case err != nil:
		return BadInput(fmt.Errorf("%w (see -h)", err))
	case maxArgs > 0 && len(fl.Arg(maxArgs)) > 1 && strings.HasPrefix(fl.Arg(maxArgs), "-"):
		return BadInput(fmt.Errorf("flag %s comes after %s; flags come first", fl.Arg(maxArgs), fl.Arg(maxArgs-1)))
	case fl.NArg() > maxArgs:
		return BadInput(fmt.Errorf("unexpected argument %q (see -h)", fl.Arg(maxArgs)))
	}
	return nil
}
