// SPDX-License-Identifier: Apache-2.0

// Package nightly reports to tests whether they were built with -tags nightly. Only such builds test large corpora
// completely; others test a sample of the same cases.
package nightly

import (
	"flag"
	"strconv"
	"testing"

	"github.com/cotenant/cotenant/internal/race"
)

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

// Parallel lets n tests of a package run at once, unless -parallel is given. A package's TestMain calls it where tests
// mostly wait for servers and processes, so that the number of processors does not bound how many fit. Under the
// race detector, which makes waiting tests compute, it does nothing.
func Parallel(n int) {
	if race.Enabled {
		return
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // the testing package has defined it
	}
}
