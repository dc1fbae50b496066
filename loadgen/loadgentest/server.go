// SPDX-License-Identifier: Apache-2.0

package loadgentest

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// Options tune a Server. The zero value is the documented default.
type Options struct {
	// Script chooses the answers; nil answers every request with the zero Reply.
	Script Script
	// Slots bounds the number of concurrent answers; further requests wait in order. 0 means no bound.
	Slots int
	// Pipe serves in-memory connections from Dial instead of TCP.
	Pipe bool
	// TLS serves https with a certificate of its own; see Server.CertPool.
	TLS bool
	// APIKey, when not empty, is the required bearer token.
	APIKey string
	// GPU and Model, when GPU is not nil, determine the timing of answers; Reply's TTFT and Interval are then ignored.
	GPU   *GPU
	Model Model
	// NoLog keeps no Served records.
	NoLog bool
}

// Served is the server's own record of a request.
type Served struct {
	Request  Request
	Reply    Reply
	Received time.Time   // the request was complete
	Started  time.Time   // it got its slot
	Events   []time.Time // the time just before the write of each content event
	Tokens   int         // the number of tokens in these events
	End      time.Time
}

// Server is an OpenAI-compatible server that follows a script. Its methods are safe for concurrent use.
type Server struct {
	// URL is the base URL.
	URL    string
	opts   Options
	http   *httptest.Server
	pipe   *pipeListener // nil over TCP
	cancel context.CancelFunc
	slots  chan struct{}
	client *gpuClient

	mu     sync.Mutex
	n      int
	served []*Served
}

// NewServer starts a server. Close stops it.
func NewServer(opts Options) (*Server, error) {
	if opts.Script == nil {
		opts.Script = Always(Reply{})
	}
	s := &Server{opts: opts}
	if opts.Slots > 0 {
		s.slots = make(chan struct{}, opts.Slots)
	}
	if opts.GPU != nil {
		client, err := opts.GPU.attach(opts.Model)
		if err != nil {
			return nil, err
		}
		s.client = client
	}
	var listener net.Listener
	if opts.Pipe {
		s.pipe = &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		listener = s.pipe
	} else {
		var err error
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("loadgentest: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.http = &httptest.Server{Listener: listener, Config: &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx }}}
	if opts.TLS {
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	s.URL = s.http.URL
	return s, nil
}

// Dial opens a connection to the server. Use it as loadgen.Endpoint.Dial.
func (s *Server) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	if s.pipe != nil {
		return s.pipe.dial(ctx)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, s.http.Listener.Addr().String())
}

// CertPool returns a pool with the certificate of a TLS server, for the name example.com.
func (s *Server) CertPool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(s.http.Certificate())
	return pool
}

// Close stops the server, cuts every connection and waits for the handlers.
func (s *Server) Close() error {
	s.cancel()
	err := s.http.Config.Close()
	s.http.Close()
	if s.client != nil {
		s.client.detach()
	}
	return err
}

// Served returns the records of the requests so far, in the order of arrival.
// The records of requests that are still being answered are left out.
func (s *Server) Served() []Served {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Served, 0, len(s.served))
	for _, v := range s.served {
		if !v.End.IsZero() {
			out = append(out, *v)
		}
	}
	return out
}

func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	body, err := json.Marshal(map[string]any{"error": map[string]any{"message": message, "code": status}})
	if err == nil {
		w.Write(body)
	}
}

// maxRequestBytes bounds a request's body.
const maxRequestBytes = 16 << 20

func readRequest(r *http.Request) (Request, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBytes+1))
	if err != nil {
		return Request{}, err
	}
	if len(body) > maxRequestBytes {
		return Request{}, errors.New("request too large")
	}
	var wire struct {
		Model     string  `json:"model"`
		Prompt    *string `json:"prompt"`
		MaxTokens int     `json:"max_tokens"`
		Stream    bool    `json:"stream"`
		Messages  []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
		StreamOptions struct {
			IncludeUsage         bool `json:"include_usage"`
			ContinuousUsageStats bool `json:"continuous_usage_stats"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return Request{}, fmt.Errorf("request is not JSON: %w", err)
	}
	chat := strings.HasSuffix(r.URL.Path, "/chat/completions")
	if chat == (len(wire.Messages) == 0) || chat == (wire.Prompt != nil) {
		return Request{}, errors.New("chat takes messages, completions take a prompt")
	}
	req := Request{
		Path: r.URL.Path, Model: wire.Model, MaxTokens: wire.MaxTokens, Stream: wire.Stream, Body: body,
		Header:       map[string]string{},
		IncludeUsage: wire.StreamOptions.IncludeUsage, ContinuousUsage: wire.StreamOptions.ContinuousUsageStats,
	}
	for name := range r.Header {
		req.Header[name] = r.Header.Get(name)
	}
	if wire.Prompt != nil {
		req.Prompt = *wire.Prompt
	}
	for i, m := range wire.Messages {
		if i > 0 {
			req.Prompt += "\n"
		}
		req.Prompt += m.Content
	}
	return req, nil
}

type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe.invalid" }
