// SPDX-License-Identifier: Apache-2.0

//go:build !nightly

package decision

// floorSample is the mean number of random servers that are tried for each GPU and mechanism.
const floorSample float64 = 0.15
