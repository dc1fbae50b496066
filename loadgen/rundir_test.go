// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDiskFull: the lines that do not fit are an error, not a panic, and later requests go on.
func TestDiskFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	path := filepath.Join(t.TempDir(), "requests.jsonl")
	w := bufio.NewWriterSize(full, 128)
	l := &requestLog{path: path, file: full, w: w, lines: json.NewEncoder(w)}
	for i := range int64(10) {
		l.add(&Record{Tenant: "t", ID: i, Class: ClassOK, EndNS: 1})
	}
	if err := l.close(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}

// TestKilled: the directory of a run that is killed in the middle can be read.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "requests.jsonl")
	l, err := newRequestLog(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(5) {
		l.add(&Record{Tenant: "t", ID: i, Class: ClassOK, EndNS: (i + 1) * 2e9})
	}
	f, err := os.Open(path + partialSuffix)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for scan := bufio.NewScanner(f); scan.Scan(); n++ {
		var r Record
		if err := json.Unmarshal(scan.Bytes(), &r); err != nil || r.ID != int64(n) {
			t.Errorf("%s: %v", scan.Bytes(), err)
		}
	}
	if n != 5 {
		t.Errorf("%d lines are on disk before the end", n)
	}
	if err := l.discard(); err != nil {
		t.Error(err)
	}
}
