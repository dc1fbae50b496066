//go:build unix && nightly

package usage

import (
	"syscall"
	"time"
)

// cpuTime is what this process has had of the processors: the time that its work
// takes on a machine that does nothing else.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
