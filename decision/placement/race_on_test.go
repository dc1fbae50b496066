//go:build race

package placement

const RaceEnabled = true
