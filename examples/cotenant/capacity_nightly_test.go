//go:build nightly

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/internal/golden"
	"github.com/cotenant/cotenant/internal/race"
)

// TestCapacityBuiltin holds the built-in scenario's decisions: each arrangement with
// its GPUs, router and verdict, the chosen one, and where the cheapest changes.
func TestCapacityBuiltin(t *testing.T) {
	race.Long(t)
	row := regexp.MustCompile(`^([ *])(\S+) +(>?\d+x \S+) +(\S+) +(kept|missed|unknown) `)
	var decided strings.Builder
	for line := range strings.Lines(capacityPage(t, "capacity")) {
		if m := row.FindStringSubmatch(line); m != nil {
			decided.WriteString(strings.Join(m[1:], " ") + "\n")
		} else if strings.HasPrefix(line, "chosen: ") || strings.HasPrefix(line, "crossover: ") {
			decided.WriteString(line)
		}
	}
	golden.Check(t, "testdata/capacity.txt", []byte(decided.String()))
}
