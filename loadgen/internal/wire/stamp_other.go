// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package wire

import "net"

// withStamps returns c: receive times are read on Linux only.
func withStamps(c net.Conn) net.Conn { return c }

// waits returns false: whether data waits to be read is looked up on Linux only.
func waits(net.Conn) bool { return false }
