//go:build !nightly

package study

// recordedSeries is how many series TestRecordedServers predicts: the plain run takes
// the shortest one alone.
const recordedSeries = 1
