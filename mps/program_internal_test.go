// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"slices"
	"testing"
)

func TestSetIn(t *testing.T) {
	got := setIn([]string{"A=1", "B=2"}, []string{"B=3", "C=4", "C=5", "PATH"})
	if want := []string{"A=1", "B=3", "C=5", "PATH"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestBuffer(t *testing.T) {
	full := 0
	b := buffer{limit: 4, full: func() { full++ }}
	for _, s := range []string{"ab", "cd", "ef", "g"} {
		if n, err := b.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("%q: %d, %v", s, n, err)
		}
	}
	if b.String() != "abcd" || full != 2 {
		t.Errorf("kept %q, full %d times", b.String(), full)
	}
}
