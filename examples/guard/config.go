package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/predict"
	printed "github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
)

// file is the configuration of -config.
type file struct {
	GPUs     []fileGPU           `yaml:"gpus"`
	Tenants  []fileTenant        `yaml:"tenants"`
	Profiles string              `yaml:"profiles"`  // file, as predict reads it
	Predict  string              `yaml:"predictor"` // file of a calibrated predictor
	Hooks    map[string][]string `yaml:"hooks"`     // command and arguments by action
	Policy   string              `yaml:"policy"`    // of reaping, as ParseReapPolicy reads it
}

type fileGPU struct {
	Index     int    `yaml:"index"`
	Mechanism string `yaml:"mechanism"`
	MIG       bool   `yaml:"mig"`
}

type fileTenant struct {
	Name    string       `yaml:"name"`
	Kind    string       `yaml:"kind"`
	GPU     int          `yaml:"gpu"`
	Holds   *float64     `yaml:"holds"`
	PIDs    []uint32     `yaml:"pids"`
	Command string       `yaml:"command"` // part of its processes' command line
	Probe   *fileProbe   `yaml:"probe"`
	Metrics string       `yaml:"metrics"` // URL of a vLLM or SGLang server's /metrics
	Profile *fileProfile `yaml:"profile"`
	Expect  []float64    `yaml:"expect_tpot_ms"` // low, high
	LimitMS float64      `yaml:"tpot_ms"`
	MayReap bool         `yaml:"may_be_reaped"`
	Owner   string       `yaml:"owner"`
}

// fileProfile says which of the profiles is a tenant's.
type fileProfile struct {
	Model       string  `yaml:"model"`
	Slots       int     `yaml:"slots"`
	SMPercent   float64 `yaml:"sm_percent"`
	Variant     string  `yaml:"variant"`
	Concurrency int     `yaml:"concurrency"`
	Rate        float64 `yaml:"rate"`
	Prompt      int     `yaml:"prompt"`
	Output      int     `yaml:"output"`
}

// fileProbe is how a tenant's latency is measured: one short request after
// another.
type fileProbe struct {
	URL       string        `yaml:"url"`
	Model     string        `yaml:"model"`
	Every     time.Duration `yaml:"every"`
	MaxTokens int           `yaml:"max_tokens"`
}

// minProbe keeps a probe from being the disturbance that it looks for.
const minProbe = 100 * time.Millisecond

// owns is what its processes are known by.
func (t *fileTenant) owns() (out []string) {
	if t.Command != "" {
		out = append(out, fmt.Sprintf("command %q", t.Command))
	}
	for _, pid := range t.PIDs {
		out = append(out, fmt.Sprintf("process %d", pid))
	}
	return out
}

// tenantName keeps log lines, environments and the API's paths whole.
var tenantName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$`)

// setup is what a configuration says.
type setup struct {
	gpus      []gpu
	tenants   []tenant
	sources   []fileTenant
	profiles  *predict.Profiles
	predictor *predict.Predictor
	hooks     map[action][]string
	policy    telemetry.ReapPolicy
}

// outside is a proposal with the devices' own indices in place of their positions
// among gpus.
func (s *setup) outside(p proposal) proposal {
	p.GPU = s.gpus[p.GPU].Index
	if p.To != nil {
		to := s.gpus[*p.To].Index
		p.To = &to
	}
	return p
}

// load reads a configuration, naming every problem with its place.
func load(path string) (*setup, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("-config: %w", err)
	}
	return parseSetup(path, data)
}

// parseSetup reads a configuration's text.
func parseSetup(path string, data []byte) (*setup, error) {
	var f file
	err := printed.YAML(data, &f)
	r := reading{
		path: path, s: &setup{hooks: map[action][]string{}, policy: telemetry.ReapPolicies()[0]},
		at: map[int]int{}, names: map[string]bool{}, whose: map[string]int{},
	}
	if err != nil {
		for problem := range strings.SplitSeq(err.Error(), "\n") {
			r.probs = append(r.probs, fmt.Errorf("%s: %s", path, problem))
		}
		if len(f.GPUs)+len(f.Tenants) == 0 {
			return nil, errors.Join(r.probs...)
		}
	}
	r.rules(f)
	r.gpus(f.GPUs)
	if len(f.Tenants) == 0 {
		r.bad("tenants", "none (name each tenant: name, kind, gpu, and metrics or probe if it serves)")
	}
	for i, t := range f.Tenants {
		r.tenant(i, t)
	}
	r.predictions(f)
	return r.s, errors.Join(r.probs...)
}

// reading is a configuration that is being read, and what is wrong with it.
type reading struct {
	path  string
	s     *setup
	probs []error
	at    map[int]int     // positions among gpus by index
	names map[string]bool // of the tenants so far
	whose map[string]int  // the tenant that a command or a process belongs to
}

func (r *reading) bad(where, format string, args ...any) {
	r.probs = append(r.probs, fmt.Errorf("%s: %s: %s", r.path, where, fmt.Sprintf(format, args...)))
}

func (r *reading) rules(f file) {
	if f.Policy != "" {
		var err error
		if r.s.policy, err = telemetry.ParseReapPolicy(f.Policy); err != nil {
			r.bad("policy", "%v", err)
		}
	}
	for name, hook := range f.Hooks {
		if a := action(name); !a.acts() && a != actionNotice {
			r.bad("hooks."+name, "no action of that name (use notice, cap, move or reap)")
		} else if len(hook) == 0 || hook[0] == "" {
			r.bad("hooks."+name, "no command (use a list: the program, then its arguments)")
		} else {
			r.s.hooks[a] = hook
		}
	}
}

func (r *reading) gpus(gpus []fileGPU) {
	if len(gpus) == 0 {
		r.bad("gpus", "none (name each GPU: index, mechanism)")
	}
	for i, g := range gpus {
		where := fmt.Sprintf("gpus[%d]", i)
		var m sharing.Mechanism
		if err := m.UnmarshalText([]byte(g.Mechanism)); err != nil {
			r.bad(where+".mechanism", "%v", err)
		}
		if _, twice := r.at[g.Index]; twice || g.Index < 0 {
			r.bad(where+".index", "%d is negative or there twice", g.Index)
		}
		r.at[g.Index] = i
		r.s.gpus = append(r.s.gpus, gpu{Index: g.Index, Mechanism: m, MIG: g.MIG})
	}
}

func (r *reading) tenant(i int, t fileTenant) {
	where := fmt.Sprintf("tenants[%d]", i)
	if !tenantName.MatchString(t.Name) || r.names[t.Name] {
		r.bad(where+".name", "%q (use letters, digits, '.', '_' and '-', as in namespace/pod, each name once)", t.Name)
	}
	r.names[t.Name] = true
	out := tenant{Name: t.Name, Holds: 1, LimitMS: t.LimitMS, MayReap: t.MayReap, Owner: t.Owner}
	if err := out.Kind.UnmarshalText([]byte(t.Kind)); err != nil {
		r.bad(where+".kind", "%v", err)
	}
	gpu, ok := r.at[t.GPU]
	if !ok {
		r.bad(where+".gpu", "%d is not among gpus", t.GPU)
	}
	out.GPU = gpu
	if t.Holds != nil {
		if out.Holds = *t.Holds; !(out.Holds > 0 && out.Holds <= 1) {
			r.bad(where+".holds", "%v (use the part of the GPU that is reserved for it, above 0 and up to 1)", out.Holds)
		}
	}
	if !(t.LimitMS >= 0) {
		r.bad(where+".tpot_ms", "%v (use milliseconds, or leave it out)", t.LimitMS)
	}
	out.Expect = r.expected(where, t.Expect)
	if out.Kind == decision.KindOnlineInference && t.Probe == nil && t.Metrics == "" {
		r.bad(where, "nothing tells its latency (add metrics or probe)")
	}
	if t.Command == "" && len(t.PIDs) == 0 {
		r.bad(where, "nothing tells which processes are its own (add command or pids)")
	}
	for _, own := range t.owns() {
		if k, twice := r.whose[own]; twice {
			r.bad(where, "%s is tenants[%d]'s already", own, k)
		}
		r.whose[own] = i
	}
	r.source(where, t)
	r.s.tenants = append(r.s.tenants, out)
	r.s.sources = append(r.s.sources, t)
}

// expected are the figures that a tenant is said to have, if they are.
func (r *reading) expected(where string, figures []float64) (out telemetry.Optional[predict.Interval]) {
	switch len(figures) {
	case 0:
	case 2:
		if !(figures[0] > 0 && figures[1] >= figures[0]) {
			r.bad(where+".expect_tpot_ms", "%v (use [low, high] in milliseconds)", figures)
		}
		out = telemetry.Some(predict.Interval{Value: (figures[0] + figures[1]) / 2, Low: figures[0], High: figures[1]})
	default:
		r.bad(where+".expect_tpot_ms", "%d figures (use [low, high])", len(figures))
	}
	return out
}

// source checks where a tenant's latency comes from.
func (r *reading) source(where string, t fileTenant) {
	if p := t.Probe; p != nil {
		if !strings.HasPrefix(p.URL, "http://") && !strings.HasPrefix(p.URL, "https://") {
			r.bad(where+".probe.url", "%q (use an OpenAI-compatible server's http:// or https:// address)", p.URL)
		}
		if p.Every != 0 && p.Every < minProbe {
			r.bad(where+".probe.every", "%v (use %v or more, or leave it out)", p.Every, minProbe)
		}
		if p.MaxTokens != 0 && p.MaxTokens < 2 {
			r.bad(where+".probe.max_tokens", "%d (the time between tokens takes two or more; or leave it out)", p.MaxTokens)
		}
	}
	if t.Metrics != "" && !strings.HasPrefix(t.Metrics, "http://") && !strings.HasPrefix(t.Metrics, "https://") {
		r.bad(where+".metrics", "%q (use the http:// or https:// address of the server's metrics page)", t.Metrics)
	}
}

func (r *reading) predictions(f file) {
	var err error
	predictor := predict.NewPredictor()
	r.s.predictor = &predictor
	if f.Predict != "" {
		if r.s.predictor, err = predict.LoadPredictor(f.Predict); err != nil {
			r.bad("predictor", "%v", err)
		}
	}
	if r.s.profiles, err = predict.NewProfiles(); err != nil {
		r.bad("profiles", "%v", err)
		return
	}
	if f.Profiles != "" {
		if r.s.profiles, err = predict.LoadProfiles(f.Profiles); err != nil {
			r.bad("profiles", "%v", err)
			return
		}
	}
	for i, t := range f.Tenants {
		if t.Profile == nil {
			continue
		}
		server, load := t.Profile.key()
		r.s.tenants[i].Server, r.s.tenants[i].Load = server, load
		if _, err := r.s.profiles.Solo(server, load); err != nil {
			r.bad(fmt.Sprintf("tenants[%d].profile", i), "%v (measure it alone, or leave profile out: its usual latency is then learnt)", err)
		}
	}
}

func (p *fileProfile) key() (predict.Server, predict.Load) {
	server := predict.Server{Model: p.Model, Variant: p.Variant}
	if p.Slots > 0 {
		server.Slots = predict.Some(p.Slots)
	}
	if p.SMPercent > 0 {
		server.SMPercent = predict.Some(p.SMPercent)
	}
	return server, predict.Load{Concurrency: p.Concurrency, Rate: p.Rate, Prompt: p.Prompt, Output: p.Output}
}
