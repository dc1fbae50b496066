//go:build !linux

package wire

import "net"

// withStamps returns c: receive times are read on Linux only.
func withStamps(c net.Conn) net.Conn { return c }
