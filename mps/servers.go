// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ask sends a command about a server; the server's process ID follows the command's name.
func ask[T any](ctx context.Context, c *Client, parse func(string) (T, error), command string, server int) (T, error) {
	w, err := pidWord("server", server)
	if err != nil {
		var zero T
		return zero, err
	}
	return read(ctx, c, parse, command, w)
}

// servers lists the process IDs of the daemon's servers, possibly none.
func (c *Client) servers(ctx context.Context) ([]int, error) {
	return read(ctx, c, parsePIDs, "get_server_list")
}

// serverStatus returns a server's state. An unknown process ID is errServerNotFound.
func (c *Client) serverStatus(ctx context.Context, server int) (string, error) {
	return ask(ctx, c, parseState, "get_server_status", server)
}

// clients lists the process IDs of a server's clients. A terminated client
// stays in the list until its process ends, as seen on an H200.
func (c *Client) clients(ctx context.Context, server int) ([]int, error) {
	return ask(ctx, c, parsePIDs, "get_client_list", server)
}

// Devices lists the devices as future servers enumerate them, by ordinal and UUID.
func (c *Client) Devices(ctx context.Context) ([]GPU, error) {
	return read(ctx, c, parseDeviceQuery, "device_query")
}

// Quit makes the daemon end with its servers. Clients still connected after grace lose their work; grace 0 waits for
// them until ctx ends. Grace is sent in whole seconds, rounded up. graceful is false when the daemon reported that a
// server did not end by itself.
func (c *Client) Quit(ctx context.Context, grace time.Duration) (graceful bool, err error) {
	if grace < 0 || grace > 24*time.Hour {
		return false, fmt.Errorf("%w: grace: %v is not between 0 and 24h", ErrInvalid, grace)
	}
	words, timeout := []string{"quit"}, 24*time.Hour
	if grace > 0 {
		secs := int((grace + time.Second - 1) / time.Second)
		words = append(words, "-t", strconv.Itoa(secs))
		timeout = time.Duration(secs)*time.Second + c.timeout
	}
	_, err = c.do(ctx, timeout, words...)
	if errors.Is(err, ErrCrashed) && !errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}
