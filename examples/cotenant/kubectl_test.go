// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// play has PATH be a folder with a kubectl that is this script.
func play(t *testing.T, script string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the script needs a POSIX shell")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

// TestReadCluster: all is read in six calls; a partial refusal is an error along with the objects that were read, a kind that the
// cluster lacks is no fault, and where nothing was read the error or messages has kubectl's text.
func TestReadCluster(t *testing.T) {
	const list = `echo '{"kind":"List","items":[]}';`
	for name, c := range map[string]struct {
		script    string
		read      int
		part, err string
	}{
		"all":           {list, 6, "", ""},
		"in part":       {list + `case "$2" in deviceclasses|nodes,*) echo "$2 is forbidden" >&2; exit 1;; esac`, 6, "deviceclasses is forbidden", ""},
		"no extensions": {`case "$2" in nodes,*) ` + list + `exit;; esac; echo "error: the server doesn't have a resource type" >&2; exit 1`, 6, "", ""},
		"nothing":       {`echo "no route to host" >&2; exit 1`, 1, "", "no route to host"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, c.script)
			for _, messages := range []*strings.Builder{nil, {}} {
				read := 0
				take := func(_ string, r io.Reader) error { read++; _, err := io.Copy(io.Discard, r); return err }
				var to io.Writer
				if messages != nil {
					to = messages
				}
				part, err := readCluster(t.Context(), take, to)
				text := ""
				if messages != nil {
					text = messages.String()
				}
				if read != c.read || (part != nil) != (c.part != "") || (err != nil) != (c.err != "") {
					t.Errorf("%d read, %v, %v", read, part, err)
				}
				if part != nil && !strings.Contains(part.Error(), c.part) || err != nil && !strings.Contains(err.Error()+text, c.err) {
					t.Errorf("%v, %v, %q", part, err, text)
				}
			}
		})
	}
}

// TestReadClusterStops: objects that take refuses are named, and a cancelled context ends kubectl.
func TestReadClusterStops(t *testing.T) {
	play(t, `echo '{}'; case "$2" in nodes,*) exec sleep 60;; esac`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	part, err := readCluster(ctx, func(string, io.Reader) error { cancel(); return errors.New("refused") }, nil)
	if err != nil || !errors.Is(part, context.Canceled) {
		t.Error(part, err)
	}
	play(t, `echo '{}'`)
	part, err = readCluster(t.Context(), func(string, io.Reader) error { return errors.New("refused") }, nil)
	if err != nil || part == nil || !strings.Contains(part.Error(), "refused") {
		t.Error(part, err)
	}
}
