package study

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/prompt"
	"github.com/cotenant/cotenant/loadgen/report"
)

//go:embed prompts.jsonl
var builtinPrompts []byte

// Prompts returns a small set of questions for tenants that bring none.
func Prompts() ([]loadgen.Prompt, error) { return prompt.Read(bytes.NewReader(builtinPrompts)) }

// hosting describes equal servers on simulated GPUs.
type hosting struct {
	sharing       string // see File.Embedded
	gpus, servers int
	sm, bandwidth float64 // the share of its GPU that each server may use
	slots         int     // answers under way at once in a server; 0 means loadgentest's default
}

// scenarios puts model replicas on one simulated GPU.
var scenarios = map[string]*hosting{
	"baseline":     {Partitioned, 1, 1, 1, 1, 0},
	"time-slicing": {TimeSliced, 1, 2, 1, 1, 0},
	"mps":          {Concurrent, 1, 2, 1, 1, 0},
	// MPS with an active thread percentage each: the SMs are parted, the memory is not.
	"mig-emulation": {Concurrent, 1, 2, 0.5, 1, 0},
	"mig":           {Partitioned, 1, 2, 0.5, 0.5, 0},
}

// ScenarioNames returns the names that Config.Scenarios knows, sorted.
func ScenarioNames() []string { return slices.Sorted(maps.Keys(scenarios)) }

// simulatedModel is small, so that tests are short, and wants more than half of the
// SMs and of the bandwidth, so that two of them contend.
var simulatedModel = loadgentest.Model{
	StepKernels: 12, KernelMean: 400 * time.Microsecond, PrefillPerToken: 10 * time.Microsecond,
	SMDemand: 0.7, BandwidthDemand: 0.6,
}

func (t *test) open(h *hosting) (*loadgentest.Simulation, error) {
	var seats []loadgentest.Seat
	for i := range h.servers {
		s := seat(h.sm, h.bandwidth)
		s.Index, s.Slots, s.Pipe = i%h.gpus, h.slots, t.inMemory
		seats = append(seats, s)
	}
	var gpus []loadgentest.GPUOptions
	for range h.gpus {
		gpus = append(gpus, loadgentest.GPUOptions{Device: t.device(h.sharing), Seed: t.File.Seed})
	}
	return loadgentest.NewSimulation(gpus, seats...)
}

// device is the GPU that servers share, nil where each has one, or a part, to itself.
func (c *Config) device(sharing string) loadgentest.Device {
	if sharing == Partitioned {
		return nil
	}
	return c.Device(sharing)
}

func seat(sm, bandwidth float64) loadgentest.Seat {
	m := simulatedModel
	m.SMShare, m.BandwidthShare = sm, bandwidth
	return loadgentest.Seat{Options: loadgentest.Options{Model: m, NoLog: true}}
}

// embedTenants starts a server for each of the plan's tenants, nil where they name endpoints.
func (c *Config) embedTenants() (*loadgentest.Simulation, error) {
	p := &c.File
	if p.Embedded == "" {
		return nil, nil
	}
	var seats []loadgentest.Seat
	for _, t := range p.Tenants {
		seats = append(seats, seat(t.SMShare, t.BandwidthShare))
	}
	return loadgentest.NewSimulation([]loadgentest.GPUOptions{{Device: c.device(p.Embedded), Seed: p.Seed}}, seats...)
}

// demoTenants are the demonstration's two tenants, each with the users of the load.
var demoTenants = []struct {
	name   string
	tokens int           // of an answer
	e2e    time.Duration // the SLO
}{{"chat", 16, 400 * time.Millisecond}, {"digest", 32, 800 * time.Millisecond}}

// demoSlots is the number of answers of one tenant that are under way at once.
const demoSlots = 16

// demoPart is one way for the tenants to have GPUs.
type demoPart struct {
	name, about string
	hosting
}

var demoParts = []demoPart{
	{"exclusive", "two GPUs, one for each tenant",
		hosting{Partitioned, 2, 2, 1, 1, demoSlots}},
	{"time-slicing", "one GPU, the tenants' servers take turns of 2.09 ms",
		hosting{TimeSliced, 1, 2, 1, 1, demoSlots}},
	{"mps", "one GPU, the servers' kernels run side by side and contend",
		hosting{Concurrent, 1, 2, 1, 1, demoSlots}},
	{"mig", "one GPU cut in two: 3 of 7 SM slices and half of the bandwidth for each server",
		hosting{Partitioned, 1, 2, 3. / 7, 0.5, demoSlots}},
	{"merged", "one GPU, one server: both tenants' answers share its batches",
		hosting{Partitioned, 1, 1, 1, 1, 2 * demoSlots}},
}

// DemoGPUs returns the number of GPUs behind a scenario of a demonstration's results.
func DemoGPUs(scenario string) int {
	return demoParts[slices.IndexFunc(demoParts, func(p demoPart) bool { return p.name == scenario })].gpus
}

// runDemo measures every part at every load.
func (t *test) runDemo(ctx context.Context) error {
	t.several = true
	for i := range demoParts {
		p := &demoParts[i]
		sim, err := t.open(&p.hosting)
		if err != nil {
			return err
		}
		if err := errors.Join(t.runPart(ctx, p, sim), sim.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (t *test) runPart(ctx context.Context, p *demoPart, sim *loadgentest.Simulation) error {
	for _, l := range t.levels() {
		f := t.File
		f.Scenario, f.Tenants = p.name, nil
		var servers []loadgen.Endpoint
		for i, d := range demoTenants {
			tenant := t.File.Tenants[0]
			tenant.Name, tenant.MaxTokens, tenant.SLO.E2E = d.name, d.tokens, d.e2e
			l.apply(&tenant)
			f.Tenants = append(f.Tenants, tenant)
			servers = append(servers, sim.Endpoints()[i%p.servers])
		}
		fresh := func() (loadgen.LoadPlan, error) { return f.Plan(servers) }
		if err := t.undisturbed(ctx, p.name+"-"+l.name, fresh); err != nil {
			return err
		}
	}
	return nil
}

// maxAgain bounds the repetitions of a disturbed run of the demonstration.
const maxAgain = 2

// undisturbed makes a run again that the machine disturbed: the GPUs are simulated,
// and the machine that they happen to run on is no part of them.
func (t *test) undisturbed(ctx context.Context, name string, fresh func() (loadgen.LoadPlan, error)) error {
	for again := 0; ; again++ {
		plan, err := fresh()
		if err != nil {
			return err
		}
		res, err := t.run(ctx, name, plan, false)
		if err != nil || res.Summary.ClientHealth.Valid || again == maxAgain {
			return err
		}
		t.Note(name + ": disturbed, made again (" + strings.Join(res.Summary.ClientHealth.Reasons, "; ") + ")")
		t.Results = t.Results[:len(t.Results)-1]
		if err := os.RemoveAll(res.Dir); err != nil {
			return err
		}
	}
}

// writeDemo describes the parts and tabulates their results.
func writeDemo(w io.Writer, results []*loadgen.Result) error {
	chat, digest := demoTenants[0], demoTenants[1]
	fmt.Fprintf(w, "%s\n\nTwo tenants with servers of one model: chat answers in %d tokens, digest in %d, %d answers at\n"+
		"once each; further ones wait. They are good within %v and %v.\n\n",
		report.SyntheticNote, chat.tokens, digest.tokens, demoSlots, chat.e2e, digest.e2e)
	for _, p := range demoParts {
		fmt.Fprintf(w, "  %-13s %s\n", p.name, p.about)
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "\tusers\ttokens/s\tP99 chat\tP99 digest\tslower\tslower\t")
	fmt.Fprintln(tw, "scenario\teach\t\t(s)\t(s)\tchat\tdigest\t")
	alone := map[float64]*loadgen.Summary{} // by load
	for _, r := range results {
		s := &r.Summary
		level := report.LevelOf(s).Value
		if s.Scenario == demoParts[0].name {
			alone[level] = s
		}
		fmt.Fprintf(tw, "%s\t%v\t%.0f", s.Scenario, level/float64(len(demoTenants)), s.OutputTokensPerS)
		for _, d := range demoTenants {
			fmt.Fprint(tw, "\t", tenantFigure(s, d.name, func(m *loadgen.Measures) string {
				return fmt.Sprintf("%.2f", float64(m.E2E.P99)/1e3)
			}))
		}
		for _, d := range demoTenants {
			fmt.Fprint(tw, "\t", tenantFigure(s, d.name, func(m *loadgen.Measures) string {
				return tenantFigure(alone[level], d.name, func(base *loadgen.Measures) string {
					return fmt.Sprintf("%.1fx", float64(m.E2E.P50)/float64(base.E2E.P50))
				})
			}))
		}
		fmt.Fprintln(tw, "\t")
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nslower: median latency against that on a GPU of its own under the same load.")
	return err
}

// tenantFigure returns a figure of a run's tenant, "-" where it has no answer.
func tenantFigure(s *loadgen.Summary, name string, figure func(*loadgen.Measures) string) string {
	if s == nil {
		return "-"
	}
	if t, ok := s.Tenant(name); ok && t.E2E.Count > 0 {
		return figure(&t.Measures)
	}
	return "-"
}
