// SPDX-License-Identifier: Apache-2.0

package study

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/prompt"
)

// File is a user's plan.
type File struct {
	Scenario string         `yaml:"scenario"`
	Duration time.Duration  `yaml:"duration"`
	Drain    time.Duration  `yaml:"drain"`
	Window   loadgen.Window `yaml:"window"`
	Seed     uint64         `yaml:"seed"`
	// Embedded, when not empty, makes the caller start a server for each tenant, all on one simulated GPU shared in this
	// way: "time-sliced", "concurrent" or "partitioned".
	Embedded string   `yaml:"embedded"`
	Tenants  []Tenant `yaml:"tenants,required"`
}

// Tenant is a tenant of a plan. The fields Endpoints, Load and Prompts of the embedded Tenant are set from the fields
// here.
type Tenant struct {
	loadgen.Tenant
	Endpoints   []Endpoint    `yaml:"endpoints"`
	Concurrency int           `yaml:"concurrency"` // users; exactly one of Concurrency, Rate and Trace is set
	Think       time.Duration `yaml:"think"`
	Ramp        time.Duration `yaml:"ramp"`
	Rate        float64       `yaml:"rate"`     // requests/s
	Arrivals    string        `yaml:"arrivals"` // constant (default), poisson or gamma
	Burstiness  float64       `yaml:"burstiness"`
	Trace       *Trace        `yaml:"trace"`
	Prompts     string        `yaml:"prompts"` // file of JSON Lines
	Synthetic   *Synthetic    `yaml:"synthetic"`
	// SMShare and BandwidthShare are the tenant's shares of the embedded GPU, 0 to 1; 0 means all.
	SMShare        float64 `yaml:"sm_share"`
	BandwidthShare float64 `yaml:"bandwidth_share"`

	prompts   []loadgen.Prompt
	trace     *prompt.Trace
	synthetic *prompt.SyntheticOptions
}

// Endpoint is a server in a plan. APIKeyEnv names the environment variable with its key.
type Endpoint struct {
	URL       string            `yaml:"url,required"`
	APIKeyEnv string            `yaml:"api_key_env"`
	Header    map[string]string `yaml:"headers"`
	// CAFile holds the certificate authorities for an https server, instead of the system's; CertFile and KeyFile hold the
	// client's certificate. All are PEM.
	CAFile   string `yaml:"ca_file"`
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`

	tls *tls.Config
}

// Trace is a trace to replay: its arrivals and lengths.
type Trace struct {
	File  string  `yaml:"file,required"`
	Speed float64 `yaml:"speed"` // 0 = as recorded
	loadgen.Window
}

// Synthetic are prompts of random words.
type Synthetic struct {
	Input  prompt.Lengths      `yaml:"input,required"`
	Output prompt.Lengths      `yaml:"output,required"`
	Prefix prompt.SharedPrefix `yaml:"prefix"`
}

// FileOptions control the resolution of a plan's file names.
type FileOptions struct {
	// Dir is the folder that file names are relative to. [Config.Resolve] sets it.
	Dir string
	// Stdin is read for prompts from "-"; nil makes that an error.
	Stdin io.Reader
	// Prompts is the default for tenants that name none.
	Prompts []loadgen.Prompt
}

// The ways to share the embedded GPU.
const (
	timeSliced  = "time-sliced" // the whole GPU in turn
	concurrent  = "concurrent"  // at the same time, as under MPS
	partitioned = "partitioned" // each on its own share, as under MIG
)

var sharings = []string{timeSliced, concurrent, partitioned}

// loadFile reads a plan strictly, and every file that it names. The error names everything that is wrong with them.
func loadFile(path string, opts FileOptions) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := strictyaml.Read(f, strictyaml.Options{})
	if err == nil {
		opts.Dir = filepath.Dir(path)
		file := &File{}
		if err = strictyaml.Decode(data, file, strictyaml.Options{}); err == nil {
			if err = file.resolve(opts); err == nil {
				return file, nil
			}
		}
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

// resolve reads the files that the plan names. Its error names everything that is wrong with it.
func (f *File) resolve(opts FileOptions) error {
	var l problem.List
	l.If(f.Embedded != "" && !slices.Contains(sharings, f.Embedded), "embedded", fmt.Sprintf("use one of %v", sharings),
		"unknown sharing %q", f.Embedded)
	for i := range f.Tenants {
		at := fmt.Sprintf("tenants[%d]", i)
		f.Tenants[i].checkEndpoints(&l, at, f.Embedded != "")
		for j := range f.Tenants[i].Endpoints {
			f.Tenants[i].Endpoints[j].readTLS(&l, fmt.Sprintf("%s.endpoints[%d]", at, j), opts.Dir)
		}
		f.Tenants[i].check(&l, at)
		f.Tenants[i].read(&l, at, opts, f.Seed)
	}
	if err := l.Err(); err != nil {
		return err
	}
	// loadgen checks the fields together.
	plan, err := f.plan(slices.Repeat([]loadgen.Endpoint{{URL: "http://embedded.invalid"}}, len(f.Tenants)))
	if err == nil {
		err = plan.Validate()
	}
	return err
}

func (t *Tenant) checkEndpoints(l *problem.List, path string, embedded bool) {
	switch {
	case !embedded && len(t.Endpoints) == 0:
		l.Addf(path+".endpoints", "add one, or set the plan's embedded", "missing")
	case embedded && len(t.Endpoints) > 0:
		l.Addf(path+".endpoints", "remove them, or embedded", "the tenants are on the embedded GPU")
	}
	for j, e := range t.Endpoints {
		l.If(e.APIKeyEnv != "" && os.Getenv(e.APIKeyEnv) == "", fmt.Sprintf("%s.endpoints[%d].api_key_env", path, j),
			"export it first", "the variable %s is empty", e.APIKeyEnv)
	}
}

func (t *Tenant) check(l *problem.List, path string) {
	if n := count(t.Concurrency != 0, t.Rate != 0, t.Trace != nil); n != 1 {
		l.Addf(path, "set exactly one", "%d of concurrency, rate and trace", n)
	}
	if n := count(t.Prompts != "", t.Synthetic != nil, t.Trace != nil); n > 1 {
		l.Addf(path, "keep one", "%d of prompts, synthetic and trace", n)
	}
	switch t.Arrivals {
	case "":
	case "constant", "poisson", "gamma":
		l.If(t.Rate == 0, path+".arrivals", "set rate", "has no effect without a rate")
	default:
		l.Addf(path+".arrivals", "use constant, poisson or gamma", "is %q", t.Arrivals)
	}
}

func count(set ...bool) (n int) {
	for _, is := range set {
		if is {
			n++
		}
	}
	return n
}

// plan makes a fresh plan, with prompts from their beginning. servers are
// those of the tenants that name no endpoint, in the order of the tenants.
func (f *File) plan(servers []loadgen.Endpoint) (loadgen.LoadPlan, error) {
	plan := loadgen.LoadPlan{Scenario: f.Scenario, Duration: f.Duration, Drain: f.Drain, Window: f.Window, Seed: f.Seed,
		Simulated: f.Embedded != ""}
	for i := range f.Tenants {
		t := &f.Tenants[i]
		lt := t.Tenant
		for j := range t.Endpoints {
			lt.Endpoints = append(lt.Endpoints, t.Endpoints[j].endpoint())
		}
		if len(t.Endpoints) == 0 {
			lt.Endpoints = servers[i : i+1]
		}
		lt.Load = t.load()
		var err error
		if lt.Prompts, err = t.source(f.Seed); err != nil {
			return plan, err
		}
		plan.Tenants = append(plan.Tenants, lt)
	}
	return plan, nil
}

func (e *Endpoint) endpoint() loadgen.Endpoint {
	out := loadgen.Endpoint{URL: e.URL, TLS: e.tls}
	if e.APIKeyEnv != "" {
		out.APIKey = loadgen.Secret(os.Getenv(e.APIKeyEnv))
	}
	for name, value := range e.Header {
		if out.Header == nil {
			out.Header = http.Header{}
		}
		out.Header.Add(name, value)
	}
	return out
}

func (t *Tenant) load() loadgen.OfferedLoad {
	switch {
	case t.trace != nil:
		return loadgen.OfferedLoad{Schedule: t.trace.Schedule(t.Trace.Speed)}
	case t.Concurrency != 0:
		return loadgen.OfferedLoad{Concurrency: t.Concurrency, ThinkTime: t.Think, Ramp: t.Ramp}
	case t.Arrivals == "poisson":
		return loadgen.OfferedLoad{Schedule: loadgen.Poisson(t.Rate)}
	case t.Arrivals == "gamma":
		return loadgen.OfferedLoad{Schedule: loadgen.Gamma(t.Rate, t.Burstiness)}
	}
	return loadgen.OfferedLoad{Schedule: loadgen.Constant(t.Rate)}
}

func (t *Tenant) source(seed uint64) (loadgen.PromptSource, error) {
	switch {
	case t.trace != nil:
		return t.trace.Prompts(seed), nil
	case t.synthetic != nil:
		return prompt.NewSynthetic(*t.synthetic)
	}
	return loadgen.NewPromptCycle(t.prompts...), nil
}

// readTLS reads the endpoint's certificates.
func (e *Endpoint) readTLS(l *problem.List, path, dir string) {
	if e.CAFile+e.CertFile+e.KeyFile == "" {
		return
	}
	l.If(!strings.HasPrefix(strings.ToLower(e.URL), "https:"), path,
		"use https, or remove ca_file, cert_file and key_file", "certificates have no effect without an https endpoint")
	e.tls = &tls.Config{}
	if e.CAFile != "" {
		pem, err := os.ReadFile(join(dir, e.CAFile))
		l.AddErr(path+".ca_file", err)
		e.tls.RootCAs = x509.NewCertPool()
		l.If(err == nil && !e.tls.RootCAs.AppendCertsFromPEM(pem), path+".ca_file", "give certificate authorities",
			"%s holds no certificate in PEM", e.CAFile)
	}
	if e.CertFile+e.KeyFile != "" {
		l.If(e.CertFile == "" || e.KeyFile == "", path, "give both cert_file and key_file", "one of them is missing")
		cert, err := tls.LoadX509KeyPair(join(dir, e.CertFile), join(dir, e.KeyFile))
		l.AddErr(path+".cert_file", err)
		e.tls.Certificates = []tls.Certificate{cert}
	}
}

func (t *Tenant) read(l *problem.List, path string, opts FileOptions, seed uint64) {
	var err error
	switch {
	case t.Trace != nil:
		t.trace, err = t.Trace.read(opts.Dir)
		l.AddErr(path+".trace", err)
	case t.Synthetic != nil:
		t.synthetic = t.Synthetic.options(l, path+".synthetic", seed)
	default:
		t.prompts, err = t.readPrompts(opts)
		l.AddErr(path+".prompts", err)
	}
}

const mostTrace = 1 << 30 // bytes

func (t *Trace) read(dir string) (*prompt.Trace, error) {
	data, err := strictyaml.ReadFile(join(dir, t.File), strictyaml.Options{MaxBytes: mostTrace})
	if err != nil {
		return nil, err
	}
	trace, err := prompt.ReadTrace(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if trace = trace.Slice(t.From, t.To); len(trace.Requests) == 0 {
		return nil, fmt.Errorf("no request between %v and %v", t.From, t.To)
	}
	return trace, nil
}

func join(dir, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

// readPrompts reads the tenant's prompts and sees to it that they fit the API: messages don't fit completions. They
// are left out of the default set and refused in a file.
func (t *Tenant) readPrompts(opts FileOptions) (prompts []loadgen.Prompt, err error) {
	switch {
	case t.Prompts == "":
		prompts = opts.Prompts
	case t.Prompts == "-" && opts.Stdin != nil:
		prompts, err = prompt.Read(opts.Stdin)
	default:
		f, openErr := os.Open(join(opts.Dir, t.Prompts))
		if openErr != nil {
			return nil, openErr
		}
		defer f.Close()
		prompts, err = prompt.Read(f)
	}
	if err != nil || t.API != "completions" {
		return prompts, err
	}
	var fit []loadgen.Prompt
	for i, p := range prompts {
		if len(p.Messages) > 0 && t.Prompts != "" {
			return nil, fmt.Errorf("prompt %d has messages, which -api completions has no place for (give it as \"prompt\")",
				i+1)
		}
		if len(p.Messages) == 0 {
			fit = append(fit, p)
		}
	}
	return fit, nil
}

func (s *Synthetic) options(l *problem.List, path string, seed uint64) *prompt.SyntheticOptions {
	o := &prompt.SyntheticOptions{Input: s.Input, Output: s.Output, Prefix: s.Prefix, Seed: seed}
	_, err := prompt.NewSynthetic(*o)
	l.AddErr(path, err)
	return o
}
