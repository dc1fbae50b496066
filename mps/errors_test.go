// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"errors"
	"testing"
)

// TestRejections reads the refusals that the program of driver 595 contains, with the values that it puts in.
func TestRejections(t *testing.T) {
	for text, reason := range map[string]error{
		"Unknown command \"x\"\n": errUnknownCommand,
		"Insufficient privileges for UID 1000. Control deamon settings\n": ErrPermission,
		"Not enough privilege to execute quit command\n":                  ErrPermission,
		"A server PID is required":                                        ErrRejected,
		"Server not found":                                                errServerNotFound,
		"Server 1 not found\n":                                            errServerNotFound,
		"Server 1 not found!\n":                                           errServerNotFound,
		"Invalid process 7!":                                              ErrClientNotFound,
		"Invalid UID":                                                     ErrRejected,
		"Invalid start_server cmd. Expected cmd: start_server -uid <user id> [-mlopart]": ErrRejected,
		"UID out of range":                                                  ErrRejected,
		"Server with UID 1000 already exists":                               ErrRejected,
		"Invalid device identifier format: x":                               ErrRejected,
		"Invalid percentage, expected between (0.0, 100.0]":                 ErrRejected,
		"Server 673 has 2 active worker threads. Server will not shutdown.": ErrRejected,
		"Partition GPU-1/a in use. Terminate all clients before removing.":  ErrRejected,
		"Static partitioning mode is not enabled":                           ErrRejected,
		"Failed to create the requested SM partition of 9 chunks, error 1":  ErrRejected,
		"Failed to query devices":                                           ErrRejected,
		"Invalid priority value - must be 0 or 1!":                          ErrRejected,
		"Invalid number of chunks":                                          ErrRejected,
		"Cannot find MPS control daemon process\n":                          ErrNoDaemon,
		"Cannot send command to MPS control daemon process\n":               ErrNoDaemon,
	} {
		err := outcome(Output{Stdout: text})
		if !errors.Is(err, ErrRejected) || !errors.Is(err, reason) {
			t.Errorf("%q: %v, want %v", text, err, reason)
		}
	}
	for _, text := range []string{"", "100.0\n", "673\n711\n", "Server 673\nDevice Ordinal\n", "Partition GPU-1/a created", "Server not"} {
		if err := outcome(Output{Stdout: text}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := outcome(Output{ExitCode: 3, Stderr: "boom"}); !errors.Is(err, ErrCrashed) {
		t.Error(err)
	}
}
