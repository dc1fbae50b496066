//go:build !race

package mig_test

const raceEnabled = false
