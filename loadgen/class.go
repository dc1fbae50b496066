package loadgen

import "github.com/cotenant/cotenant/internal/enum"

// Class is the outcome of a request. The zero value, ClassUnfinished, is never written to an artifact.
type Class uint8

// The classes.
const (
	ClassUnfinished     Class = iota
	ClassOK                   // HTTP 200, terminator seen, no error event, at least one token
	ClassHTTP4xx              // a 4xx status other than 429
	ClassHTTP429              // status 429
	ClassHTTP5xx              // a 5xx status
	ClassConnect              // name resolution, dial or TLS handshake failed
	ClassTimeoutConnect       // no connection within Timeouts.Connect
	ClassTimeoutTTFT          // no first token within Timeouts.FirstToken
	ClassTimeoutIdle          // no next event within Timeouts.Idle
	ClassTimeoutTotal         // not finished within Timeouts.Total
	ClassTruncated            // the connection or the stream ended without a terminator
	ClassErrorEvent           // the server reported an error inside the stream
	ClassMalformed            // the answer is not what the API specifies
	ClassCancelled            // the caller or the end of the run cut the request off
	ClassDropped              // the client did not send it: OfferedLoad.MaxInFlight was reached
	ClassClientLimit          // the client's machine had no descriptor, port or buffer for it
)

var classNames = enum.Of[Class](ErrUnknownName, "class", "unfinished", "ok", "http_4xx", "http_429", "http_5xx",
	"connect", "timeout_connect",
	"timeout_ttft", "timeout_idle", "timeout_total", "truncated", "error_event", "malformed", "cancelled", "dropped",
	"client_limit")

// Classes lists every class but ClassUnfinished, in the order of their values.
func Classes() []Class { return classNames.Values()[1:] }

// retriable reports whether another attempt may succeed. A request whose first token has arrived is never retried.
func (c Class) retriable() bool {
	switch c {
	case ClassHTTP429, ClassHTTP5xx, ClassConnect, ClassTimeoutConnect:
		return true
	default:
		return false
	}
}
