// SPDX-License-Identifier: Apache-2.0

//go:build race

package race

// Enabled says whether the race detector is compiled in.
const Enabled = true
