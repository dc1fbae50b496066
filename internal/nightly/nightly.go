// Package nightly tells tests whether they were built with -tags nightly. Heavy
// corpora run whole only then; other runs look at a sample of the same cases.
package nightly

import "testing"

// Cases returns how many cases a test looks at: all of them in the nightly run, else the sample.
func Cases(sample, all int) int {
	if Enabled {
		return all
	}
	return sample
}

// Only leaves a test to the nightly run.
func Only(t testing.TB) {
	t.Helper()
	if !Enabled {
		t.Skip("it takes long: run it with -tags nightly")
	}
}
