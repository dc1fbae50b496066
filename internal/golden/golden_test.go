// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "file.txt")
	*update = true
	Check(t, path, []byte("one\n"))
	*update = false
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "one\n" {
		t.Fatalf("-update wrote %q, %v", got, err)
	}
	Check(t, path, []byte("one\n"))
}
