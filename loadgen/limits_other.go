//go:build !unix && !windows

package loadgen

var clientLimitErrors []error

// openFileLimit reports that the limit on open files is not known here.
func openFileLimit() (uint64, bool) { return 0, false }
