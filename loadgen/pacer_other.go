// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package loadgen

func newPrecisePacer() pacer { return nil }
