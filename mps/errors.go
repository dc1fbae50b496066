// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/cotenant/cotenant/internal/problem"
)

// Errors of this package wrap one of these, so that errors.Is distinguishes them.
var (
	// refused before anything was sent
	ErrInvalid = errors.New("mps: invalid request")
	// this platform has no control program
	errPlatform     = errors.New("mps: MPS runs on Linux and QNX only")
	ErrNotInstalled = errors.New("mps: the control program was not found") // no nvidia-cuda-mps-control
	// nothing listens in the pipe directory
	ErrNoDaemon      = errors.New("mps: no control daemon answers")
	ErrDaemonRunning = errors.New("mps: a control daemon already answers there") // Start found one
	// Start: another user could have put it there, or can write to it
	errUnsafe = errors.New("mps: the directory is not safe to use")
	// also context.DeadlineExceeded
	ErrTimeout = errors.New("mps: the control daemon did not answer in time")
	// non-zero exit for another reason
	ErrCrashed        = errors.New("mps: the control program failed")
	errGarbled        = errors.New("mps: the answer cannot be understood")
	errOutputTooLarge = errors.New("mps: the answer is larger than the allowed size") // of 1 MiB
	ErrRejected       = errors.New("mps: the control daemon refused")
	// older driver, or the other protocol
	errUnknownCommand = errors.New("mps: the daemon does not know the command")
	// no server has the process ID or name
	errServerNotFound = errors.New("mps: no such server")
	ErrClientNotFound = errors.New("mps: no such client") // no client, or no process
	// another user owns the daemon
	ErrPermission = errors.New("mps: not permitted")
	// of that user (v2) or name (v3)
	errMismatch = errors.New("mps: another value is in force than was set")
	// Membership.Require
	ErrNotClient = errors.New("mps: the process is not an MPS client")
)

// failure is an error with its own words, in which errors.Is finds another.
type failure struct {
	text string
	is   []error
}

func (e *failure) Error() string   { return "mps: " + e.text }
func (e *failure) Unwrap() []error { return e.is }

// garbled is an answer that is not of the expected form; line 0 concerns the whole answer.
func garbled(what string, line int, text string) error {
	at := ""
	if line > 0 {
		at = fmt.Sprintf("line %d: ", line)
	}
	return &failure{fmt.Sprintf("not a %s: %s%q", what, at, problem.Clip(text)), []error{errGarbled}}
}

// refused is a refusal by the control daemon: its program exits 0 all the same. reason is nil where it is not
// recognised.
func refused(text string, reason error) error {
	e := &failure{fmt.Sprintf("the daemon refused: %q", text), []error{ErrRejected}}
	if reason != nil {
		e.is = append(e.is, reason)
	}
	return e
}

// rejections maps the beginnings (or, after a "*", any part of a line that begins with a letter, which rows of lists do
// not) of the daemon's refusals to reasons. The texts are those of the program of driver 595; those that driver 580
// knows were seen on an H200.
var rejections = []struct {
	text   string
	reason error
}{
	{"Unknown command", errUnknownCommand},
	{"Cannot find MPS control daemon process", ErrNoDaemon},
	{"Cannot send command to MPS control daemon process", ErrNoDaemon}, // one that was ending, seen on an H100
	{"An instance of this daemon is already running", ErrDaemonRunning},
	{"Insufficient privileges", ErrPermission},
	{"Not enough privilege", ErrPermission},
	{"A server PID is required", nil},
	{"Invalid process", ErrClientNotFound},
	{"Invalid start_server cmd", nil},
	{"Invalid UID", nil},
	{"UID out of range", nil},
	{"Invalid percentage", nil},
	{"Invalid command format", nil},
	{"Invalid device identifier format", nil},
	{"Invalid priority value", nil},
	{"Invalid number of chunks", nil},
	{"Static partitioning mode is not enabled", nil},
	{"Failed to create the requested SM partition", nil},
	{"Failed to query devices", nil},
	{"*already exists", nil},
	{"*active worker threads. Server will not shutdown", nil},
	{"*in use. Terminate all clients before removing", nil},
	{"Server not found", errServerNotFound},
}

// rejection recognises a refusal in an answer. A refusal is the answer's first
// line: further down, tenants choose words, such as the names of their programs.
func rejection(text string) error {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = strings.TrimSpace(line)
	isRow := line == "" || !unicode.IsLetter(rune(line[0]))
	for _, r := range rejections {
		part, anywhere := strings.CutPrefix(r.text, "*")
		if anywhere && !isRow && strings.Contains(line, part) || !anywhere && strings.HasPrefix(line, part) {
			return refused(problem.Clip(line), r.reason)
		}
	}
	if rest, ok := strings.CutPrefix(line, "Server "); ok && strings.HasSuffix(strings.TrimSuffix(rest, "!"),
		" not found") {
		id, _, _ := strings.Cut(rest, " ")
		if _, err := strconv.ParseUint(id, 10, 64); err == nil {
			return refused(problem.Clip(line), errServerNotFound)
		}
	}
	return nil
}
