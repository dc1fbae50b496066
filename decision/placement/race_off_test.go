//go:build !race

package placement

const RaceEnabled = false
