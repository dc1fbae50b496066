package main

import (
	"strings"
	"testing"
)

// program runs the program with arguments and returns what it gave.
func program(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("COLUMNS", "")
	var out, errs strings.Builder
	code = run(t.Context(), args, stdio{strings.NewReader(stdin), &out, &errs})
	return code, out.String(), errs.String()
}
