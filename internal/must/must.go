// SPDX-License-Identifier: Apache-2.0

// Package must ends a test at an unexpected error:
//
//	m := must.Get(mig.Lookup("A30"))(t)
package must

import "testing"

// Get returns a function that returns v, or ends the test with err.
func Get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Do ends the test unless err is nil.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
