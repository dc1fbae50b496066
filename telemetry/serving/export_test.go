// SPDX-License-Identifier: Apache-2.0

package serving

// ErrNone is for the tests in package serving_test.
var ErrNone = errNone
