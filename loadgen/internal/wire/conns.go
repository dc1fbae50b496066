package wire

import "net"

// Mode says how connections are read. The zero value is ModePolled.
type Mode uint8

// The modes. What a system or a connection cannot do becomes the next one.
const (
	ModePolled  Mode = iota // the kernel's receive times, and a poller that reads many connections (Linux, plain TCP)
	ModeStamped             // the kernel's receive times, each connection with a goroutine that waits (Linux)
	ModePlain               // the connection as it is: times are taken after the read
)

// Conns gives connections what their mode asks for. The zero value is ready. It is
// safe for concurrent use.
type Conns struct{ pollers pollers }

// Adopt returns the connection that net/http is to use in the place of c.
func (cs *Conns) Adopt(c net.Conn, mode Mode) net.Conn {
	if mode == ModePlain {
		return c
	}
	return withStamps(c)
}

// Close closes the polled connections and ends the pollers.
func (cs *Conns) Close() { cs.pollers.close() }
