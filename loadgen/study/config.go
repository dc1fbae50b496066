// SPDX-License-Identifier: Apache-2.0

package study

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/prompt"
	"github.com/cotenant/cotenant/loadgen/report"
)

// Config describes a load test. Without Concurrency, Rates, Scenarios, Search and Demo the tenants of File run
// together, unchanged.
type Config struct {
	// File is the plan, resolved. A sweep and a search use only its first tenant. Resolve reads it from PlanFile where
	// that is not empty.
	File     File
	PlanFile string
	// Concurrency and Rates (requests/s) are the loads of a sweep, one run for each.
	Concurrency []int
	Rates       []float64
	// Scenarios names the simulated GPUs for the first tenant; empty means its own endpoint.
	Scenarios []string
	// Search looks for the highest rate between Low and High at which the first tenant meets its SLO; the zero value means
	// no search.
	Search loadgen.Search
	// Interference runs each tenant of File isolated, then all co-located.
	Interference bool
	// Demo runs two tenants under five ways of sharing simulated GPUs, each at the loads of Concurrency.
	Demo bool
	// Device returns the simulated GPU that servers share, in time slices or, as under MPS, at the same time; see package
	// decision/simgpu. Scenarios, Demo and a File with embedded servers need it.
	Device func(timeSliced bool) loadgentest.Device
	// FailIf holds conditions under which Outcome.Verdict fails.
	FailIf []report.Condition
	// Repeats is the number of runs of each point, with different seeds; 0 means 1.
	Repeats int

	// Dir receives the artifacts: those of one run, or a folder for each of several.
	// It must not exist or must be empty; "" keeps nothing.
	Dir string
	// Progress, when not nil, receives the state of the named run; see loadgen.Options.
	Progress func(run string, now loadgen.Progress)
	// Note, when not nil, receives a line for each run that is repeated, discarded or lengthened.
	Note func(text string)
	// Health and Meta are passed to every run; see loadgen.Options.
	Health loadgen.HealthLimits
	Meta   map[string]any

	inMemory bool // simulated servers are reached through memory, as synctest needs
}

// Check returns an error that names every problem of the configuration except those of File, which Resolve finds.
func (c *Config) Check() error {
	var l problem.List
	l.If(c.Repeats < 0, "repeats", "use 1 or more", "is %d", c.Repeats)
	for _, name := range c.Scenarios {
		l.If(hostingOf(name) == nil, "scenarios", "use one of "+strings.Join(scenarioNames(), ", "),
			"unknown scenario %q", name)
	}
	for _, n := range c.Concurrency {
		l.If(n < 1, "concurrency", "use 1 or more", "is %d", n)
	}
	for _, r := range c.Rates {
		l.If(!(r > 0), "rates", "use a rate above 0", "is %v", r)
	}
	if c.searches() {
		slo, whole := c.File.Tenants[0].SLO, c.File.Tenants[0].NonStreaming
		l.If(!(0 < c.Search.Low && c.Search.Low < c.Search.High), "search", "use 0 < low < high, e.g. 1,50",
			"is %v to %v", c.Search.Low, c.Search.High)
		l.If(slo == (loadgen.RequestSLO{}), "search", "bound ttft, tpot or e2e", "needs an SLO")
		l.If(whole && (slo.TTFT > 0 || slo.TPOT > 0), "search", "bound e2e, or stream",
			"whole answers have neither ttft nor tpot")
		l.If(len(c.Scenarios) > 1, "search", "name one", "searches one scenario at a time, not %d", len(c.Scenarios))
	}
	if c.Dir != "" {
		entries, err := os.ReadDir(c.Dir)
		if err == nil && len(entries) > 0 {
			err = fmt.Errorf("%w: %s (choose another one, or remove it)", loadgen.ErrRunExists, c.Dir)
		}
		if !errors.Is(err, os.ErrNotExist) {
			l.AddErr("out", err)
		}
	}
	return l.Under(errors.New("study: invalid configuration"))
}

// Resolve reads PlanFile or, if it is empty, the files that File names; a first tenant without a load gets the first
// load of the test. Tenants without prompts get opts.Prompts.
func (c *Config) Resolve(opts FileOptions) (err error) {
	if opts.Prompts == nil {
		if opts.Prompts, err = questions(); err != nil {
			return err
		}
	}
	if c.PlanFile != "" {
		file, err := loadFile(c.PlanFile, opts)
		if err == nil {
			c.File = *file
		}
		return err
	}
	if len(c.Scenarios) > 0 || c.Demo {
		c.File.Embedded = "concurrent" // each scenario has its own way
	}
	if levels := append(c.levels(), rateLevel(c.Search.Low)); levels[0] != rateLevel(0) {
		levels[0].apply(&c.File.Tenants[0])
	}
	return c.File.resolve(opts)
}

func (c *Config) searches() bool { return c.Search != loadgen.Search{} }

func (c *Config) levels() []level {
	var out []level
	for _, r := range c.Rates {
		out = append(out, rateLevel(r))
	}
	for _, n := range c.Concurrency {
		out = append(out, level{name: fmt.Sprintf("c%d", n), concurrency: n})
	}
	return out
}

// level is one load of a sweep.
type level struct {
	name        string
	concurrency int
	rate        float64
}

func rateLevel(rate float64) level { return level{name: fmt.Sprintf("r%.6g", rate), rate: rate} }

func (l level) apply(t *Tenant) {
	if t.Concurrency, t.Rate = l.concurrency, l.rate; l.rate == 0 {
		t.Arrivals = ""
	}
}

// hosting describes equal servers on simulated GPUs.
type hosting struct {
	name          string
	about         string // in the demonstration, which has no others
	sharing       string // see File.Embedded
	gpus, servers int
	sm, bandwidth float64 // the share of its GPU that each server may use
	slots         int     // answers under way at once in a server; 0 means loadgentest's default
}

var hostings = []hosting{
	{"baseline", "", partitioned, 1, 1, 1, 1, 0},
	{"exclusive", "two GPUs, one for each tenant", partitioned, 2, 2, 1, 1, demoSlots},
	{"time-slicing", "one GPU, the tenants' servers take turns of 2.09 ms", timeSliced, 1, 2, 1, 1, demoSlots},
	{"mps", "one GPU, the servers' kernels run side by side and contend", concurrent, 1, 2, 1, 1, demoSlots},
	// MPS with an active thread percentage each: the SMs are parted, the memory is not.
	{"mig-emulation", "", concurrent, 1, 2, 0.5, 1, demoSlots},
	{"mig", "one GPU cut in two: 3 of 7 SM slices and half of the bandwidth for each server",
		partitioned, 1, 2, 3. / 7, 0.5, demoSlots},
	{"merged", "one GPU, one server: both tenants' answers share its batches", partitioned, 1, 1, 1, 1, 2 * demoSlots},
}

// hostingOf returns the hosting of a name, nil where there is none.
func hostingOf(name string) *hosting {
	if i := slices.IndexFunc(hostings, func(h hosting) bool { return h.name == name }); i >= 0 {
		return &hostings[i]
	}
	return nil
}

// scenarioNames returns the names that Config.Scenarios knows.
func scenarioNames() (names []string) {
	for _, h := range hostings {
		names = append(names, h.name)
	}
	return names
}

// demoSlots is the number of answers of one tenant that are under way at once.
const demoSlots = 16

//go:embed prompts.jsonl
var builtinPrompts []byte

// questions returns a small set of questions for tenants that bring none.
func questions() ([]loadgen.Prompt, error) { return prompt.Read(bytes.NewReader(builtinPrompts)) }

// Outcome holds the results of a load test, in the order of its runs.
type Outcome struct {
	Results []*loadgen.Result
	// Search is nil unless there was one.
	Search *loadgen.SearchResult

	demo   bool
	failIf []report.Condition
}

// searchFile is the name of a search's outcome in Config.Dir.
const searchFile = "search.json"

var (
	// ErrNothingSucceeded is returned when no request of a load test succeeded.
	ErrNothingSucceeded = errors.New("study: no request succeeded")
	// ErrInvalid is returned when the client distorted a run, or a server's token counts contradict its answers; see
	// loadgen.ClientHealth and loadgen.Summary.Implausible.
	ErrInvalid = errors.New("study: invalid")
)

// test gathers the runs that are made.
type test struct {
	Config
	*Outcome
	several bool // each run has a folder of its own
}

// run makes one run and keeps its result, also when it was cut off.
func (t *test) run(ctx context.Context, name string, plan loadgen.LoadPlan) (*loadgen.Result, error) {
	opts := loadgen.Options{Health: t.Health, Meta: t.Meta}
	if t.Dir != "" {
		opts.Dir = t.Dir
		if t.several {
			opts.Dir = filepath.Join(t.Dir, fileName(name))
		}
	}
	if t.Progress != nil {
		opts.Progress = func(now loadgen.Progress) { t.Progress(name, now) }
	}
	res, err := loadgen.Run(ctx, plan, opts)
	if res != nil {
		t.Results = append(t.Results, res)
	}
	return res, err
}

func (t *test) repeated(name string, repeat int) string {
	if t.Repeats > 1 {
		return fmt.Sprintf("%s-%d", name, repeat+1)
	}
	return name
}

// fileName turns a name into one path element.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>| `, r) {
			return '-'
		}
		return r
	}, name)
}

// write puts a file into the directory of the runs, if there is one.
func (t *test) write(name string, v any) error {
	if t.Dir == "" {
		return nil
	}
	data, err := json.MarshalIndent(v, "", "  ")
	return errors.Join(err, os.MkdirAll(t.Dir, 0o755), os.WriteFile(filepath.Join(t.Dir, name), append(data, '\n'), 0o644))
}
