// SPDX-License-Identifier: Apache-2.0

//go:build nightly

package loadgen

// agreeSeeds is the number of servers of TestWaysToReceiveAgree.
const agreeSeeds = 400
