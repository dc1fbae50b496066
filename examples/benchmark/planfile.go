package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/prompt"
)

// planFile is a plan as users write it.
type planFile struct {
	Scenario string     `yaml:"scenario"`
	Duration duration   `yaml:"duration"`
	Drain    duration   `yaml:"drain"`
	Window   planWindow `yaml:"window"`
	Seed     int        `yaml:"seed"`
	// Embedded puts a server for each tenant on one simulated GPU.
	Embedded string       `yaml:"embedded"`
	Tenants  []planTenant `yaml:"tenants,required"`

	dir     string // of the file: other files are relative to it
	sharing loadgentest.Sharing
}

type planWindow struct {
	From duration `yaml:"from"`
	To   duration `yaml:"to"`
}

type planTenant struct {
	Name        string            `yaml:"name,required"`
	Endpoints   []planEndpoint    `yaml:"endpoints"`
	Routing     loadgen.Routing   `yaml:"routing"`
	Model       string            `yaml:"model"`
	API         loadgen.API       `yaml:"api"`
	Usage       loadgen.UsageMode `yaml:"usage"`
	Concurrency int               `yaml:"concurrency"`
	Think       duration          `yaml:"think"`
	Ramp        duration          `yaml:"ramp"`
	Rate        float64           `yaml:"rate"`
	Arrivals    string            `yaml:"arrivals"`
	Burstiness  float64           `yaml:"burstiness"`
	Trace       *planTrace        `yaml:"trace"`
	Prompts     string            `yaml:"prompts"`
	Synthetic   *planSynthetic    `yaml:"synthetic"`
	MaxTokens   int               `yaml:"max_tokens"`
	Requests    int               `yaml:"requests"`
	Warmup      int               `yaml:"warmup"`
	Retries     int               `yaml:"retries"`
	SLO         planSLO           `yaml:"slo"`
	Probe       bool              `yaml:"probe"`
	SMShare     float64           `yaml:"sm_share"`        // on the embedded GPU
	BWShare     float64           `yaml:"bandwidth_share"` // on the embedded GPU, partitioned
	prompts     []loadgen.Prompt
	trace       *prompt.Trace
	synthetic   *prompt.SyntheticOptions
}

type planEndpoint struct {
	URL       string            `yaml:"url,required"`
	Weight    int               `yaml:"weight"`
	APIKeyEnv string            `yaml:"api_key_env"`
	Header    map[string]string `yaml:"headers"`
}

type planTrace struct {
	File  string   `yaml:"file,required"`
	Speed float64  `yaml:"speed"`
	From  duration `yaml:"from"`
	To    duration `yaml:"to"`
}

type planSynthetic struct {
	Input  planLengths  `yaml:"input,required"`
	Output planLengths  `yaml:"output,required"`
	Turns  *planLengths `yaml:"turns"`
	Think  duration     `yaml:"think"`
	Prefix planPrefix   `yaml:"prefix"`
}

type planPrefix struct {
	Groups int     `yaml:"groups"`
	Tokens int     `yaml:"tokens"`
	Zipf   float64 `yaml:"zipf"`
}

// planLengths is exactly one of its fields.
type planLengths struct {
	Fixed     int          `yaml:"fixed"`
	Normal    *planSpread  `yaml:"normal"`
	LogNormal *planLogNorm `yaml:"log_normal"`
	Empirical []int        `yaml:"empirical"`
}

type planSpread struct {
	Mean   float64 `yaml:"mean,required"`
	StdDev float64 `yaml:"std_dev"`
	Min    int     `yaml:"min"`
	Max    int     `yaml:"max"`
}

type planLogNorm struct {
	Median float64 `yaml:"median,required"`
	Sigma  float64 `yaml:"sigma"`
	Min    int     `yaml:"min"`
	Max    int     `yaml:"max"`
}

type planSLO struct {
	TTFT  duration `yaml:"ttft"`
	TPOT  duration `yaml:"tpot"`
	E2E   duration `yaml:"e2e"`
	Stall duration `yaml:"stall"`
}

// duration is written like "1.5s".
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration (write e.g. 1.5s)", text)
	}
	*d = duration(v)
	return nil
}

var sharingNames = []string{loadgentest.SharingTimeSliced.String(), loadgentest.SharingConcurrent.String(), loadgentest.SharingPartitioned.String()}

// readPlan reads a plan and every file that it names, and reports everything
// that is wrong with them at once.
func (a *app) readPlan(file string) (*planFile, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("-plan: %w", err)
	}
	defer f.Close()
	data, err := strictyaml.Read(f, strictyaml.Options{})
	if err != nil {
		return nil, fmt.Errorf("-plan %s: %w", file, err)
	}
	p := &planFile{dir: filepath.Dir(file)}
	if err := strictyaml.Decode(data, p, strictyaml.Options{}); err != nil {
		return nil, fmt.Errorf("-plan %s: %w", file, err)
	}
	var l problem.List
	if p.Embedded != "" {
		for i, name := range sharingNames {
			if name == p.Embedded {
				p.sharing = loadgentest.Sharing(i)
			}
		}
		if p.sharing.String() != p.Embedded {
			l.Addf("embedded", fmt.Sprintf("use one of %v", sharingNames), "unknown sharing %q", p.Embedded)
		}
	}
	if p.Seed < 0 {
		l.Addf("seed", "use 0 or more", "is %d", p.Seed)
	}
	for i := range p.Tenants {
		p.Tenants[i].load(a, &l, fmt.Sprintf("tenants[%d]", i), p)
	}
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("-plan %s: %w", file, err)
	}
	// What the fields mean together is loadgen's to judge.
	urls := make([]string, len(p.Tenants))
	for i := range urls {
		urls[i] = "http://embedded.invalid"
	}
	plan, err := p.build(urls)
	if err == nil {
		err = plan.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("-plan %s: %w", file, err)
	}
	return p, nil
}

// load reads the tenant's files and checks what belongs to the file format.
func (t *planTenant) load(a *app, l *problem.List, path string, p *planFile) {
	switch {
	case p.Embedded == "" && len(t.Endpoints) == 0:
		l.Addf(path+".endpoints", "add one, or set the plan's embedded", "missing")
	case p.Embedded != "" && len(t.Endpoints) > 0:
		l.Addf(path+".endpoints", "remove them, or embedded", "the tenants are on the embedded GPU")
	}
	for j, e := range t.Endpoints {
		if e.APIKeyEnv != "" && os.Getenv(e.APIKeyEnv) == "" {
			l.Addf(fmt.Sprintf("%s.endpoints[%d].api_key_env", path, j), "export it first", "the variable %s is empty", e.APIKeyEnv)
		}
	}
	loads := 0
	for _, has := range []bool{t.Concurrency != 0, t.Rate != 0, t.Trace != nil} {
		if has {
			loads++
		}
	}
	if loads != 1 {
		l.Addf(path, "set exactly one", "%d of concurrency, rate and trace", loads)
	}
	switch t.Arrivals {
	case "", "constant", "poisson", "gamma":
		if t.Arrivals != "" && t.Rate == 0 {
			l.Addf(path+".arrivals", "set rate", "has no effect without a rate")
		}
	default:
		l.Addf(path+".arrivals", "use constant, poisson or gamma", "is %q", t.Arrivals)
	}
	sources := 0
	for _, has := range []bool{t.Prompts != "", t.Synthetic != nil, t.Trace != nil} {
		if has {
			sources++
		}
	}
	if sources > 1 {
		l.Addf(path, "keep one", "%d of prompts, synthetic and trace", sources)
	}
	var err error
	switch {
	case t.Trace != nil:
		var data []byte
		if data, err = os.ReadFile(filepath.Join(p.dir, t.Trace.File)); err == nil {
			t.trace, err = readTrace(data, windowFlag{time.Duration(t.Trace.From), time.Duration(t.Trace.To)})
		}
		l.AddErr(path+".trace", err)
	case t.Synthetic != nil:
		t.synthetic = t.Synthetic.options(l, path+".synthetic", uint64(p.Seed))
	default:
		file := t.Prompts
		if file != "" {
			file = filepath.Join(p.dir, file)
		}
		if t.prompts, err = a.readPrompts(file); err == nil {
			t.prompts, err = forAPI(t.prompts, t.API, file == "")
		}
		l.AddErr(path+".prompts", err)
	}
}

func (s *planSynthetic) options(l *problem.List, path string, seed uint64) *prompt.SyntheticOptions {
	o := &prompt.SyntheticOptions{
		Input: s.Input.lengths(l, path+".input"), Output: s.Output.lengths(l, path+".output"), Think: time.Duration(s.Think), Seed: seed,
		Prefix: prompt.SharedPrefix{Groups: s.Prefix.Groups, Tokens: s.Prefix.Tokens, Zipf: s.Prefix.Zipf},
	}
	if s.Turns != nil {
		o.Turns = s.Turns.lengths(l, path+".turns")
	}
	if l.Len() == 0 {
		_, err := prompt.NewSynthetic(*o)
		l.AddErr(path, err)
	}
	return o
}

func (p *planLengths) lengths(l *problem.List, path string) prompt.Lengths {
	var found []prompt.Lengths
	if p.Fixed != 0 {
		found = append(found, prompt.Fixed(p.Fixed))
	}
	if n := p.Normal; n != nil {
		found = append(found, prompt.Normal{Mean: n.Mean, StdDev: n.StdDev, Min: n.Min, Max: n.Max})
	}
	if n := p.LogNormal; n != nil {
		found = append(found, prompt.LogNormal{Median: n.Median, Sigma: n.Sigma, Min: n.Min, Max: n.Max})
	}
	if p.Empirical != nil {
		found = append(found, prompt.Empirical(p.Empirical))
	}
	if len(found) != 1 {
		l.Addf(path, "set exactly one of fixed, normal, log_normal and empirical", "%d of them", len(found))
		return nil
	}
	return found[0]
}

// build makes a fresh plan, with prompts from their beginning. urls are the
// embedded servers, one a tenant.
func (p *planFile) build(urls []string) (loadgen.LoadPlan, error) {
	plan := loadgen.LoadPlan{
		Scenario: p.Scenario, Duration: time.Duration(p.Duration), Drain: time.Duration(p.Drain), Seed: uint64(p.Seed), Simulated: p.Embedded != "",
		Window: loadgen.Window{From: time.Duration(p.Window.From), To: time.Duration(p.Window.To)},
	}
	for i := range p.Tenants {
		t := &p.Tenants[i]
		lt := loadgen.Tenant{
			Name: t.Name, Model: t.Model, API: t.API, Routing: t.Routing, Usage: t.Usage, MaxTokens: t.MaxTokens, Requests: t.Requests,
			Warmup: t.Warmup, Probe: t.Probe, Retry: loadgen.Retry{Max: t.Retries},
			SLO: loadgen.RequestSLO{TTFT: time.Duration(t.SLO.TTFT), TPOT: time.Duration(t.SLO.TPOT), E2E: time.Duration(t.SLO.E2E), Stall: time.Duration(t.SLO.Stall)},
		}
		if p.Embedded != "" {
			lt.Endpoints = []loadgen.Endpoint{{URL: urls[i]}}
		}
		for _, e := range t.Endpoints {
			le := loadgen.Endpoint{URL: e.URL, Weight: e.Weight}
			if e.APIKeyEnv != "" {
				le.APIKey = loadgen.Secret(os.Getenv(e.APIKeyEnv))
			}
			for name, value := range e.Header {
				h := headerFlag{le.Header}
				if err := h.Set(name + ":" + value); err != nil {
					return plan, err
				}
				le.Header = h.Header
			}
			lt.Endpoints = append(lt.Endpoints, le)
		}
		var err error
		switch {
		case t.trace != nil:
			lt.Load.Schedule = t.trace.Schedule(t.Trace.Speed)
			lt.Prompts, err = t.trace.Prompts(prompt.TraceOptions{Seed: uint64(p.Seed)})
		case t.synthetic != nil:
			lt.Prompts, err = prompt.NewSynthetic(*t.synthetic)
		default:
			lt.Prompts = loadgen.NewPromptCycle(t.prompts...)
		}
		if err != nil {
			return plan, err
		}
		if t.Rate != 0 {
			s := settings{arrivals: t.Arrivals, burstiness: t.Burstiness}
			lt.Load.Schedule = s.schedule(t.Rate)
		}
		if t.Concurrency != 0 {
			lt.Load = loadgen.OfferedLoad{Concurrency: t.Concurrency, ThinkTime: time.Duration(t.Think), Ramp: time.Duration(t.Ramp)}
		}
		plan.Tenants = append(plan.Tenants, lt)
	}
	return plan, nil
}
