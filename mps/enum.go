package mps

import (
	"fmt"
	"slices"
	"strings"
)

func enumString(names []string, i int, typ string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("%s(%d)", typ, i)
	}
	return names[i]
}

func enumText(names []string, i int, what string) ([]byte, error) {
	if i < 0 || i >= len(names) {
		return nil, fmt.Errorf("mps: %d is no %s", i, what)
	}
	return []byte(names[i]), nil
}

func enumParse(names []string, text []byte, what string) (int, error) {
	if i := slices.Index(names, string(text)); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%w: unknown %s %q; known: %s", ErrInvalid, what, clip(string(text)), strings.Join(names, ", "))
}

// Protocol is the language of a control daemon. The zero value is
// ProtocolUnknown.
type Protocol uint8

// The protocols.
const (
	ProtocolUnknown Protocol = iota
	ProtocolV2               // commands on standard input, servers named by process ID; the default of every driver
	ProtocolV3               // module and verb as arguments, named servers and namespaces; driver 615 and later (MPSV3)
)

var protocolNames = []string{"unknown", "v2", "v3"}

// String returns "unknown", "v2" or "v3".
func (p Protocol) String() string { return enumString(protocolNames, int(p), "Protocol") }

// MarshalText returns the protocol's text.
func (p Protocol) MarshalText() ([]byte, error) { return enumText(protocolNames, int(p), "protocol") }

// UnmarshalText reads what String writes.
func (p *Protocol) UnmarshalText(b []byte) error {
	i, err := enumParse(protocolNames, b, "protocol")
	if err == nil {
		*p = Protocol(i)
	}
	return err
}

// ServerState is the state of an MPS server. The zero value is StateUnknown.
type ServerState uint8

// The states, with the daemon's own texts.
const (
	StateUnknown      ServerState = iota
	StateInitializing             // it does not take clients yet
	StateActive                   // it takes clients
	StateFault                    // after a fatal GPU fault: it takes no client until every affected one has exited
)

var stateNames = []string{"UNKNOWN", "INITIALIZING", "ACTIVE", "FAULT"}

// String returns the daemon's text, for example "ACTIVE".
func (s ServerState) String() string { return enumString(stateNames, int(s), "ServerState") }

// MarshalText returns the state's text.
func (s ServerState) MarshalText() ([]byte, error) {
	return enumText(stateNames, int(s), "server state")
}

// UnmarshalText reads what String writes.
func (s *ServerState) UnmarshalText(b []byte) error {
	i, err := enumParse(stateNames, b, "server state")
	if err == nil {
		*s = ServerState(i)
	}
	return err
}

// Priority is the scheduling hint of a client. The zero value leaves it
// unset.
type Priority uint8

// The priorities (a hint only; MPSV2).
const (
	PriorityUnset       Priority = iota
	PriorityNormal               // 0 on the wire
	PriorityBelowNormal          // 1 on the wire
)

var priorityNames = []string{"unset", "normal", "below-normal"}

// String returns "unset", "normal" or "below-normal".
func (p Priority) String() string { return enumString(priorityNames, int(p), "Priority") }

// MarshalText returns the priority's text.
func (p Priority) MarshalText() ([]byte, error) { return enumText(priorityNames, int(p), "priority") }

// UnmarshalText reads what String writes.
func (p *Priority) UnmarshalText(b []byte) error {
	i, err := enumParse(priorityNames, b, "priority")
	if err == nil {
		*p = Priority(i)
	}
	return err
}

// wire is the priority as the daemon writes it: "0" or "1".
func (p Priority) wire() string { return string('0' + rune(p) - 1) }
