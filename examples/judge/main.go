// Command judge plays what a decision leads to. It makes random fleets, decides
// each, and plays the outcome event by event in a simulated world that the
// decider does not see; beside it the rules that people follow. Everything it
// prints is simulated. Figures, and why the default confidence is what it is, stand
// in README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/examples/internal/page"
	"gonum.org/v1/gonum/stat/distuv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	debug.SetGCPercent(800) // little is kept of much that is taken
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

type options struct {
	fleets     int
	seed       uint64
	confidence float64
	json       bool
	verbose    bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	stdout, done := page.Check("judge", stdout, stderr)
	defer done(&code)
	var o options
	fs := flag.NewFlagSet("judge", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are reported below
	fs.IntVar(&o.fleets, "fleets", 50, "how many random fleets to decide and play")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of fleets and worlds; the same seed gives the same output")
	fs.Float64Var(&o.confidence, "confidence", decision.DefaultConfidence, "how sure a decision must be that objectives are kept, 0.5 to 0.999")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	fs.BoolVar(&o.verbose, "v", false, "name each workload that missed, and each fleet that cost more than it had to")
	usage := func(w io.Writer) {
		fmt.Fprint(w, "usage: judge [flags]\n\nDecides random fleets and plays what comes of it in simulated worlds,\nbeside the rules that people follow. All figures are simulated.\n\nexit: 0 done; 1 failed or interrupted (what was played is printed); 2 bad input\n\n")
		fmt.Fprint(w, page.Flags(fs))
	}
	fs.Usage = func() {}
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		usage(stdout)
		return 0
	} else if err != nil {
		fmt.Fprintf(stderr, "judge: %v (see -h)\n", err)
		return 2
	}
	var wrong error
	if o.fleets < 1 || o.fleets > 1_000_000 {
		wrong = errors.Join(wrong, fmt.Errorf("-fleets: %d is out of range; use 1 to 1000000", o.fleets))
	}
	if !(o.confidence >= 0.5 && o.confidence <= 0.999) {
		wrong = errors.Join(wrong, fmt.Errorf("-confidence: %v is out of range; use 0.5 to 0.999", o.confidence))
	}
	if fs.NArg() > 0 {
		wrong = errors.Join(wrong, fmt.Errorf("unexpected argument %q; judge takes flags only", fs.Arg(0)))
	}
	if wrong != nil {
		for line := range strings.Lines(wrong.Error() + "\n") {
			fmt.Fprint(stderr, "judge: ", line)
		}
		return 2
	}
	rep, err := judge(ctx, o, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "judge:", err)
		return 1
	}
	if o.json {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(rep)
	} else {
		err = rep.writeText(stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "judge:", err)
		return 1
	}
	if rep.Fleets < o.fleets {
		return 1 // interrupted
	}
	return 0
}

// figure is a mean and a 95th percentile, in percent.
type figure struct {
	Mean float64 `json:"mean"`
	P95  float64 `json:"p95"`
}

// String is the figure as the table shows it.
func (f figure) String() string {
	short := func(v float64) string {
		if v >= 1000 {
			return fmt.Sprintf("%.0f", v)
		}
		return fmt.Sprintf("%.1f", v)
	}
	return short(f.Mean) + ", " + short(f.P95)
}

// outcome sums up what one way of deciding led to. Counts are of workloads.
type outcome struct {
	Decided                  int     `json:"decided"`
	Provisional              int     `json:"provisional"`
	ProvisionalStatedPercent float64 `json:"provisional_stated_percent"` // among workloads whose load was stated
	None                     int     `json:"none"`
	WrongNone                int     `json:"wrong_none"`
	MissedPercent            float64 `json:"missed_percent"`
	ProvisionalMissedPercent float64 `json:"provisional_missed_percent"`
	Overcommitted            int     `json:"overcommitted"` // GPUs
	Regret                   figure  `json:"regret_percent"`
	Hindsight                figure  `json:"hindsight_percent"`
}

type report struct {
	Simulated  bool                `json:"simulated"`
	Fleets     int                 `json:"fleets"`
	Workloads  int                 `json:"workloads"`
	Exhaustive int                 `json:"exhaustive_fleets"` // whose cheapest arrangement was sought among all
	Confidence float64             `json:"confidence"`
	Ours       outcome             `json:"ours"`
	Shown      outcome             `json:"shown"` // the cheapest arrangement that could be shown to do, where ours decided
	Rules      map[string]*outcome `json:"rules"`
	Seed       uint64              `json:"seed"`
}

// tally gathers an outcome while fleets are played.
type tally struct {
	outcome
	missed, provisionalMissed, stated, statedProvisional int
	regret, hindsight                                    []float64
}

func (t *tally) sum() *outcome {
	o := t.outcome
	o.MissedPercent = percent(t.missed, o.Decided)
	o.ProvisionalMissedPercent = percent(t.provisionalMissed, o.Provisional)
	o.ProvisionalStatedPercent = percent(t.statedProvisional, t.stated)
	o.Regret, o.Hindsight = figureOf(t.regret), figureOf(t.hindsight)
	return &o
}

func percent(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return math.Round(1e4*float64(n)/float64(of)) / 100
}

func figureOf(v []float64) figure {
	if len(v) == 0 {
		return figure{}
	}
	slices.Sort(v)
	mean, _ := moments(v)
	return figure{math.Round(1e4*mean) / 100, math.Round(1e4*v[min(len(v)-1, int(math.Ceil(0.95*float64(len(v))))-1)]) / 100}
}

func judge(ctx context.Context, o options, progress io.Writer) (*report, error) {
	sp, err := readSpreads()
	if err != nil {
		return nil, err
	}
	dist, err := readDistributions()
	if err != nil {
		return nil, err
	}
	rep := &report{Simulated: true, Confidence: o.confidence, Seed: o.seed, Rules: map[string]*outcome{}}
	ours, byRule := &tally{}, make([]*tally, len(rules))
	for i := range byRule {
		byRule[i] = &tally{}
	}
	j := &bench{o: o, spreads: sp, z: distuv.UnitNormal.Quantile(o.confidence), log: io.Discard}
	if o.verbose {
		j.log = progress
	}
	told := time.Now()
	for n := range o.fleets {
		if ctx.Err() != nil {
			fmt.Fprintf(progress, "interrupted after %d of %d fleets; what was played is kept\n", n, o.fleets)
			break
		}
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			fmt.Fprintf(progress, "%d of %d fleets\n", n, o.fleets)
		}
		rng := rand.New(rand.NewPCG(o.seed, uint64(n)))
		s, err := dist.scene(rng)
		if err != nil {
			return nil, fmt.Errorf("fleet %d: %w", n, err)
		}
		w := sp.draw(rng, len(s.full.Workloads), rng.IntN(sp.Outliers) == 0)
		if err := j.fleet(n, s, w, ours, byRule, rep); err != nil {
			return nil, fmt.Errorf("fleet %d: %w", n, err)
		}
	}
	rep.Ours = *ours.sum()
	rep.Shown = *j.shown.sum()
	for i, r := range rules {
		rep.Rules[r.name] = byRule[i].sum()
	}
	return rep, nil
}

func (r *report) writeText(w io.Writer) error {
	fmt.Fprintf(w, "SIMULATED: %d fleets with %d workloads, seed %d, confidence %v; the cheapest arrangement was sought\namong all in %d fleets, elsewhere the best found stands for it.\n\n", r.Fleets, r.Workloads, r.Seed, r.Confidence, r.Exhaustive)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tdeci-\tprovi-\tnone\twrong\tmissed\tprov.\tover\tregret %\thindsight %")
	fmt.Fprintln(t, "\tded\tsional\t\tnone\t%\tmiss %\t\tmean, P95\tmean, P95")
	line := func(name string, o *outcome) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%.2f\t%.1f\t%d\t%s\t%s\n", name, o.Decided, o.Provisional, o.None, o.WrongNone,
			o.MissedPercent, o.ProvisionalMissedPercent, o.Overcommitted, o.Regret, o.Hindsight)
	}
	line("decision", &r.Ours)
	line("could be shown", &r.Shown)
	for _, rule := range rules {
		line(rule.label, r.Rules[rule.name])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nCounts are of workloads; over: GPUs out of memory. Provisional where the load was stated: %.1f%%.\nRegret is what is paid over the cheapest arrangement that could be shown to keep the objectives\nfrom the same information; hindsight knows the world.\n", r.Ours.ProvisionalStatedPercent)
	return err
}
