package mps

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/mps/internal/form"
	"github.com/cotenant/cotenant/sharing"
)

// checkPercentage accepts what the daemon accepts: (0, 100] (MPSV2), to four
// decimals.
func checkPercentage(l *problem.List, path string, pct float64) {
	switch {
	case math.IsNaN(pct) || math.IsInf(pct, 0):
		l.Addf(path, "use a number over 0 and up to 100", "%v is no percentage", pct)
	case pct <= 0 || pct > 100:
		l.Addf(path, "use a number over 0 and up to 100", "%v%% is out of range", pct)
	case pct < percentUnit:
		l.Addf(path, "use at least 0.0001", "%v%% is smaller than can be sent", pct)
	}
}

// percentUnit is the last decimal of a percentage that is sent.
const percentUnit = 1e-4

func percentWord(path string, pct float64) (string, error) {
	var l problem.List
	checkPercentage(&l, path, pct)
	return formatPercentage(pct), invalid(&l)
}

func formatPercentage(pct float64) string {
	return strconv.FormatFloat(math.Round(pct*1e4)/1e4, 'f', -1, 64)
}

// checkMemLimit accepts limits that can be sent without rounding. total 0 is
// not known.
func checkMemLimit(path string, limit, total sharing.Bytes) error {
	var l problem.List
	addMemLimit(&l, path, limit, total)
	return invalid(&l)
}

func addMemLimit(l *problem.List, path string, limit, total sharing.Bytes) {
	switch {
	case limit <= 0:
		l.Addf(path, "leave the limit out to have none", "%d bytes is no limit", int64(limit))
	case limit%sharing.MiB != 0:
		l.Addf(path, fmt.Sprintf("use %dMiB", limit.MiB()), "%v is not whole in MiB, the daemon's smallest unit", limit)
	case total > 0 && limit > total:
		l.Addf(path, "use at most the GPU's memory", "%v is larger than the GPU's %v", limit, total)
	}
}

// deviceWord checks a device named by ordinal ("0") or UUID ("GPU-...").
func (c *Client) deviceWord(l *problem.List, path, device string) (total sharing.Bytes) {
	if !form.IsOrdinal(device) && !form.IsUUID(device) {
		l.Addf(path, `name it by ordinal, "0", or by UUID, "GPU-..."`, "%q is no device", clip(device))
		return 0
	}
	if c.gpus == nil {
		return 0
	}
	g, ok := findGPU(c.gpus, device)
	if !ok {
		l.Addf(path, "use one of "+gpuNames(c.gpus), "the daemon serves no device %q", clip(device))
	}
	return g.Memory
}

// findGPU finds a device by ordinal, UUID or unambiguous beginning of a UUID.
func findGPU(gpus []GPU, device string) (GPU, bool) {
	var found GPU
	n := 0
	for _, g := range gpus {
		if strconv.Itoa(g.Ordinal) == device || g.UUID == device {
			return g, true
		}
		if form.IsUUID(device) && strings.HasPrefix(g.UUID, device) {
			found = g
			n++
		}
	}
	return found, n == 1
}

func gpuNames(gpus []GPU) string {
	var names []string
	for _, g := range gpus {
		n := strconv.Itoa(g.Ordinal)
		if g.UUID != "" {
			n += " (" + g.UUID + ")"
		}
		names = append(names, n)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// DefaultActiveThreadPercentage returns the percentage that the next server
// starts with, to one decimal, as the daemon prints it.
func (c *Client) DefaultActiveThreadPercentage(ctx context.Context) (float64, error) {
	return read(ctx, c, parsePercentage, "get_default_active_thread_percentage")
}

// SetDefaultActiveThreadPercentage sets the percentage of the next server;
// servers that run keep theirs, and it is lost when the daemon ends (MPSV2). The
// value is read back: *MismatchError if another one is in force.
func (c *Client) SetDefaultActiveThreadPercentage(ctx context.Context, pct float64) error {
	w, err := percentWord("percentage", pct)
	if err != nil {
		return err
	}
	return c.setPercentage(ctx, pct, "default active thread percentage", c.DefaultActiveThreadPercentage,
		"set_default_active_thread_percentage", w)
}

// ActiveThreadPercentage returns the percentage of a server's clients to come,
// to one decimal.
func (c *Client) ActiveThreadPercentage(ctx context.Context, server int) (float64, error) {
	w, err := pidWord("server", server)
	if err != nil {
		return 0, err
	}
	return read(ctx, c, parsePercentage, "get_active_thread_percentage", w)
}

// SetActiveThreadPercentage sets the percentage of a server's new clients;
// those connected keep theirs (MPSV2). It reads the value back.
func (c *Client) SetActiveThreadPercentage(ctx context.Context, server int, pct float64) error {
	w, err := percentWord("percentage", pct)
	if err != nil {
		return err
	}
	s, err := pidWord("server", server)
	if err != nil {
		return err
	}
	get := func(ctx context.Context) (float64, error) { return c.ActiveThreadPercentage(ctx, server) }
	return c.setPercentage(ctx, pct, "active thread percentage of server "+s, get, "set_active_thread_percentage", s, w)
}

func (c *Client) setPercentage(ctx context.Context, pct float64, name string, get func(context.Context) (float64, error), words ...string) error {
	// The answer is the value in force after the command, also when the
	// command was refused (H200); some releases answer nothing.
	if _, err := c.do(ctx, words...); err != nil {
		return err
	}
	got, err := get(ctx)
	if err != nil {
		return err
	}
	if math.Abs(got-pct) > 0.05+percentUnit { // the daemon prints one decimal
		return c.opError(strings.Join(words, " "), &MismatchError{Setting: name, Want: formatPercentage(pct) + "%", Got: formatPercentage(got) + "%"})
	}
	return nil
}

// parseOptionalLimit reads the answer to a query for a limit; no limit is
// unknown, not 0.
func parseOptionalLimit(text string) (sharing.Cell[sharing.Bytes], error) {
	var none sharing.Cell[sharing.Bytes]
	text = strings.TrimSpace(text)
	if text == "" || strings.HasPrefix(text, "No default pinned memory limit") || strings.HasPrefix(text, "No pinned memory limit") {
		return none, nil
	}
	v, err := ParseMemLimit(text)
	if err != nil {
		return none, err
	}
	return sharing.KnownCell(v, SourceDaemon), nil
}

// SourceDaemon is the source of values that the running daemon itself gave. It
// is no entry of the tables of package sharing.
const SourceDaemon sharing.SourceID = "daemon"

// DefaultPinnedMemLimit returns the limit on device memory that clients of the
// next server get on a device, named by ordinal or UUID exactly as it was set:
// the daemon does not translate (MPSV2). The cell is unknown if there is none.
func (c *Client) DefaultPinnedMemLimit(ctx context.Context, device string) (sharing.Cell[sharing.Bytes], error) {
	var l problem.List
	c.deviceWord(&l, "device", device)
	if err := invalid(&l); err != nil {
		return sharing.Cell[sharing.Bytes]{}, err
	}
	return read(ctx, c, parseOptionalLimit, "get_default_device_pinned_mem_limit", device)
}

// SetDefaultPinnedMemLimit limits the device memory of each client process of
// the next server; servers that run keep theirs. The limit is per process, not
// per container. It must be whole in MiB. It is read back. The daemon takes
// limits for devices that do not exist (MPSV2): give Options.GPUs to have them
// refused.
func (c *Client) SetDefaultPinnedMemLimit(ctx context.Context, device string, limit sharing.Bytes) error {
	get := func(ctx context.Context) (sharing.Cell[sharing.Bytes], error) {
		return c.DefaultPinnedMemLimit(ctx, device)
	}
	return c.setLimit(ctx, device, limit, "default pinned memory limit of device "+clip(device), get, "set_default_device_pinned_mem_limit")
}

// PinnedMemLimit returns the limit for new clients of a server on a device.
func (c *Client) PinnedMemLimit(ctx context.Context, server int, device string) (sharing.Cell[sharing.Bytes], error) {
	var l problem.List
	checkPID(&l, "server", server)
	c.deviceWord(&l, "device", device)
	if err := invalid(&l); err != nil {
		return sharing.Cell[sharing.Bytes]{}, err
	}
	return read(ctx, c, parseOptionalLimit, "get_device_pinned_mem_limit", strconv.Itoa(server), device)
}

// SetPinnedMemLimit limits new clients of a server on a device; those
// connected keep theirs, and the limit may exceed the default (MPSV2). It reads
// the value back.
func (c *Client) SetPinnedMemLimit(ctx context.Context, server int, device string, limit sharing.Bytes) error {
	s, err := pidWord("server", server)
	if err != nil {
		return err
	}
	get := func(ctx context.Context) (sharing.Cell[sharing.Bytes], error) {
		return c.PinnedMemLimit(ctx, server, device)
	}
	return c.setLimit(ctx, device, limit, fmt.Sprintf("pinned memory limit of server %s, device %s", s, clip(device)), get, "set_device_pinned_mem_limit", s)
}

func (c *Client) setLimit(ctx context.Context, device string, limit sharing.Bytes, name string,
	get func(context.Context) (sharing.Cell[sharing.Bytes], error), words ...string) error {
	var l problem.List
	total := c.deviceWord(&l, "device", device)
	addMemLimit(&l, "limit", limit, total)
	if err := invalid(&l); err != nil {
		return err
	}
	value, err := FormatMemLimit(limit)
	if err != nil {
		return err
	}
	words = append(words, device, value)
	if _, err := c.do(ctx, words...); err != nil {
		return err
	}
	got, err := get(ctx)
	if err != nil {
		return err
	}
	if v, ok := got.Get(); !ok || v != limit {
		m := &MismatchError{Setting: name, Want: limit.String()}
		if ok {
			m.Got = v.String()
		}
		return c.opError(strings.Join(words, " "), m)
	}
	return nil
}

func parsePriority(text string) (Priority, error) {
	switch strings.TrimSpace(text) {
	case "0":
		return PriorityNormal, nil
	case "1":
		return PriorityBelowNormal, nil
	}
	return PriorityUnset, &ParseError{What: "client priority", Text: clip(text)}
}

// DefaultClientPriority returns the priority of clients to come.
func (c *Client) DefaultClientPriority(ctx context.Context) (Priority, error) {
	return read(ctx, c, parsePriority, "get_default_client_priority")
}

// SetDefaultClientPriority sets the priority of clients to come, a hint only.
// It reads the value back.
func (c *Client) SetDefaultClientPriority(ctx context.Context, p Priority) error {
	if p != PriorityNormal && p != PriorityBelowNormal {
		return fmt.Errorf("%w: priority: %v cannot be set; use normal or below-normal", ErrInvalid, p)
	}
	if _, err := c.do(ctx, "set_default_client_priority", p.wire()); err != nil {
		return err
	}
	got, err := c.DefaultClientPriority(ctx)
	if err != nil {
		return err
	}
	if got != p {
		return c.opError("set_default_client_priority", &MismatchError{Setting: "default client priority", Want: p.String(), Got: got.String()})
	}
	return nil
}
