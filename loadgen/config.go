// SPDX-License-Identifier: Apache-2.0

package loadgen

import (
	"cmp"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// config is the content of config.json: the plan as it was resolved, and where
// it ran. Credentials are redacted. Durations are in seconds.
type config struct {
	SchemaVersion int            `json:"schema_version"`
	RunID         string         `json:"run_id"`
	Scenario      string         `json:"scenario,omitempty"`
	Basis         string         `json:"basis"` // measured or simulated
	Seed          uint64         `json:"seed"`
	DurationS     float64        `json:"duration_s,omitempty"`
	DrainS        float64        `json:"drain_s,omitempty"`
	WindowFromS   float64        `json:"window_from_s,omitempty"`
	WindowToS     float64        `json:"window_to_s,omitempty"`
	Tenants       []tenantConfig `json:"tenants"`
	Clock         clockConfig    `json:"clock"`
	Host          hostConfig     `json:"host"`
	Meta          map[string]any `json:"meta,omitempty"`
}

// tenantConfig is a tenant in config.json.
type tenantConfig struct {
	Name      string           `json:"name"`
	Model     string           `json:"model,omitempty"`
	API       string           `json:"api"`
	Streaming bool             `json:"streaming"`
	Usage     string           `json:"usage"`
	Endpoints []endpointConfig `json:"endpoints"`
	Load      string           `json:"load"`
	Requests  int              `json:"requests,omitempty"`
	Warmup    int              `json:"warmup,omitempty"`
	MaxTokens int              `json:"max_tokens,omitempty"`
	SLO       SLOFigures       `json:"slo"`
	TimeoutsS timeoutsConfig   `json:"timeouts_s"`
	RetryMax  int              `json:"retry_max,omitempty"`
	Body      map[string]any   `json:"body,omitempty"`
}

// endpointConfig is an endpoint in config.json.
type endpointConfig struct {
	URL    string            `json:"url"`
	APIKey Secret            `json:"api_key,omitempty"` // "[redacted]" when there is one
	Header map[string]string `json:"header,omitempty"`
}

// timeoutsConfig are the resolved time-outs in seconds; 0 means none.
type timeoutsConfig struct {
	Connect    float64 `json:"connect"`
	FirstToken float64 `json:"first_token"`
	Idle       float64 `json:"idle"`
	Total      float64 `json:"total"`
}

// clockConfig is the base from which every time of the artifacts is counted.
type clockConfig struct {
	BaseUnixNS int64  `json:"base_unix_ns"`
	Note       string `json:"note"`
}

// hostConfig describes the client's machine.
type hostConfig struct {
	Hostname   string `json:"hostname,omitempty"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	CPUs       int    `json:"cpus"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	GoVersion  string `json:"go_version"`
	Version    string `json:"cotenant_version,omitempty"`
}

func newConfig(p *LoadPlan, o *Options, clk *wire.Clock, scrub *scrubber) *config {
	w := p.window()
	c := &config{
		SchemaVersion: schemaVersion, RunID: o.RunID, Scenario: p.Scenario, Basis: "measured", Seed: p.Seed,
		DurationS: p.Duration.Seconds(), DrainS: p.Drain.Seconds(), WindowFromS: w.From.Seconds(), WindowToS: w.To.Seconds(),
		Meta:  scrub.cleanMap(o.Meta),
		Clock: clockConfig{clk.Base(), "times are this plus the monotonic time since; a step of the wall clock moves none"},
		Host:  host(),
	}
	if p.Simulated {
		c.Basis = "simulated"
	}
	for i := range p.Tenants {
		t := &p.Tenants[i]
		to := t.Timeouts.withDefaults()
		tc := tenantConfig{
			Name: t.Name, Model: t.Model, API: cmp.Or(t.API, apiChat), Streaming: !t.NonStreaming,
			Usage: cmp.Or(t.Usage, "final"),
			Load:  t.Load.describe(), Requests: t.Requests, Warmup: t.Warmup, MaxTokens: t.MaxTokens,
			SLO:       t.SLO.figures(),
			TimeoutsS: timeoutsConfig{to.Connect.Seconds(), to.FirstToken.Seconds(), to.Idle.Seconds(), to.Total.Seconds()},
			RetryMax:  t.Retries, Body: scrub.cleanMap(t.Body),
		}
		for j := range t.Endpoints {
			e := &t.Endpoints[j]
			tc.Endpoints = append(tc.Endpoints, endpointConfig{safeURL(e.URL), e.APIKey, safeHeader(e.Header)})
		}
		c.Tenants = append(c.Tenants, tc)
	}
	return c
}

func host() hostConfig {
	h := hostConfig{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		GoVersion: runtime.Version(),
	}
	if name, err := os.Hostname(); err == nil {
		h.Hostname = name
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return h
	}
	const module = "github.com/cotenant/cotenant"
	if info.Main.Path == module {
		h.Version = info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == module {
			h.Version = d.Version
		}
	}
	return h
}
