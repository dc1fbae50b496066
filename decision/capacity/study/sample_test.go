//go:build !nightly

package study

// recordedSeries is the number of series that TestRecordedServers predicts: the plain run takes
// the shortest one alone.
const recordedSeries = 1
