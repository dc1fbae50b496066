package main

import (
	"bytes"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
)

// What a client may take of the exporter. One page is rendered for all, so that a
// slow reader costs its connection: some 50 KB with the kernel's buffer.
const (
	maxConnections = 1024
	maxInFlight    = 512 // of /metrics and /opencost
	writeBuffer    = 16 << 10
	readTimeout    = 10 * time.Second
	writeTimeout   = 20 * time.Second
	idleTimeout    = time.Minute
)

// limited serves what a handler does to at most n clients at a time, and refuses
// the others.
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

// shared renders a handler's page once for each commit of the accounts, format and
// encoding, and gives the same bytes to all who ask for it.
type shared struct {
	render http.Handler
	commit func() int64 // number of the last commit

	mu   sync.Mutex
	at   int64 // the commit that made is of
	made map[pageKey]*rendered
}

type pageKey struct {
	format expfmt.FormatType
	gzip   bool
}

// rendered is a page as its handler wrote it.
type rendered struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *rendered) Header() http.Header         { return r.header }
func (r *rendered) WriteHeader(code int)        { r.code = code }
func (r *rendered) Write(b []byte) (int, error) { return r.body.Write(b) }

// accepts asks for a format in the way of the exposition library.
var accepts = map[expfmt.FormatType]string{
	expfmt.TypeTextPlain: "text/plain;version=0.0.4",
	expfmt.TypeProtoDelim: "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;" +
		"encoding=delimited",
}

func (p *shared) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := pageKey{expfmt.Negotiate(r.Header).FormatType(), strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")}
	if accepts[key.format] == "" {
		key.format = expfmt.TypeTextPlain
	}
	page := p.page(key)
	for name, values := range page.header {
		w.Header()[name] = values
	}
	w.WriteHeader(page.code)
	_, _ = w.Write(page.body.Bytes()) // the client has gone
}

func (p *shared) page(key pageKey) *rendered {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.commit(); p.made == nil || at != p.at {
		p.at, p.made = at, map[pageKey]*rendered{}
	}
	page := p.made[key]
	if page == nil {
		page = &rendered{header: http.Header{}, code: http.StatusOK}
		r := &http.Request{
			Method: http.MethodGet, URL: &url.URL{}, Header: http.Header{"Accept": {accepts[key.format]}},
		}
		if key.gzip {
			r.Header.Set("Accept-Encoding", "gzip")
		}
		p.render.ServeHTTP(page, r)
		p.made[key] = page
	}
	return page
}

// frugal is a listener of connections with small buffers, of which it has a
// limited number open.
type frugal struct {
	net.Listener
	slots chan struct{}
}

func (f *frugal) Accept() (net.Conn, error) {
	f.slots <- struct{}{}
	c, err := f.Listener.Accept()
	if err != nil {
		<-f.slots
		return nil, err
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(writeBuffer) // the kernel's own is right, but large
	}
	return &frugalConn{Conn: c, leave: func() { <-f.slots }}, nil
}

type frugalConn struct {
	net.Conn
	once  sync.Once
	leave func()
}

func (c *frugalConn) Close() error {
	c.once.Do(c.leave)
	return c.Conn.Close()
}
