// SPDX-License-Identifier: Apache-2.0

package mpstest

import (
	"net"
	"net/rpc"
	"path/filepath"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/mps"
)

// A client that disconnects while another one sends quit does not cost that one its answer.
func TestQuitIsAnswered(t *testing.T) {
	for range 300 {
		path := filepath.Join(t.TempDir(), "s")
		l := must.Get(net.Listen("unix", path))(t)
		d := New(Options{})
		served := make(chan error)
		go func() { served <- serve(t.Context(), l, d) }()
		var conns []*rpc.Client
		for range 6 {
			c := must.Get(rpc.Dial("unix", path))(t)
			conns = append(conns, c)
		}
		quit := conns[0].Go("Daemon.Control", mps.Invocation{Stdin: "quit -t 1\n"}, &mps.Output{}, nil)
		for _, c := range conns[1:] {
			must.Do(t, c.Close())
		}
		if <-quit.Done; quit.Error != nil {
			t.Fatal(quit.Error)
		}
		must.Do(t, conns[0].Close())
		if err := <-served; err != nil {
			t.Fatal(err)
		}
	}
}
