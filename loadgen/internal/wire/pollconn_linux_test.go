// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestPollConn: the connection itself, closed under its users.
func TestPollConn(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var conns Conns
	dial := func() (*pollConn, net.Conn) {
		raw, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c, err := conns.pollers.adopt(raw)
		if err != nil {
			t.Fatal(err)
		}
		peer, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { peer.Close() })
		return c, peer
	}
	c, peer := dial()
	big := strings.Repeat("0123456789", 1<<20)
	sent := make(chan error, 1)
	go func() { sent <- c.send(t.Context(), []byte(big)) }()
	if got, err := io.ReadAll(io.LimitReader(peer, int64(len(big)))); err != nil || string(got) != big {
		t.Errorf("written %d bytes, read %d: %v", len(big), len(got), err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	go func() { io.WriteString(peer, big); peer.Close() }()
	if got, err := io.ReadAll(c); err != nil || string(got) != big {
		t.Errorf("sent %d bytes, read %d: %v", len(big), len(got), err)
	}
	time.AfterFunc(10*time.Millisecond, func() { c.Close() })
	for {
		if err = c.send(t.Context(), []byte(big)); err != nil {
			break
		}
	}
	var op *net.OpError
	if !errors.As(err, &op) {
		t.Errorf("write to a closed peer: %v", err)
	}
	second, _ := dial()
	time.AfterFunc(10*time.Millisecond, conns.Close) // closes open connections
	if _, err := second.Read(make([]byte, 10)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read while closing: %v", err)
	}
	if err := second.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	raw, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if third, err := conns.pollers.adopt(raw); !errors.Is(err, ErrNotPolled) {
		t.Errorf("closed pollers adopt: %v, %v", third, err)
	}
}
