// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package mignvml

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cotenant/cotenant/internal/must"
)

// TestLockFile: one holder at a time; a waiting one goes on when the lock is free, or gives up with its context.
func TestLockFile(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "made", "mig-GPU-1.lock")
	unlock := must.Get(lockFile(ctx, path))(t)
	short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	if _, err := lockFile(short, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second holder: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		again, err := lockFile(ctx, path)
		if err == nil {
			again()
		}
		got <- err
	}()
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
	if _, err := lockFile(ctx, filepath.Join(path, "x.lock")); err == nil || !strings.Contains(err.Error(), "writable") {
		t.Errorf("a lock below a file: %v", err)
	}
}
