package mps

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/cotenant/cotenant/mps/internal/form"
	"github.com/cotenant/cotenant/sharing"
)

// Feature answers whether something is supported, and how that is known.
type Feature struct {
	Answer sharing.Answer
	Reason string
}

// Support is what a daemon and its program can do, as far as asking them
// tells. Features without a safe question are answered from the program's
// help; what neither tells is unknown.
type Support struct {
	Installed sharing.Answer // the control program runs here
	Running   sharing.Answer // a daemon answers in the pipe directory
	// Protocol is the running daemon's; ProtocolUnknown if none answers.
	Protocol Protocol
	// Commands are those that the program's help lists; nil if it could not be
	// read.
	Commands []string

	ProtocolV3       Feature // the program can speak v3
	ClientPriority   Feature
	Processes        Feature // ps
	DeviceQuery      Feature
	TerminateClient  Feature
	StaticPartitions Feature // sm_partition and lspart
	// PartitioningOn answers whether the running daemon was started with
	// static partitioning; its clients then need a partition, and percentages
	// are ignored (MT).
	PartitioningOn Feature
}

// Probe asks the program and the daemon what they support, with questions
// that change nothing. A missing program or daemon is an answer, no error.
// Conclusive answers hold until driver or daemon change.
func (c *Client) Probe(ctx context.Context) (Support, error) {
	var s Support
	if err := c.probeProgram(ctx, &s); err != nil {
		return s, err
	}
	if s.Installed == sharing.AnswerNo {
		s.Running = sharing.AnswerNo
		return s, nil
	}
	err := c.probeDaemon(ctx, &s)
	return s, err
}

var helpCommand = regexp.MustCompile(`^  ([a-z][a-z_-]+)(?: |$)`)

// probeProgram reads the program's help, which needs no daemon.
func (c *Client) probeProgram(ctx context.Context, s *Support) error {
	out, err := c.run(ctx, c.timeout, Invocation{Args: []string{"-h"}})
	switch {
	case errors.Is(err, ErrNotInstalled), errors.Is(err, ErrPlatform):
		s.Installed = sharing.AnswerNo
		return nil
	case errors.Is(err, ErrCrashed), errors.Is(err, ErrGarbled), errors.Is(err, ErrRejected):
		return nil // it is there, but its help says nothing to us
	case err != nil:
		return err
	}
	s.Installed = sharing.AnswerYes
	help := out.Stdout + out.Stderr
	for _, line := range form.Lines(help) {
		if m := helpCommand.FindStringSubmatch(line); m != nil {
			s.Commands = append(s.Commands, m[1])
		}
	}
	if len(s.Commands) == 0 {
		return nil
	}
	has := func(name string) Feature { return fromHelp(strings.Contains(help, "\n  "+name), name) }
	s.ProtocolV3 = fromHelp(strings.Contains(help, "--protocol"), "--protocol")
	s.ClientPriority, s.Processes, s.DeviceQuery = has("set_default_client_priority"), has("ps"), has("device_query")
	s.TerminateClient, s.StaticPartitions = has("terminate_client"), has("sm_partition")
	return nil
}

func fromHelp(listed bool, name string) Feature {
	if listed {
		return Feature{sharing.AnswerYes, "the program's help lists " + name}
	}
	// A help may leave commands out, so absence is no proof.
	return Feature{sharing.AnswerUnknown, "the program's help does not list " + name}
}

// probeDaemon asks the running daemon; its answers outrank the help's.
func (c *Client) probeDaemon(ctx context.Context, s *Support) error {
	_, err := c.DefaultActiveThreadPercentage(ctx)
	switch {
	case err == nil:
		s.Protocol, s.Running = ProtocolV2, sharing.AnswerYes
	case errors.Is(err, ErrNoDaemon):
		s.Running = sharing.AnswerNo
		return nil
	case errors.Is(err, ErrTimeout):
		return nil
	case errors.Is(err, ErrRejected), errors.Is(err, ErrGarbled), errors.Is(err, ErrCrashed):
		return c.probeV3(ctx, s)
	default:
		return err
	}
	ask := func(f *Feature, command string) error {
		_, err := c.do(ctx, command)
		switch {
		case err == nil:
			*f = Feature{sharing.AnswerYes, "the daemon answers " + command}
		case errors.Is(err, ErrUnknownCommand):
			*f = Feature{sharing.AnswerNo, "the daemon does not know " + command}
		case errors.Is(err, ErrRejected):
			*f = Feature{sharing.AnswerYes, "the daemon knows " + command + " and refuses it: " + err.Error()}
		case errors.Is(err, ErrTimeout), errors.Is(err, ErrGarbled), errors.Is(err, ErrCrashed):
			*f = Feature{sharing.AnswerUnknown, err.Error()}
		default:
			return err
		}
		return nil
	}
	for _, q := range []struct {
		f       *Feature
		command string
	}{{&s.ClientPriority, "get_default_client_priority"}, {&s.Processes, "ps"}, {&s.DeviceQuery, "device_query"}, {&s.StaticPartitions, "lspart"}} {
		if err := ask(q.f, q.command); err != nil {
			return err
		}
	}
	s.PartitioningOn = s.StaticPartitions
	if s.StaticPartitions.Answer == sharing.AnswerYes {
		_, err := c.do(ctx, "lspart")
		switch {
		case errors.Is(err, ErrPartitioningDisabled):
			s.PartitioningOn = Feature{sharing.AnswerNo, "the daemon was started without it"}
		case err != nil:
			s.PartitioningOn = Feature{sharing.AnswerUnknown, err.Error()}
		}
	}
	return nil
}

// probeV3 asks a daemon that refused the first v2 question.
func (c *Client) probeV3(ctx context.Context, s *Support) error {
	text, err := c.Command(ctx, Invocation{Args: []string{"server", "list", "--format=csv,noheader"}, Env: []string{EnvProtocol + "=3"}})
	for i, line := range form.Lines(text) { // a server is a row of seven fields
		if strings.Count(line, ",") < 6 {
			err = &ParseError{What: "list of v3 servers", Line: i + 1, Text: clip(line)}
		}
	}
	switch {
	case err == nil:
		s.Running, s.Protocol = sharing.AnswerYes, ProtocolV3
		s.ProtocolV3 = Feature{sharing.AnswerYes, "the daemon answers server list"}
		return nil
	case errors.Is(err, ErrRejected), errors.Is(err, ErrGarbled), errors.Is(err, ErrCrashed), errors.Is(err, ErrTimeout):
		s.ProtocolV3 = Feature{sharing.AnswerUnknown, err.Error()}
		return nil
	}
	return err
}
