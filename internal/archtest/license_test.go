// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"cmp"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
)

// TestLicense: each Go file begins with its licence, for scanners that read file by file.
func TestLicense(t *testing.T) {
	root, files := os.DirFS("../.."), 0
	must.Do(t, fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && name != "." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata") {
			return cmp.Or(err, fs.SkipDir)
		}
		if e.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		files++
		text, err := fs.ReadFile(root, name)
		if !strings.HasPrefix(string(text), "// SPDX-License-Identifier: Apache-2.0\n\n") {
			t.Errorf("%s does not begin with // SPDX-License-Identifier: Apache-2.0 and an empty line", name)
		}
		return err
	}))
	if files < 500 {
		t.Errorf("%d Go files", files)
	}
}
