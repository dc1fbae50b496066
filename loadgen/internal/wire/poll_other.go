// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package wire

import (
	"context"
	"net"
	"net/http"
)

// pollers read sockets in batches, on Linux only.
type pollers struct{}

func (*pollers) close() {}

// Host sends requests over polled connections, on Linux only.
type Host struct{}

// Host returns nil: there is no poller.
func (cs *Conns) Host(*http.Request, func(context.Context) (net.Conn, error), *KeepAlive) *Host {
	return nil
}

// Exchange returns ErrNotPolled.
func (h *Host) Exchange(context.Context, *Reader, []byte, Call) (*http.Response, error) {
	return nil, ErrNotPolled
}

// withStamps returns c: receive times are read on Linux only.
func withStamps(c net.Conn) net.Conn { return c }

// waits returns false: whether data waits to be read is looked up on Linux only.
func waits(net.Conn) bool { return false }
