// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package mignvml

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cotenant/cotenant/mig"
)

// lockDir is the folder of the lock files. Only root can make it, so that nobody else can hold a GPU up.
const lockDir = "/run/cotenant"

func (d *device) Lock(ctx context.Context) (unlock func(), err error) {
	return lockFile(ctx, filepath.Join(lockDir, "mig-"+d.uuid+".lock"))
}

func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var f *os.File
	if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o660)
	}
	if err != nil {
		err = fmt.Errorf("mignvml: lock the GPU against other changes: %w (make %s writable, in a container by mounting "+
			"the host's)", err, filepath.Dir(path))
		if errors.Is(err, os.ErrPermission) {
			err = fmt.Errorf("%w: %w", mig.ErrPermission, err)
		}
		return nil, err
	}
	// A lock that is requested without waiting can be given up when ctx ends.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil // closing gives the lock back
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			f.Close()
			return nil, fmt.Errorf("mignvml: lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("mignvml: another process changes the GPU (it holds %s): %w", path, ctx.Err())
		case <-tick.C:
		}
	}
}
