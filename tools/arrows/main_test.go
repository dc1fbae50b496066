// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
)

func TestOrderPutsFilesAboveThoseTheyPointTo(t *testing.T) {
	all := map[string]map[string]bool{
		"a.go": {"b.go": true, "c.go": true}, "b.go": {"c.go": true}, "c.go": {}, "d.go": {"a.go": true, "c.go": true},
	}
	if got, want := orderOf(all), []string{"d.go", "a.go", "b.go", "c.go"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}
