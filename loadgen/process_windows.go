// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"time"

	"golang.org/x/sys/windows"
)

// processCPU is the CPU time, user and kernel, that the process has used, negative where that is not known.
func processCPU() time.Duration {
	var creation, exit, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &creation, &exit, &kernel, &user); err != nil {
		return -1
	}
	// A duration, not a date: units of 100 ns.
	span := func(f windows.Filetime) time.Duration {
		return time.Duration(int64(f.HighDateTime)<<32|int64(f.LowDateTime)) * 100
	}
	return span(kernel) + span(user)
}

var clientLimitErrors = []error{windows.WSAEMFILE, windows.WSAENOBUFS, windows.WSAEADDRNOTAVAIL}
