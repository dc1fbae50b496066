// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
)

// Limits of clients. One page is rendered for all, so that a
// slow reader costs its connection: some 50 KB with the kernel's buffer.
const (
	maxInFlight  = 512 // of /metrics
	writeBuffer  = 16 << 10
	readTimeout  = 10 * time.Second
	writeTimeout = 20 * time.Second
	idleTimeout  = time.Minute
)

// limited lets a handler serve at most n clients at a time, and refuses the others.
func limited(n int, h http.Handler) http.Handler {
	slots := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			h.ServeHTTP(w, r)
		default:
			http.Error(w, "too many requests in flight", http.StatusServiceUnavailable)
		}
	})
}

// shared renders a page once for each commit of the accounts and format, and gives the same bytes to all clients.
// It is kept compressed, a tenth of its size and less, since slow readers keep the pages of many commits.
type shared struct {
	render func(io.Writer, expfmt.Format) error
	commit func() int64 // number of the last commit

	mu   sync.Mutex
	made map[expfmt.FormatType]made
}

// made is a page with the commit that it shows.
type made struct {
	commit int64
	body   []byte
}

func newShared(render func(io.Writer, expfmt.Format) error, commit func() int64) *shared {
	return &shared{render: render, commit: commit, made: map[expfmt.FormatType]made{}}
}

func (p *shared) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := expfmt.Negotiate(r.Header).FormatType()
	if kind != expfmt.TypeProtoDelim {
		kind = expfmt.TypeTextPlain
	}
	format := expfmt.NewFormat(kind)
	page, err := p.page(format)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", string(format))
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(page) // the client has gone
	} else if z, err := gzip.NewReader(bytes.NewReader(page)); err == nil {
		_, _ = io.CopyBuffer(struct{ io.Writer }{w}, z, make([]byte, 4<<10)) // a small buffer for each
	}
}

// page returns a page of the last commit before the request, or of a later one: all waiting requests take the next.
func (p *shared) page(format expfmt.Format) ([]byte, error) {
	asked := p.commit()
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.made[format.FormatType()]
	if last.body != nil && last.commit >= asked {
		return last.body, nil
	}
	now := p.commit()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := errors.Join(p.render(z, format), z.Close()); err != nil {
		return nil, err
	}
	p.made[format.FormatType()] = made{now, bytes.Clone(b.Bytes())}
	return p.made[format.FormatType()].body, nil
}

// frugal is a listener of connections with small buffers.
type frugal struct{ net.Listener }

func (f frugal) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(writeBuffer) // the kernel's own is right, but large
	}
	return c, err
}
