// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"

	"github.com/cotenant/cotenant/sharing"
)

// Names for the tests in package mps_test.
var (
	ErrGarbled        = errGarbled
	ErrMismatch       = errMismatch
	ErrOutputTooLarge = errOutputTooLarge
	ErrServerNotFound = errServerNotFound
	ErrUnsafe         = errUnsafe
)

func (d *Daemon) PID() int { return d.process.pid }

func (c *Client) Command(ctx context.Context, in Invocation) (string, error) {
	out, err := c.run(ctx, c.timeout, in)
	return out.Stdout, err
}

func (c *Client) Servers(ctx context.Context) ([]int, error) { return c.servers(ctx) }

func (c *Client) ServerStatus(ctx context.Context, server int) (string, error) {
	return c.serverStatus(ctx, server)
}

func (c *Client) ActiveThreadPercentage(ctx context.Context, server int) (float64, error) {
	return c.activeThreadPercentage(ctx, server)
}

func (c *Client) PinnedMemLimit(ctx context.Context, server int, device string) (sharing.Cell[sharing.Bytes], error) {
	return c.pinnedMemLimit(ctx, server, device)
}
