package mps

import "github.com/cotenant/cotenant/internal/enum"

// Protocol is the language of a control daemon. The zero value is ProtocolUnknown.
type Protocol uint8

// The protocols.
const (
	ProtocolUnknown Protocol = iota
	ProtocolV2               // commands on standard input, servers named by process ID; the default of every driver
	ProtocolV3               // module and verb as arguments, named servers and namespaces; driver 615 and later
)

var protocolNames = enum.Of[Protocol](ErrInvalid, "protocol", "unknown", "v2", "v3")
