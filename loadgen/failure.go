// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// explained adds the likely cause where a plain-text request went to a server that speaks TLS.
func (a *attempt) explained(err error) error {
	switch {
	case a.endpoint.url.Scheme != "http" || a.rec.Reused:
	case strings.Contains(err.Error(), `\x15\x03`): // a TLS alert
		return fmt.Errorf("%w (the server speaks TLS: use https)", err)
	case !a.stream.in.Begun() && connectionEnded(err):
		return fmt.Errorf("%w before any answer on a new connection (if the server speaks TLS, use https)", err)
	}
	return err
}

// connectionEnded returns true for errors of a connection that the other side ended.
func connectionEnded(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		strings.Contains(err.Error(), "server closed idle connection")
}

// refused classifies an answer whose status is not 200.
func (a *attempt) refused(resp *http.Response) {
	text := a.peek(resp.Body)
	class := classMalformed
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests:
		class = classHTTP429
	case code >= 400 && code < 500:
		class = classHTTP4xx
	case code >= 500:
		class = classHTTP5xx
	case code >= 300 && code < 400:
		text = "redirects are not followed; use the final URL: " + safeURL(resp.Header.Get("Location"))
	}
	if ra := resp.Header.Get("Retry-After"); ra != "" {
		a.retryAfter = retryAfter(ra, time.Now())
		text = "Retry-After " + serverText([]byte(ra)) + "; " + text
	}
	a.end(class, fmt.Errorf("HTTP %d: %s", resp.StatusCode, text))
}

// retryAfter reads the header's seconds or date; at most a minute.
func retryAfter(header string, now time.Time) time.Duration {
	var d time.Duration
	if s, err := strconv.Atoi(strings.TrimSpace(header)); err == nil {
		d = time.Duration(min(s, 60)) * time.Second
	} else if t, err := http.ParseTime(header); err == nil {
		d = t.Sub(now)
	}
	return min(max(d, 0), time.Minute)
}

// peek reads the beginning of an answer for an error message. Its class is known, and
// a body that stalls is not waited for.
func (a *attempt) peek(r io.Reader) string {
	a.watch.terminate(a.client.clock.Now())
	b, err := io.ReadAll(io.LimitReader(r, maxServerText))
	if err != nil && len(b) == 0 {
		return "no body"
	}
	return serverText(b)
}

// fail ends the request. A watchdog's or the caller's cancellation explains an error better than its consequence does.
func (a *attempt) fail(ctx context.Context, class Class, err error) {
	var timeout *timeoutError
	if cause := context.Cause(ctx); errors.As(cause, &timeout) {
		class, err = timeout.class, timeout
	} else if cause != nil && cause != errDrained { // errDrained ends only the bytes after the answer
		class, err = classCancelled, cause
	}
	a.end(class, err)
}

func (a *attempt) end(class Class, err error) {
	a.rec.Class, a.rec.Error = class, clip(a.client.scrub.clean(err.Error()))
	a.rec.EndNS = a.client.clock.Now()
}

// transportClass classifies an error before the answer's headers.
func (a *attempt) transportClass(err error) Class {
	switch {
	case a.rec.ConnectedNS != 0:
		return readClass(err)
	case isClientLimit(err):
		return ClassClientLimit
	}
	return ClassConnect
}

// readClass classifies an error of an answer's bytes: a breach of HTTP's own
// syntax is malformed, everything else is a cut.
func readClass(err error) Class {
	if errors.Is(err, wire.ErrChunked) {
		return classMalformed
	}
	// net/http has no exported errors for these.
	for _, text := range []string{
		"malformed", "invalid byte in chunk", "chunk length", "chunked", "response headers exceeded", "too many 1xx",
		"Content-Length", "transfer encoding",
		"Transfer-Encoding", "invalid header",
	} {
		if strings.Contains(err.Error(), text) {
			return classMalformed
		}
	}
	return ClassTruncated
}
