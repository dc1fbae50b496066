// SPDX-License-Identifier: Apache-2.0

//go:build nightly

package nightly

// Enabled reports whether the build has the tag nightly.
const Enabled = true
