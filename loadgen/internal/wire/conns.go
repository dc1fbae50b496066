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

// Adopt returns the connection to use in the place of c. The bytes of a polled one
// must be HTTP/1.1's own, not TLS's.
func (cs *Conns) Adopt(c net.Conn, mode Mode) (net.Conn, error) {
	switch mode {
	case ModePolled:
		return cs.pollers.adopt(c)
	case ModeStamped:
		return withStamps(c), nil
	}
	return c, nil
}

// Close closes the polled connections and ends the pollers.
func (cs *Conns) Close() { cs.pollers.close() }
