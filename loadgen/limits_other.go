//go:build !unix && !windows

package loadgen

var clientLimitErrors []error

// openFileLimit is how many files the process may have open: nobody says.
func openFileLimit() (uint64, bool) { return 0, false }
