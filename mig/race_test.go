//go:build race

package mig_test

const raceEnabled = true
