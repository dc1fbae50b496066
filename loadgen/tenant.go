// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// The values of Tenant.API.
const (
	apiChat        = "chat"
	apiCompletions = "completions"
)

// Endpoint is one server that a tenant may use.
type Endpoint struct {
	// URL is the server's base, e.g. "http://host:8000". A path that ends with the API's path ("/v1/chat/completions") is
	// used unchanged; to one that ends in a version ("/v1") the rest is appended.
	URL string
	// APIKey is sent as a bearer token. It is never written to an artifact.
	APIKey Secret
	// Header is added to every request. Values of headers that look like credentials are never written to an artifact.
	Header http.Header
	// TLS configures https; nil means the system's roots.
	TLS *tls.Config
	// Dial opens connections, as net.Dialer.DialContext does; nil means TCP. Kernel receive times need a connection that
	// has a SyscallConn method. Proxy settings of the environment are ignored: the measured path is the one named here.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// OfferedLoad determines the starts of a tenant's requests: by a Schedule, regardless of the server (open loop), or by
// Concurrency users, each waiting for its answer before its next request (closed loop). Exactly one of the two is set.
type OfferedLoad struct {
	Schedule Schedule

	Concurrency int // at most 100,000
	// ThinkTime is a closed-loop user's pause between answer and next request.
	ThinkTime time.Duration
	// Ramp spreads the users' first requests evenly over this time.
	Ramp time.Duration
}

func (l OfferedLoad) open() bool { return l.Schedule != nil }

// RequestSLO holds upper bounds of a request; 0 means none.
type RequestSLO struct {
	TTFT  time.Duration `yaml:"ttft"`  // ttft, from the intended start
	TPOT  time.Duration `yaml:"tpot"`  // tpot; a stream without tpot meets it
	E2E   time.Duration `yaml:"e2e"`   // e2e, from the intended start
	Stall time.Duration `yaml:"stall"` // the request's longest chunk gap
}

// maxConcurrency bounds the users of one tenant in one process: beyond it the
// client's memory and ports, not the server, are measured.
const maxConcurrency = 100_000

// Timeouts bound the phases of a request. 0 means the default, a negative value means no bound.
type Timeouts struct {
	Connect    time.Duration // connection ready after the attempt's start; default 10 s
	FirstToken time.Duration // first token (or the whole answer, not streaming) after the attempt's start; default 5 min
	Idle       time.Duration // between events; default 60 s
	Total      time.Duration // whole attempt; default 30 min
}

func (t Timeouts) withDefaults() Timeouts {
	return Timeouts{
		Connect:    max(cmp.Or(t.Connect, 10*time.Second), 0),
		FirstToken: max(cmp.Or(t.FirstToken, 5*time.Minute), 0),
		Idle:       max(cmp.Or(t.Idle, time.Minute), 0),
		Total:      max(cmp.Or(t.Total, 30*time.Minute), 0),
	}
}

// Tenant is one source of load with a report of its own. Its YAML keys are those of the plans of cotenant bench.
type Tenant struct {
	// Name is unique in the plan; it labels all output about the tenant.
	Name  string `yaml:"name,required"`
	Model string `yaml:"model"`
	// API is "chat" or "" (POST /v1/chat/completions), or "completions" (POST /v1/completions).
	API string `yaml:"api"`
	// Endpoints receive requests in turn; one that is listed twice receives twice as many.
	Endpoints []Endpoint
	Load      OfferedLoad
	Prompts   PromptSource
	// MaxTokens is the output bound of prompts that set none; 0 sends none.
	MaxTokens int `yaml:"max_tokens"`
	// Requests ends the tenant after this number; 0 means no limit.
	Requests int `yaml:"requests"`
	// Warmup is the number of requests sent, one after another from min(Warmup, Concurrency or 8) users, before the run
	// starts. They are not measured.
	Warmup   int        `yaml:"warmup"`
	SLO      RequestSLO `yaml:"slo"`
	Timeouts Timeouts
	// Retries is the number of further attempts of a request that failed before its first token with http_429, http_5xx,
	// connect or timeout_connect. The pause before the first is 100 ms, doubled for each further one; a longer Retry-After
	// header wins, up to 1 min. Latencies count from the first attempt. Regardless of Retries, a request is sent again, on
	// a new connection, if the server closed a kept-alive one: it had not acknowledged any of the request, or the
	// connection had been idle for 100 ms, or for half of the idle time after which the server was seen to close another
	// (Record.Stale).
	Retries int `yaml:"retries"`
	// NonStreaming requests the answer in one piece; ttft, tpot and gaps are then absent.
	NonStreaming bool `yaml:"non_streaming"`
	// Usage is the usage report that is requested: "final" or "" (stream_options.include_usage); "continuous", with the
	// tokens of each event too (vLLM's continuous_usage_stats); or "none" for servers that refuse stream_options.
	Usage string `yaml:"usage"`
	// Body holds further fields of each request's JSON object.
	Body map[string]any
}
