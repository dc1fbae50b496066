package mps

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// SourceDaemon is the source of values that the running daemon itself gave: the page of the program that was asked.
const SourceDaemon sharing.SourceID = "nvidia-mps-man"

// Priority is the scheduling hint of a client. The zero value leaves it unset.
type Priority uint8

// The priorities.
const (
	PriorityUnset       Priority = iota
	PriorityNormal               // 0 on the wire
	PriorityBelowNormal          // 1 on the wire
)

var priorityNames = enum.Of[Priority](ErrInvalid, "priority", "unset", "normal", "below-normal")

// wire is the priority as the daemon writes it: "0" or "1".
func (p Priority) wire() string { return strconv.Itoa(int(p) - 1) }

// confirm sends a setter and compares what is in force afterwards, since the
// daemon answers a refused setting as a good one, or with the value that stays.
func confirm[T any](ctx context.Context, c *Client, setting, want string, get func() (got T, same bool, err error),
	words ...string) error {
	if _, err := c.do(ctx, words...); err != nil {
		return err
	}
	got, same, err := get()
	if err != nil || same {
		return err
	}
	return c.opError(strings.Join(words, " "), &failure{fmt.Sprintf("%s: set %s, but %s is in force", setting, want,
		cmp.Or(fmt.Sprint(got), "nothing")), []error{ErrMismatch}})
}

// DefaultActiveThreadPercentage returns the percentage that the next server
// starts with, to one decimal, as the daemon prints it.
func (c *Client) DefaultActiveThreadPercentage(ctx context.Context) (float64, error) {
	return read(ctx, c, parsePercentage, "get_default_active_thread_percentage")
}

// SetDefaultActiveThreadPercentage sets the percentage of the next server; servers that run keep theirs, and it is
// lost when the daemon ends. The value is read back: ErrMismatch if another one is in force.
func (c *Client) SetDefaultActiveThreadPercentage(ctx context.Context, pct float64) error {
	return c.setPercentage(ctx, pct, "default active thread percentage", c.DefaultActiveThreadPercentage,
		"set_default_active_thread_percentage")
}

// ActiveThreadPercentage returns the percentage of a server's clients to come, to one decimal.
func (c *Client) ActiveThreadPercentage(ctx context.Context, server int) (float64, error) {
	return ask(ctx, c, parsePercentage, "get_active_thread_percentage", server)
}

// SetActiveThreadPercentage sets the percentage of a server's new clients;
// those connected keep theirs. It reads the value back.
func (c *Client) SetActiveThreadPercentage(ctx context.Context, server int, pct float64) error {
	s, err := pidWord("server", server)
	if err != nil {
		return err
	}
	get := func(ctx context.Context) (float64, error) { return c.ActiveThreadPercentage(ctx, server) }
	return c.setPercentage(ctx, pct, "active thread percentage of server "+s, get, "set_active_thread_percentage", s)
}

func (c *Client) setPercentage(ctx context.Context, pct float64, setting string, get func(context.Context) (float64,
	error), words ...string) error {
	var l problem.List
	if checkPercentage(&l, "percentage", pct); l.Len() > 0 {
		return invalid(&l)
	}
	want := formatPercentage(pct)
	return confirm(ctx, c, setting, want+"%", func() (string, bool, error) {
		got, err := get(ctx)
		return formatPercentage(got) + "%", math.Abs(got-pct) <= 0.05+percentUnit, err // the daemon prints one decimal
	}, append(words, want)...)
}

// DefaultPinnedMemLimit returns the limit on device memory that clients of the next server get on a device, named
// by ordinal or UUID exactly as it was set: the daemon does not translate. The cell is unknown if there is none.
func (c *Client) DefaultPinnedMemLimit(ctx context.Context, device string) (sharing.Cell[sharing.Bytes], error) {
	var l problem.List
	c.deviceMemory(&l, device)
	if err := invalid(&l); err != nil {
		return sharing.Cell[sharing.Bytes]{}, err
	}
	return read(ctx, c, parseOptionalLimit, "get_default_device_pinned_mem_limit", device)
}

// SetDefaultPinnedMemLimit limits the device memory of each client process of the next server; servers that run
// keep theirs. The limit is per process, not per container. It must be whole in MiB. It is read back. The daemon
// takes limits for devices that do not exist: give Options.GPUs to have them refused.
func (c *Client) SetDefaultPinnedMemLimit(ctx context.Context, device string, limit sharing.Bytes) error {
	get := func() (sharing.Cell[sharing.Bytes], error) { return c.DefaultPinnedMemLimit(ctx, device) }
	return c.setLimit(ctx, device, limit, "default pinned memory limit of device "+problem.Clip(device), get,
		"set_default_device_pinned_mem_limit")
}

// PinnedMemLimit returns the limit for new clients of a server on a device.
func (c *Client) PinnedMemLimit(ctx context.Context, server int, device string) (sharing.Cell[sharing.Bytes], error) {
	var l problem.List
	checkPID(&l, "server", server)
	c.deviceMemory(&l, device)
	if err := invalid(&l); err != nil {
		return sharing.Cell[sharing.Bytes]{}, err
	}
	return ask(ctx, c, parseOptionalLimit, "get_device_pinned_mem_limit", server, device)
}

// SetPinnedMemLimit limits new clients of a server on a device; those connected keep theirs, and the limit may
// exceed the default. It reads the value back.
func (c *Client) SetPinnedMemLimit(ctx context.Context, server int, device string, limit sharing.Bytes) error {
	s, err := pidWord("server", server)
	if err != nil {
		return err
	}
	get := func() (sharing.Cell[sharing.Bytes], error) { return c.PinnedMemLimit(ctx, server, device) }
	return c.setLimit(ctx, device, limit, fmt.Sprintf("pinned memory limit of server %s, device %s", s,
		problem.Clip(device)), get, "set_device_pinned_mem_limit", s)
}

func (c *Client) setLimit(ctx context.Context, device string, limit sharing.Bytes, setting string,
	get func() (sharing.Cell[sharing.Bytes], error), words ...string) error {
	var l problem.List
	checkMemLimit(&l, "limit", limit, c.deviceMemory(&l, device))
	if err := invalid(&l); err != nil {
		return err
	}
	value, err := FormatMemLimit(limit)
	if err != nil {
		return err
	}
	return confirm(ctx, c, setting, limit.String(), func() (string, bool, error) {
		got, err := get()
		if v, ok := got.Get(); ok {
			return v.String(), v == limit, err
		}
		return "", false, err
	}, append(words, device, value)...)
}

// deviceMemory checks a device's name and returns its memory, 0 if that is not known.
func (c *Client) deviceMemory(l *problem.List, device string) sharing.Bytes {
	if !checkDevice(l, "device", device) || c.gpus == nil {
		return 0
	}
	g, ok := findGPU(c.gpus, device)
	if !ok {
		l.Addf("device", "use one of "+gpuNames(c.gpus), "the daemon serves no device %q", problem.Clip(device))
	}
	return g.Memory
}

// DefaultClientPriority returns the priority of clients to come.
func (c *Client) DefaultClientPriority(ctx context.Context) (Priority, error) {
	return read(ctx, c, parsePriority, "get_default_client_priority")
}

// SetDefaultClientPriority sets the priority of clients to come, a hint only. It reads the value back.
func (c *Client) SetDefaultClientPriority(ctx context.Context, p Priority) error {
	if p != PriorityNormal && p != PriorityBelowNormal {
		return fmt.Errorf("%w: priority: %v cannot be set; use normal or below-normal", ErrInvalid, p)
	}
	return confirm(ctx, c, "default client priority", p.String(), func() (Priority, bool, error) {
		got, err := c.DefaultClientPriority(ctx)
		return got, got == p, err
	}, "set_default_client_priority", p.wire())
}
