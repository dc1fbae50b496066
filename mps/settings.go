// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// confirm sends a setter and compares the value in force afterwards, since the
// daemon answers a refused setting as a good one, or with the value that stays.
func confirm[T any](ctx context.Context, c *Client, setting, want string, get func() (got T, same bool, err error),
	words ...string) error {
	if _, err := c.do(ctx, c.timeout, words...); err != nil {
		return err
	}
	got, same, err := get()
	if err != nil || same {
		return err
	}
	return c.opError(strings.Join(words, " "), &failure{fmt.Sprintf("%s: set %s, but %s is in force", setting, want,
		cmp.Or(fmt.Sprint(got), "nothing")), []error{errMismatch}})
}

// The settings of a server and of servers to come, as commands name them and as people do.
var (
	threads   = setting{"active_thread_percentage", "active thread percentage"}
	pinnedMem = setting{"device_pinned_mem_limit", "pinned memory limit"}
)

type setting struct{ name, text string }

// of begins the command that gets or sets the setting of a server or, for server 0, of servers to come, and names it
// in words.
func (s setting) of(l *problem.List, server int, verb string) (command []string, text string) {
	if server == 0 {
		return []string{verb + "_default_" + s.name}, "default " + s.text
	}
	checkPID(l, "server", server)
	pid := strconv.Itoa(server)
	return []string{verb + "_" + s.name, pid}, s.text + " of server " + pid
}

// activeThreadPercentage returns the percentage of a server's clients to come or, for server 0, that the next server
// starts with, to one decimal, as the daemon prints it.
func (c *Client) activeThreadPercentage(ctx context.Context, server int) (float64, error) {
	var l problem.List
	command, _ := threads.of(&l, server, "get")
	if err := l.Under(ErrInvalid); err != nil {
		return 0, err
	}
	return read(ctx, c, parsePercentage, command...)
}

// SetActiveThreadPercentage sets the percentage of a server's new clients or, for server 0, of the next server, until
// the daemon ends; existing clients and servers are not affected. The value is read back: a different value in force is
// an error.
func (c *Client) SetActiveThreadPercentage(ctx context.Context, server int, pct float64) error {
	var l problem.List
	command, setting := threads.of(&l, server, "set")
	checkPercentage(&l, "percentage", pct)
	if err := l.Under(ErrInvalid); err != nil {
		return err
	}
	want := formatPercentage(pct)
	return confirm(ctx, c, setting, want+"%", func() (string, bool, error) {
		got, err := c.activeThreadPercentage(ctx, server)
		return formatPercentage(got) + "%", math.Abs(got-pct) <= 0.05+percentUnit, err // the daemon prints one decimal
	}, append(command, want)...)
}

// pinnedMemLimit returns the limit on device memory of a server's new clients or, for server 0, of clients of the next
// server, on a device that is named by ordinal or UUID exactly as it was set: the daemon does not translate. The cell
// is unknown if there is none.
func (c *Client) pinnedMemLimit(ctx context.Context, server int, device string) (sharing.Cell[sharing.Bytes], error) {
	var l problem.List
	command, _ := pinnedMem.of(&l, server, "get")
	c.deviceMemory(&l, device)
	if err := l.Under(ErrInvalid); err != nil {
		return sharing.Cell[sharing.Bytes]{}, err
	}
	return read(ctx, c, parseOptionalLimit, append(command, device)...)
}

// SetPinnedMemLimit limits the device memory of each new client process of a server or, for server 0, of the next
// server; existing clients and servers are not affected. The limit is per process, not per container, it must be a
// whole number of MiB, and a server's limit may exceed the default. It is read back. The daemon accepts limits for
// devices that do not exist: set Options.GPUs to have them refused.
func (c *Client) SetPinnedMemLimit(ctx context.Context, server int, device string, limit sharing.Bytes) error {
	var l problem.List
	command, setting := pinnedMem.of(&l, server, "set")
	checkMemLimit(&l, "limit", limit, c.deviceMemory(&l, device))
	if err := l.Under(ErrInvalid); err != nil {
		return err
	}
	value, err := FormatMemLimit(limit)
	if err != nil {
		return err
	}
	setting += ", device " + problem.Clip(device)
	return confirm(ctx, c, setting, limit.String(), func() (string, bool, error) {
		got, err := c.pinnedMemLimit(ctx, server, device)
		if v, ok := got.Get(); ok {
			return v.String(), v == limit, err
		}
		return "", false, err
	}, append(command, device, value)...)
}

// deviceMemory checks a device's name and returns its memory, 0 if that is not known.
func (c *Client) deviceMemory(l *problem.List, device string) sharing.Bytes {
	if !checkDevice(l, "device", device) || c.gpus == nil {
		return 0
	}
	g, ok := findGPU(c.gpus, device)
	l.If(!ok, "device", "use one of "+gpuNames(c.gpus), "the daemon serves no device %q", problem.Clip(device))
	return g.Memory
}
