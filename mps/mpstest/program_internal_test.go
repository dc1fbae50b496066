package mpstest

import (
	"net"
	"net/rpc"
	"path/filepath"
	"testing"

	"github.com/cotenant/cotenant/mps"
)

// A client that disconnects while the daemon is told to quit does not cost the one who told it the answer.
func TestQuitIsAnswered(t *testing.T) {
	for range 300 {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		d := New(Options{})
		served := make(chan error)
		go func() { served <- serve(t.Context(), l, d) }()
		var conns []*rpc.Client
		for range 6 {
			c, err := rpc.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		quit := conns[0].Go("Daemon.Control", mps.Invocation{Stdin: "quit -t 1\n"}, &mps.Output{}, nil)
		for _, c := range conns[1:] {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if <-quit.Done; quit.Error != nil {
			t.Fatal(quit.Error)
		}
		if err := conns[0].Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-served; err != nil {
			t.Fatal(err)
		}
	}
}
