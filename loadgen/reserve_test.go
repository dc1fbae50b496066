// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestNoHalfLine: a disk that fills in the middle of a line leaves whole lines.
func TestNoHalfLine(t *testing.T) {
	for _, half := range []string{"", `{"tenant":"t","id":3,"cla`} {
		path := filepath.Join(t.TempDir(), ArtifactRequests)
		l, err := newRequestLog(path)
		if err != nil {
			t.Fatal(err)
		}
		for id := range int64(3) {
			l.add(&Record{Tenant: "t", ID: id, Class: ClassOK})
		}
		if err := l.w.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.file.WriteString(half); err != nil {
			t.Fatal(err)
		}
		l.err = errors.New("no space left on device")
		if err := l.close(); err == nil {
			t.Error("no error")
		}
		b, err := os.ReadFile(path)
		if err != nil || bytes.Count(b, []byte("\n")) != 3 || !bytes.HasSuffix(b, []byte("}\n")) {
			t.Errorf("%v: %q", err, b)
		}
	}
}
