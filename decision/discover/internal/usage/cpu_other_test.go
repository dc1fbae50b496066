//go:build !unix && nightly

package usage

import "time"

var began = time.Now()

func cpuTime() time.Duration { return time.Since(began) }
