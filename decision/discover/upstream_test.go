// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpstreamTable: the version of each row of UPSTREAM.md is in the file that the row names, and its test exists.
func TestUpstreamTable(t *testing.T) {
	const root = "../../"
	table, err := os.ReadFile("UPSTREAM.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, line := range strings.Split(string(table), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 8 || strings.HasPrefix(cells[1], "-") || strings.TrimSpace(cells[1]) == "project" {
			continue
		}
		rows++
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		project, version, where := cells[1], cells[2], cells[5]
		text, err := os.ReadFile(root + where)
		if err != nil || !strings.Contains(string(text), version) {
			t.Errorf("%s: %s does not have version %s: read upstream again, then change the row (%v)", project, where, version, err)
		}
		dir, name, _ := strings.Cut(cells[6], " ")
		files, err := filepath.Glob(root + dir + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		there := false
		for _, f := range files {
			code, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			there = there || strings.Contains(string(code), "\nfunc "+name+"(t *testing.T)")
		}
		if !there {
			t.Errorf("%s: there is no %s in %s", project, name, dir)
		}
	}
	if rows < 10 {
		t.Errorf("%d rows", rows)
	}
}
