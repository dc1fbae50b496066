// SPDX-License-Identifier: Apache-2.0

// Package problems collects everything that is wrong with an input for one error
// that names each problem with its path and its remedy.
package problems

import (
	"errors"
	"fmt"
	"strings"
)

// List has problems in the order in which they are found. The zero value is empty.
type List struct{ errs []error }

// Addf records a problem at path; remedy may be empty.
func (l *List) Addf(path, remedy, format string, args ...any) {
	text := path + ": " + fmt.Sprintf(format, args...)
	if remedy != "" {
		text += " (" + remedy + ")"
	}
	l.errs = append(l.errs, errors.New(text))
}

// AddErr records err at path, and each error by itself where several are joined.
func (l *List) AddErr(path string, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			l.AddErr(path, e)
		}
		return
	}
	between := ": "
	if strings.HasPrefix(err.Error(), "[") { // an index into the value at path
		between = ""
	}
	l.errs = append(l.errs, fmt.Errorf("%s%s%w", path, between, err))
}

// Len is the number of problems.
func (l *List) Len() int { return len(l.errs) }

// Err joins the problems; nil where there are none.
func (l *List) Err() error { return errors.Join(l.errs...) }
