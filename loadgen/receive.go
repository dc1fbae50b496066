package loadgen

import (
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// Receive says how answers are read and whose clock gives the times of their events. The zero value is
// ReceivePolled. What a system or a connection cannot do becomes the next value.
type Receive uint8

// The ways to receive.
const (
	// ReceivePolled takes the kernel's receive times, and sends and reads plain HTTP/1.1
	// without net/http, in batches with a poller, at the least CPU (Linux).
	ReceivePolled = Receive(wire.ModePolled)
	// ReceiveStamped takes the kernel's receive times, without the poller: one
	// goroutine waits for each connection (Linux).
	ReceiveStamped = Receive(wire.ModeStamped)
	// ReceivePlain takes the times after the read, as a client without help does.
	//
	// Here and under ReceiveStamped net/http takes chunks apart. Where the size of the
	// next chunk came in the same read without the chunk, it hands an event over only
	// once that has come: a stall just there after the first token is timeout_ttft.
	ReceivePlain = Receive(wire.ModePlain)
)

var receiveNames = enum.Of[Receive](ErrUnknownName, "way to receive", "polled", "stamped", "plain")
