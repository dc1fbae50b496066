package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/loadgentest"
	"github.com/cotenant/cotenant/loadgen/report"
)

// sceneTenants are the two tenants of the default scene, by the tokens of an
// answer. Each has the level's users.
var sceneTenants = []struct {
	name   string
	tokens int
	e2e    time.Duration // its SLO
}{{"chat", 16, 400 * time.Millisecond}, {"digest", 32, 800 * time.Millisecond}}

const (
	sceneSlots = 16 // answers under way at once, of a tenant
	scenePrice = "3.25 USD"
)

// scenePart is a way for the tenants to have GPUs.
type scenePart struct {
	name, about   string
	sharing       loadgentest.Sharing
	gpus, servers int
	sm, bandwidth float64 // what each server may use of its GPU
}

var sceneParts = []scenePart{
	{"exclusive", "two GPUs, one for each tenant", loadgentest.SharingConcurrent, 2, 2, 1, 1},
	{"time-slicing", "one GPU, the tenants' servers take turns of 2.09 ms", loadgentest.SharingTimeSliced, 1, 2, 1, 1},
	{"mps", "one GPU, the servers' kernels run side by side and contend", loadgentest.SharingConcurrent, 1, 2, 1, 1},
	{"mig", "one GPU cut in two: 3 of 7 SM slices and half of the bandwidth for each server", loadgentest.SharingPartitioned, 1, 2, 3. / 7, 0.5},
	{"merged", "one GPU, one server: both tenants' answers share its batches", loadgentest.SharingConcurrent, 1, 1, 1, 1},
}

// open starts the part's servers.
func (p *scenePart) open(seed uint64, pipe bool) (*loadgentest.Simulation, error) {
	m := simulatedModel
	m.SMShare, m.BandwidthShare = p.sm, p.bandwidth
	var seats []loadgentest.Seat
	for i := range p.servers {
		slots := sceneSlots * len(sceneTenants) / p.servers
		seats = append(seats, loadgentest.Seat{Index: i % p.gpus, Options: loadgentest.Options{Model: m, Slots: slots, Pipe: pipe, NoLog: true}})
	}
	gpus := slices.Repeat([]loadgentest.GPUOptions{{Sharing: p.sharing, Seed: seed}}, p.gpus)
	sim, err := loadgentest.NewSimulation(gpus, seats...)
	if err != nil {
		return nil, failed("cannot start the embedded servers: %w", err)
	}
	return sim, nil
}

// demo is what is measured without arguments: two tenants side by side.
func (s *settings) demo(now time.Time) {
	s.scene = true
	s.concurrency = []int{4, 16, 48}
	s.file.Duration, s.tenant().Warmup = time.Second, 4
	s.report = true
	s.out = now.UTC().Format("benchmark-20060102T150405Z")
}

// runScene measures every part at every level.
func (m *measurement) runScene(ctx context.Context) error {
	m.several = true
	for i := range sceneParts {
		p := &sceneParts[i]
		sim, err := p.open(m.s.file.Seed, m.s.pipe)
		if err != nil {
			return err
		}
		if err := errors.Join(m.runPart(ctx, p, sim), sim.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (m *measurement) runPart(ctx context.Context, p *scenePart, sim *loadgentest.Simulation) error {
	for _, l := range m.s.levels() {
		f := m.s.file
		f.Scenario, f.Tenants = p.name, nil
		var servers []loadgen.Endpoint
		for i, st := range sceneTenants {
			t := *m.s.tenant()
			t.Name, t.MaxTokens, t.SLO.E2E = st.name, st.tokens, st.e2e
			l.apply(&t)
			f.Tenants = append(f.Tenants, t)
			servers = append(servers, sim.Endpoints()[i%p.servers])
		}
		if err := m.undisturbed(ctx, p.name+"-"+l.name, func() (loadgen.LoadPlan, error) { return f.Plan(servers) }); err != nil {
			return err
		}
	}
	return nil
}

// maxAgain is how often a run of the scene is made again.
const maxAgain = 2

// undisturbed makes a run again that the machine disturbed. What the scene shows is
// simulated: the machine that it happens to run on is no part of it.
func (m *measurement) undisturbed(ctx context.Context, name string, fresh func() (loadgen.LoadPlan, error)) error {
	for again := 0; ; again++ {
		plan, err := fresh()
		if err != nil {
			return err
		}
		res, err := m.run(ctx, name, plan, nil)
		if err != nil || res.Summary.ClientHealth.Valid || again == maxAgain {
			return err
		}
		fmt.Fprintf(m.app.stderr, "%s: disturbed, made again (%s)\n", name, strings.Join(res.Summary.ClientHealth.Reasons, "; "))
		m.results = m.results[:len(m.results)-1]
		if err := os.RemoveAll(res.Dir); err != nil {
			return err
		}
	}
}

// writeScene says what the parts are and what came of them.
func writeScene(w io.Writer, results []*loadgen.Result) error {
	price, err := cost.ParseMoney(scenePrice)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n\nTwo tenants with servers of one model: chat answers in %d tokens, digest in %d, %d answers at\nonce each; further ones wait. They are good within %v and %v. A GPU costs %v an hour.\n\n",
		report.SyntheticNote, sceneTenants[0].tokens, sceneTenants[1].tokens, sceneSlots, sceneTenants[0].e2e, sceneTenants[1].e2e, price)
	for _, p := range sceneParts {
		fmt.Fprintf(w, "  %-13s %s\n", p.name, p.about)
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "\tusers\ttokens/s\tP99 chat\tP99 digest\tslower\tslower\t")
	fmt.Fprintln(tw, "scenario\teach\t\t(s)\t(s)\tchat\tdigest\t")
	alone := map[float64]*loadgen.Summary{}
	for _, r := range results {
		s := &r.Summary
		i := slices.IndexFunc(sceneParts, func(p scenePart) bool { return p.name == s.Scenario })
		level := report.LevelOf(s).Value
		if i == 0 {
			alone[level] = s
		}
		var p99, slower []string
		for _, t := range sceneTenants {
			p99 = append(p99, tenantFigure(s, t.name, func(m *loadgen.Measures) string { return fmt.Sprintf("%.2f", float64(m.E2E.P99)/1e3) }))
			slower = append(slower, tenantFigure(s, t.name, func(m *loadgen.Measures) string {
				base, ok := tenantOf(alone[level], t.name)
				if !ok || base.E2E.P50 == 0 {
					return "-"
				}
				return fmt.Sprintf("%.1fx", float64(m.E2E.P50)/float64(base.E2E.P50))
			}))
		}
		fmt.Fprintf(tw, "%s\t%v\t%.0f\t%s\t%s\t\n", s.Scenario, level/float64(len(sceneTenants)), s.OutputTokensPerS, strings.Join(p99, "\t"), strings.Join(slower, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nslower: median latency against that on a GPU of its own under the same load.")
	return writeCosts(w, results, func(s *loadgen.Summary) (cost.Money, error) {
		i := slices.IndexFunc(sceneParts, func(p scenePart) bool { return p.name == s.Scenario })
		return price.Mul(int64(sceneParts[i].gpus))
	})
}

func tenantOf(s *loadgen.Summary, name string) (*loadgen.TenantSummary, bool) {
	if s == nil {
		return nil, false
	}
	return s.Tenant(name)
}

func tenantFigure(s *loadgen.Summary, name string, figure func(*loadgen.Measures) string) string {
	t, ok := tenantOf(s, name)
	if !ok || t.E2E.Count == 0 {
		return "-"
	}
	return figure(&t.Measures)
}
