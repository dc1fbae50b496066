// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// client makes the requests of one tenant. It is safe for concurrent use.
type client struct {
	tenant    *Tenant
	clock     *wire.Clock
	timeouts  Timeouts // resolved
	endpoints []*endpoint
	attempts  atomic.Int64 // they take the endpoints in turn
	streams   sync.Pool    // of *stream
	scrub     *scrubber
	conns     wire.Conns
}

func newClient(runCtx context.Context, t *Tenant, clk *wire.Clock, mode wire.Mode, scrub *scrubber) (*client, error) {
	c := &client{
		tenant: t, clock: clk, timeouts: t.Timeouts.withDefaults(), scrub: scrub,
		streams: sync.Pool{New: func() any { return &stream{} }},
	}
	for i := range t.Endpoints {
		e, err := newEndpoint(runCtx, &t.Endpoints[i], t.API, !t.NonStreaming, mode, &c.conns,
			c.timeouts.Connect)
		if err != nil {
			return nil, err
		}
		c.endpoints = append(c.endpoints, e)
	}
	return c, nil
}

func (c *client) close() {
	for _, e := range c.endpoints {
		e.transport.CloseIdleConnections()
	}
	c.conns.Close()
}

// do makes the request that body describes, with its retries, and fills in rec and s. It returns when the request
// has ended.
func (c *client) do(ctx context.Context, p *Prompt, body []byte, rec *Record, s *stream) {
	rec.PromptTokens = p.PromptTokens
	s.asked = choicesAsked(p.Body, c.tenant.Body)
	rec.AskedTokens, rec.IgnoreEOS = p.tokensAsked(c.tenant, s.asked), p.ignoresEOS(c.tenant)
	backoff := 100 * time.Millisecond
	for fresh := false; ; {
		turn := (c.attempts.Add(1) - 1) % int64(len(c.endpoints))
		a := &attempt{client: c, rec: rec, stream: s, endpoint: c.endpoints[turn], fresh: fresh}
		a.run(ctx, body)
		if fresh = a.stale && ctx.Err() == nil; fresh {
			// On a new connection, as browsers do: the server never saw the request. net/http
			// may find another kept one that was put back meanwhile.
			rec.Stale = true
			rec.Retries++
			continue
		}
		if !rec.Class.retriable() || rec.Retries >= c.tenant.Retries || ctx.Err() != nil {
			return
		}
		wait := max(backoff<<min(rec.Retries, 20), a.retryAfter)
		if sleep(ctx, wait) != nil {
			return // the failure is final
		}
		rec.Retries++
	}
}

// attempt is one exchange with an endpoint.
type attempt struct {
	client     *client
	endpoint   *endpoint
	rec        *Record
	stream     *stream
	watch      *watchdog
	retryAfter time.Duration
	written    atomic.Int64  // by the transport
	idle       time.Duration // of a reused connection
	fresh      bool          // it takes a new connection
	stale      bool          // it failed on a connection that the server had given up
}

// maxStaleIdle bounds staleIdle.
const maxStaleIdle = 100 * time.Millisecond

// staleIdle is the least idle time of a connection after which its end counts as the
// server's keep-alive time-out and not as the answer to a request: half of the time after
// which the server was seen to end an idle one, as a busy client sees it late.
func (e *endpoint) staleIdle() time.Duration {
	if least := e.keepAlive.Least(); least > 0 {
		return min(least/2, maxStaleIdle)
	}
	return maxStaleIdle
}

func (a *attempt) run(parent context.Context, body []byte) {
	c, rec := a.client, a.rec
	start := c.clock.Now()
	rec.SentNS = cmp.Or(rec.SentNS, start)
	if rec.IntendedNS == 0 { // a closed loop has no schedule: the start is the intended one
		rec.IntendedNS = rec.SentNS
	}
	rec.Endpoint, rec.Status, rec.Error, rec.Streamed, rec.Reused = a.endpoint.label, 0, "", false, false
	rec.ConnectedNS, rec.WrittenNS, rec.FirstByteNS, rec.EndNS = 0, 0, 0, 0
	rec.Refused = false
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	w := &watchdog{clock: c.clock, limits: c.timeouts, start: start, streamed: !c.tenant.NonStreaming, cancel: cancel}
	a.watch = w
	a.stream.begin(a, nil, rec.SentNS)
	w.begin()
	defer w.timer.Stop()

	resp, err := a.endpoint.host.Exchange(ctx, &a.stream.in, body, a)
	switch {
	case errors.Is(err, wire.ErrNotPolled):
		resp, err = a.transport(ctx, body)
		if err == nil {
			rec.FirstByteNS, _ = a.stream.in.Stamp()
			a.answer(ctx, resp)
			// The transport may report that the request was written after its answer began; until then the time stays unknown.
			rec.WrittenNS = a.written.Load()
		}
	case err == nil && resp != nil:
		rec.FirstByteNS, _ = a.stream.in.Stamp()
		a.answer(ctx, resp)
	case err == nil || rec.Streamed:
		a.streamed(ctx, err)
		err = nil
	}
	if err != nil {
		// Where the kernel does not know, the idle time decides.
		a.stale = rec.Reused && !a.stream.in.Begun() && connectionEnded(err) &&
			(a.idle >= a.endpoint.staleIdle() || a.stream.in.Unseen())
		a.fail(ctx, a.transportClass(err), a.explained(err))
		return
	}
	a.stream.conclude(rec, c.tenant)
	switch rec.FinishReason {
	case "", "stop", "length", "tool_calls", "content_filter":
	default: // a server's own text
		rec.FinishReason = clip(c.scrub.clean(serverText([]byte(rec.FinishReason))))
	}
}

// Fresh notes that the request goes out once more.
func (a *attempt) Fresh() bool { return a.fresh }

// Connected takes the time of the connection.
func (a *attempt) Connected(idle time.Duration) {
	a.rec.Reused, a.idle = idle >= 0, idle
	a.rec.ConnectedNS = a.client.clock.Now()
	a.watch.connected.Store(a.rec.ConnectedNS)
}

// Written takes the time of the request.
func (a *attempt) Written() { a.rec.WrittenNS = a.client.clock.Now() }

// Head takes an answer's head, and returns true when a stream follows.
func (a *attempt) Head(resp *http.Response, at int64) bool {
	if resp.StatusCode != http.StatusOK {
		return false
	}
	switch media(resp) {
	case "text/html", "application/json":
		return false
	}
	a.rec.Status, a.rec.FirstByteNS, a.rec.Streamed = resp.StatusCode, at, true
	return true
}

// Take takes a piece of the event stream.
func (a *attempt) Take(b []byte, at, lag int64) (int, bool, error) { return a.stream.Take(b, at, lag) }

// End takes the end of an answer that had no terminator.
func (a *attempt) End(at int64) { a.stream.End(at) }

// transport sends the request by net/http, again where the answer that a reused connection brings is not its own.
func (a *attempt) transport(ctx context.Context, body []byte) (*http.Response, error) {
	for {
		resp, early, err := a.roundTrip(ctx, body)
		if !early {
			return resp, err
		}
		if err == nil {
			resp.Body.Close()
		}
		a.written.Store(0)
	}
}

// roundTrip is transport over one connection, which is closed where early reports that its answer is not the request's.
func (a *attempt) roundTrip(ctx context.Context, body []byte) (resp *http.Response, early bool, err error) {
	c := a.client
	// The transport's goroutines report, one of them maybe when the attempt is over.
	var p struct {
		conn      net.Conn
		early     func(answered bool) bool
		reused    bool
		idle      time.Duration
		connected atomic.Int64
	}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			p.conn, p.reused, p.idle, p.early = info.Conn, info.Reused, info.IdleTime, wire.Reused(info.Conn)
			now := c.clock.Now()
			p.connected.Store(now)
			a.watch.connected.Store(now)
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				a.written.Store(c.clock.Now())
			}
		},
	})
	req := request(a.endpoint.url, a.endpoint.header).WithContext(traced)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	// Lets the transport move to a new connection when the server has closed the idle one: nothing was sent then.
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	if a.fresh {
		a.endpoint.transport.CloseIdleConnections()
	}
	resp, err = a.endpoint.transport.RoundTrip(req)
	if p.reused && ctx.Err() == nil && p.early(err == nil) {
		p.conn.Close()
		return resp, true, err
	}
	a.rec.ConnectedNS, a.rec.WrittenNS, a.rec.Reused = p.connected.Load(), a.written.Load(), p.reused
	a.idle = p.idle
	if err == nil {
		a.stream.in.Begin(c.clock, p.conn, a.rec.SentNS)
	}
	return resp, false, err
}

func media(resp *http.Response) string {
	text, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(text))
}

// answer reads the response to its end.
func (a *attempt) answer(ctx context.Context, resp *http.Response) {
	defer resp.Body.Close()
	rec := a.rec
	rec.Status = resp.StatusCode
	if resp.StatusCode != http.StatusOK {
		a.refused(resp)
		return
	}
	kind := media(resp)
	if kind == "text/html" {
		a.end(classMalformed, fmt.Errorf("%w: HTML: %s", errMalformed, a.peek(resp.Body)))
		return
	}
	if a.client.tenant.NonStreaming || kind == "application/json" {
		a.whole(ctx, resp.Body)
		return
	}
	rec.Streamed = true
	a.streamed(ctx, a.stream.in.Stream(resp, a.stream))
}

// streamed classifies a stream that was read to its end, or to err.
func (a *attempt) streamed(ctx context.Context, err error) {
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		if other := a.stream.notAStream(); other != nil {
			err = other
		}
	}
	switch {
	case errors.Is(err, errServer):
		a.fail(ctx, classErrorEvent, err)
	case errors.Is(err, errMalformed), errors.Is(err, wire.ErrTooLong):
		a.fail(ctx, classMalformed, err)
	case a.stream.ended():
		a.succeed(ctx)
	case err == nil:
		a.fail(ctx, ClassTruncated, errors.New("the stream ended without [DONE] or a finish reason of each choice"))
	default:
		a.fail(ctx, readClass(err), err)
	}
}

// succeed ends a request after its terminator was seen.
func (a *attempt) succeed(ctx context.Context) {
	if a.rec.Events == 0 {
		a.fail(ctx, classMalformed, fmt.Errorf("%w: it ended without a token", errMalformed))
		return
	}
	if failedFinish(a.rec.FinishReason) {
		a.fail(ctx, classErrorEvent, fmt.Errorf("%w: finish_reason %q", errServer, a.rec.FinishReason))
		return
	}
	if a.rec.EndNS == 0 {
		a.rec.EndNS = a.client.clock.Now()
	}
	a.rec.Class = ClassOK
}

// whole reads an answer in one piece.
func (a *attempt) whole(ctx context.Context, body io.Reader) {
	data, err := io.ReadAll(io.LimitReader(body, maxEventBytes+1))
	end, lag := a.stream.in.Stamp()
	class, d := classMalformed, delta{}
	if err != nil {
		class = readClass(err)
	} else if len(data) > maxEventBytes {
		err = wire.ErrTooLong
	} else if d, err = decodeDelta(data); err == nil {
		switch {
		case d.failure != "":
			class, err = classErrorEvent, fmt.Errorf("%w: %s", errServer, d.failure)
		case failedFinish(d.finish):
			class, err = classErrorEvent, fmt.Errorf("%w: finish_reason %q", errServer, d.finish)
			a.stream.wholeAnswer(&d, a.rec, end, lag)
		case !a.client.tenant.NonStreaming:
			err = fmt.Errorf("%w: one piece where a stream was requested", errMalformed)
		case !d.content() && (!d.hasUsage || d.usage.Completion == 0):
			err = fmt.Errorf("%w: it holds no token", errMalformed)
		}
	}
	if err != nil {
		a.fail(ctx, class, err)
		return
	}
	a.stream.wholeAnswer(&d, a.rec, end, lag)
	a.rec.EndNS, a.rec.Class = end, ClassOK
}
