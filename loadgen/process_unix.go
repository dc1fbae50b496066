// SPDX-License-Identifier: Apache-2.0

//go:build unix

package loadgen

import (
	"time"

	"golang.org/x/sys/unix"
)

// processCPU is the CPU time, user and system, that the process has used, negative where that is not known.
func processCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return -1
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var clientLimitErrors = []error{unix.EMFILE, unix.ENFILE, unix.EADDRNOTAVAIL, unix.ENOBUFS, unix.ENOMEM}
