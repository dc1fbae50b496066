// SPDX-License-Identifier: Apache-2.0

package mig

// Bar and Fits are for the tests in package mig_test.

func (l Layout) Bar() string { return l.bar() }

func (l Layout) Fits(p *Profile) (int, error) { return l.room(p) }
