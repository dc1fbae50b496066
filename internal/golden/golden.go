// SPDX-License-Identifier: Apache-2.0

// Package golden compares output with files under testdata; run the tests with -update to rewrite them.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// singular finds a noun in the plural after the number 1.
var singular = regexp.MustCompile(`(^|[^\d.,@-])1 ` +
	`(GPUs|nodes|pods|replicas|workloads|instances|moves|steps|tenants|requests|runs)\b`)

// Check compares got with the file at path (relative to the test's package), and finds plurals of one.
func Check(t *testing.T, path string, got []byte) {
	t.Helper()
	if at := singular.Find(got); at != nil {
		t.Errorf("%s: %q is no plural", path, at)
	}
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run the test with -update to write it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); run the test with -update if the change is meant:\n%s", path, diff)
	}
}
