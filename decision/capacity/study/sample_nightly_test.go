//go:build nightly

package study

// recordedSeries is how many series TestRecordedServers predicts: all.
const recordedSeries = 8
