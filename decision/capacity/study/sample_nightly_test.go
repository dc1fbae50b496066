//go:build nightly

package study

// recordedSeries is the number of series that TestRecordedServers predicts: all.
const recordedSeries = 8
