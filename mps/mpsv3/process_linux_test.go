package mpsv3_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
	"github.com/cotenant/cotenant/mps/mpsv3"
)

func TestDaemon(t *testing.T) {
	dir, err := os.MkdirTemp("", "mps") // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p, err := mpstest.Program(mpstest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opts := mps.DaemonOptions{Program: p, Dialect: mpsv3.Dialect{}, StartTimeout: 30 * time.Second,
		PipeDirectory: filepath.Join(dir, "p"), LogDirectory: filepath.Join(dir, "l")}
	d, err := mps.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := d.Client().Probe(t.Context()); err != nil || s.Protocol != mps.ProtocolV3 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := mpsv3.NewClient(d.Client()).CreateServer(t.Context(), "a", mpsv3.ServerOptions{}); err != nil {
		t.Error(err)
	}
	if r, err := d.Stop(t.Context(), time.Second); err != nil || !r.Graceful {
		t.Errorf("%+v, %v", r, err)
	}
	for name, change := range map[string]func(*mps.DaemonOptions){
		"-S":       func(o *mps.DaemonOptions) { o.StaticPartitioning = true },
		"relative": func(o *mps.DaemonOptions) { o.Dialect = mpsv3.Dialect{ConfigFile: "x.toml"} },
	} {
		bad := opts
		change(&bad)
		if d, err := mps.Start(t.Context(), bad); !errors.Is(err, mps.ErrInvalid) || d != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
