//go:build nightly

package judge

// sampleFleets counts the fleets that TestRun plays.
const sampleFleets = 100
