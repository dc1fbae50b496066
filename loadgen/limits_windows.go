package loadgen

import "golang.org/x/sys/windows"

var clientLimitErrors = []error{windows.WSAEMFILE, windows.WSAENOBUFS, windows.WSAEADDRNOTAVAIL}

// openFileLimit is how many files the process may have open: as many as it likes.
func openFileLimit() (uint64, bool) { return 0, false }
