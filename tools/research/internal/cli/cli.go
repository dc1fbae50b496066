// SPDX-License-Identifier: Apache-2.0

// Package cli holds what the research commands have in common: flags, exit codes and JSON.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// Exit codes of every command.
const (
	Done        = 0
	BadUse      = 2
	Failed      = 5
	Interrupted = 130
)

type codeError struct {
	error
	code int
}

func (e codeError) Unwrap() error { return e.error }

// BadInput marks an error as one of flags or files given.
func BadInput(err error) error { return codeError{err, BadUse} }

// Cut marks an error as that of a run that was interrupted and printed what it had.
func Cut(err error) error { return codeError{err, Interrupted} }

// Run runs a command, reports its error a line at a time under its name, and returns the exit code.
func Run(ctx context.Context, name string, stderr io.Writer, do func() error) int {
	err := do()
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return Done
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "%s: %s\n", name, strings.TrimRight(line, "\n"))
	}
	var coded codeError
	switch {
	case errors.As(err, &coded):
		return coded.code
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return Interrupted
	}
	return Failed
}

// FlagSet returns the empty flags of a command; Parse reads them.
func FlagSet(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // Run reports the error, once
	return fs
}

// Parse reads the flags; -h prints the usage and the flags.
func Parse(fs *flag.FlagSet, args []string, usage string, stdout io.Writer) error {
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return err
	case err != nil:
		return BadInput(err)
	}
	return nil
}

// JSON prints a value as indented JSON.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
