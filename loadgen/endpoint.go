// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// endpoint is a resolved Endpoint with its own connections.
type endpoint struct {
	url       *url.URL
	label     string // for artifacts
	header    http.Header
	host      *wire.Host // nil where every request is one for transport
	keepAlive *wire.KeepAlive
	transport *http.Transport
}

// newEndpoint resolves e. Dials end with runCtx, so that none outlives the run.
func newEndpoint(runCtx context.Context, e *Endpoint, api string, streaming bool, mode wire.Mode, conns *wire.Conns,
	connect time.Duration) (*endpoint, error) {
	u, err := url.Parse(e.URL)
	if err != nil {
		return nil, err
	}
	u.Path = apiPath(u.Path, api)
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "cotenant-loadgen/1")
	if streaming {
		h.Set("Accept", "text/event-stream")
	} else {
		h.Set("Accept", "application/json")
	}
	if e.APIKey != "" {
		h.Set("Authorization", "Bearer "+string(e.APIKey))
	}
	for name, values := range e.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	dial := e.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: connect}).DialContext
	}
	bound := func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(runCtx, cancel)()
		return dial(ctx, network, addr)
	}
	var tlsConfig *tls.Config
	if e.TLS != nil {
		tlsConfig = e.TLS.Clone()
		tlsConfig.NextProtos = nil
	}
	seen := &wire.KeepAlive{}
	var host *wire.Host
	if mode == wire.ModePolled && streaming && e.Dial == nil && u.Scheme == "http" && ascii(u.Host) {
		host = conns.Host(request(u, h),
			func(ctx context.Context) (net.Conn, error) { return bound(ctx, "tcp", hostPort(u)) }, seen)
	}
	watched := seen
	if u.Scheme != "http" { // the end of a session in TLS is data
		watched = nil
	}
	return &endpoint{
		url: u, label: safeURL(u.String()), header: h, host: host,
		keepAlive: seen,
		transport: &http.Transport{
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := bound(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return conns.Adopt(c, mode, watched), nil
			},
			TLSClientConfig:     tlsConfig,
			TLSHandshakeTimeout: connect,
			// The events of a compressed stream cannot be separated on arrival; a non-nil empty map keeps to HTTP/1.1.
			DisableCompression:  true,
			TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
			MaxIdleConnsPerHost: 1 << 20,
			IdleConnTimeout:     5 * time.Minute,
			// This bound distinguishes a head that never ends from a slow one early.
			MaxResponseHeaderBytes: 1 << 20,
		},
	}, nil
}

// request is a POST without a body.
func request(u *url.URL, header http.Header) *http.Request {
	return &http.Request{Method: http.MethodPost, URL: u, Host: cmp.Or(header.Get("Host"), u.Host), Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

// ascii reports whether a host's name is looked up as it is written; net/http encodes others.
func ascii(host string) bool {
	return strings.IndexFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// hostPort returns the address that a URL of plain HTTP is served at.
func hostPort(u *url.URL) string { return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")) }

func apiPath(path, api string) string {
	suffix := "/chat/completions"
	if api == apiCompletions {
		suffix = "/completions"
	}
	path = strings.TrimRight(path, "/")
	switch base := path[strings.LastIndexByte(path, '/')+1:]; {
	case strings.HasSuffix(path, suffix):
		return path
	case len(base) >= 2 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "":
		return path + suffix
	}
	return path + "/v1" + suffix
}
