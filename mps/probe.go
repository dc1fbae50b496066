package mps

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/sharing"
)

// Protocol is the language of a control daemon. The zero value is ProtocolUnknown.
type Protocol uint8

// The protocols.
const (
	ProtocolUnknown Protocol = iota
	ProtocolV2               // commands on standard input, servers named by process ID; the default of every driver
	ProtocolV3               // module and verb as arguments, named servers and namespaces; driver 615 and later
)

var protocolNames = enum.Of[Protocol](ErrInvalid, "protocol", "unknown", "v2", "v3")

// Feature answers whether something is supported, and how that is known.
type Feature struct {
	Answer sharing.Answer
	Reason string
}

// Support holds the abilities of a daemon and its program, as far as asking them tells. Features without a safe
// question are answered from the program's help; what neither tells is unknown.
type Support struct {
	Installed sharing.Answer // the control program runs here
	Running   sharing.Answer // a daemon answers in the pipe directory
	Protocol  Protocol       // the running daemon's; ProtocolUnknown if none answers
	// Commands are those that the program's help lists; nil if it could not be read.
	Commands []string

	ProtocolV3      Feature // the program can speak v3
	ClientPriority  Feature
	Processes       Feature // ps
	DeviceQuery     Feature
	TerminateClient Feature
}

// Probe asks the program and the daemon what they support, with questions that change nothing. A missing program or
// daemon is an answer, no error. Conclusive answers hold until driver or daemon change.
func (c *Client) Probe(ctx context.Context) (Support, error) {
	var s Support
	err := c.probeProgram(ctx, &s)
	switch {
	case err != nil:
	case s.Installed == sharing.AnswerNo:
		s.Running = sharing.AnswerNo
	default:
		err = c.probeDaemon(ctx, &s)
	}
	return s, err
}

// unclear answers whether an error is an answer that tells nothing.
func unclear(err error) bool {
	return errors.Is(err, ErrRejected) || errors.Is(err, ErrGarbled) || errors.Is(err, ErrCrashed) ||
		errors.Is(err, ErrTimeout)
}

var helpCommand = regexp.MustCompile(`(?m)^  ([a-z][a-z_-]+)(?: |$)`)

// probeProgram reads the program's help, which needs no daemon.
func (c *Client) probeProgram(ctx context.Context, s *Support) error {
	out, err := c.run(ctx, c.timeout, Invocation{Args: []string{"-h"}})
	switch {
	case errors.Is(err, ErrNotInstalled), errors.Is(err, ErrPlatform):
		s.Installed = sharing.AnswerNo
		return nil
	case err != nil && unclear(err) && !errors.Is(err, ErrTimeout):
		return nil // it is there, but its help says nothing to us
	case err != nil:
		return err
	}
	s.Installed = sharing.AnswerYes
	help := out.Stdout + out.Stderr
	for _, m := range helpCommand.FindAllStringSubmatch(help, -1) {
		s.Commands = append(s.Commands, m[1])
	}
	if len(s.Commands) == 0 {
		return nil
	}
	for name, f := range map[string]*Feature{"--protocol": &s.ProtocolV3,
		"\n  set_default_client_priority": &s.ClientPriority, "\n  ps": &s.Processes,
		"\n  device_query": &s.DeviceQuery, "\n  terminate_client": &s.TerminateClient} {
		// A help may leave commands out, so absence is no proof.
		*f = Feature{sharing.AnswerUnknown, "the program's help does not list " + strings.TrimSpace(name)}
		if strings.Contains(help, name) {
			*f = Feature{sharing.AnswerYes, "the program's help lists " + strings.TrimSpace(name)}
		}
	}
	return nil
}

// probeDaemon asks the running daemon; its answers outrank the help's.
func (c *Client) probeDaemon(ctx context.Context, s *Support) error {
	_, err := c.ActiveThreadPercentage(ctx, 0)
	switch {
	case err == nil:
		s.Protocol, s.Running = ProtocolV2, sharing.AnswerYes
	case errors.Is(err, ErrNoDaemon):
		s.Running = sharing.AnswerNo
		return nil
	case errors.Is(err, ErrTimeout):
		return nil
	case unclear(err):
		return c.probeV3(ctx, s)
	default:
		return err
	}
	for _, q := range []struct {
		f       *Feature
		command string
	}{{&s.ClientPriority, "get_default_client_priority"}, {&s.Processes, "ps"}, {&s.DeviceQuery, "device_query"}} {
		_, err := c.do(ctx, q.command)
		switch {
		case err == nil:
			*q.f = Feature{sharing.AnswerYes, "the daemon answers " + q.command}
		case errors.Is(err, ErrUnknownCommand):
			*q.f = Feature{sharing.AnswerNo, "the daemon does not know " + q.command}
		case errors.Is(err, ErrRejected):
			*q.f = Feature{sharing.AnswerYes, "the daemon knows " + q.command + " and refuses it: " + err.Error()}
		case unclear(err):
			*q.f = Feature{sharing.AnswerUnknown, err.Error()}
		default:
			return err
		}
	}
	return nil
}

// probeV3 asks a daemon that refused the first v2 question.
func (c *Client) probeV3(ctx context.Context, s *Support) error {
	text, err := c.Command(ctx, Invocation{Args: []string{"server", "list", "--format=csv,noheader"},
		Env: []string{EnvProtocol + "=3"}})
	for i, line := range lines(text) { // a server is a row of seven fields
		if strings.Count(line, ",") < 6 {
			err = garbled("list of v3 servers", i+1, line)
		}
	}
	switch {
	case err == nil:
		s.Running, s.Protocol = sharing.AnswerYes, ProtocolV3
		s.ProtocolV3 = Feature{sharing.AnswerYes, "the daemon answers server list"}
	case unclear(err):
		s.ProtocolV3, err = Feature{sharing.AnswerUnknown, err.Error()}, nil
	}
	return err
}
