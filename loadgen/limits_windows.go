package loadgen

import "golang.org/x/sys/windows"

var clientLimitErrors = []error{windows.WSAEMFILE, windows.WSAENOBUFS, windows.WSAEADDRNOTAVAIL}

// openFileLimit reports that Windows sets no limit on open files.
func openFileLimit() (uint64, bool) { return 0, false }
