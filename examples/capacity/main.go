// Command capacity says how many GPUs a trace of requests needs within its
// objectives, arrangement by arrangement, and what a million good tokens then cost. It
// needs no GPU: every candidate is simulated.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/capacity"
	printed "github.com/cotenant/cotenant/examples/internal/page"
	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

const usage = `capacity finds the fewest GPUs for a trace and its objectives.

  capacity                                        two models, a real trace's shape, three GPUs
  capacity -trace requests.jsonl -slo ttft_p99=2s,tpot_p99=50ms -gpu L40S=0.90
  capacity -load 0.25,1,4 -html curves.html       where the cheapest arrangement changes
  capacity -verify                                the three best as load on simulated servers
  capacity -endpoint llama-8b=http://host:8000 -verify    the chosen one on your servers

A trace is a file of Mooncake, Bailian, Azure or BurstGPT, or ShareGPT's
conversations (JSON, at one a second); "rate=4,in=500,out=120" is a Poisson stream.
Traces that name several models, and those of one when the profiles are of several,
are divided among the profiles' models. Models are known by the size in their names
(llama-8b); what no profile says is a prior and widens the answer.

Exit codes: 0 done, 1 failed or interrupted (what was found is printed), 2 bad input,
3 nothing is known to keep the objectives.

Flags:
`

type options struct {
	trace, slo, profiles, html string
	out                        string
	gpus, endpoints            []string
	loads                      string
	seed                       uint64
	json, verify               bool
	verifyFor                  time.Duration
}

// run is the command: 0 is success, 1 a failure, 2 bad input, 3 no arrangement.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	stdout, done := printed.Check("capacity", stdout, stderr)
	defer done(&code)
	fs := flag.NewFlagSet("capacity", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	var o options
	fs.StringVar(&o.trace, "trace", "builtin", "`FILE` of a trace, builtin, or rate=R,in=N,out=N")
	fs.StringVar(&o.slo, "slo", "", "objectives (default "+builtinSLO+")")
	fs.StringVar(&o.profiles, "profiles", "", "`FILE` of profiles or rows, as predict reads them (default built-in)")
	fs.Func("gpu", "`NAME=PRICE` an hour in USD, or as 0.90 EUR; repeatable", func(s string) error { o.gpus = append(o.gpus, s); return nil })
	fs.StringVar(&o.loads, "load", "0.5,1,2", "`multiples` of the trace's rate; the largest decides")
	fs.Uint64Var(&o.seed, "seed", 1, "of what is drawn")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	fs.StringVar(&o.html, "html", "", "write a page with curves to `FILE`")
	fs.StringVar(&o.out, "out", "", "write the chosen arrangement's routers (inference extension, llm-d) to a new `DIR`")
	fs.BoolVar(&o.verify, "verify", false, "run the three best as load and print predicted beside measured")
	fs.DurationVar(&o.verifyFor, "verify-for", 20*time.Second, "how much of the trace each run of -verify replays")
	fs.Func("endpoint", "`MODEL=URL[,URL]` of servers for -verify instead of simulated ones; repeatable", func(s string) error { o.endpoints = append(o.endpoints, s); return nil })
	fail := func(code int, err error) int {
		printed.Fail("capacity", stderr, err)
		return code
	}
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		fmt.Fprint(stdout, printed.Flags(fs))
		return 0
	case err != nil:
		return fail(2, err)
	case fs.NArg() > 0:
		return fail(2, fmt.Errorf("unknown argument %q; a trace is given with -trace", fs.Arg(0)))
	}
	in, err := o.read()
	if err != nil {
		return fail(2, err)
	}
	live := io.Discard // progress is for a terminal
	if file, ok := stderr.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(file.Fd())) {
		live = stderr
	}
	in.plan.Progress = progress(live)
	result, searchErr := in.plan.Search(ctx)
	fmt.Fprint(live, "\r\033[K")
	if errors.Is(searchErr, capacity.ErrInvalid) {
		return fail(2, errors.New(strings.ReplaceAll(searchErr.Error(), capacity.ErrInvalid.Error()+": ", "")))
	}
	if result == nil {
		return fail(1, searchErr)
	}
	rep := &report{Simulated: true, Seed: o.seed, SLO: in.slo, Notes: in.notes, Result: result, load: slices.Max(in.plan.Loads), interrupted: ctx.Err() != nil}
	if o.verify && searchErr == nil {
		rep.Verified, searchErr = in.verify(ctx, result, &o, live)
	}
	if err := errors.Join(rep.writeRouters(o.out), rep.write(stdout, &o)); err != nil {
		return fail(1, err)
	}
	switch {
	case errors.Is(searchErr, context.Canceled):
		return fail(1, errors.New("interrupted; what was found until then is printed"))
	case searchErr != nil:
		return fail(1, fmt.Errorf("%w; what was found is printed", searchErr))
	case result.Chosen == nil:
		return 3
	}
	return 0
}

// report is what the command prints; its JSON is the command's.
type report struct {
	Simulated bool     `json:"simulated"`
	Seed      uint64   `json:"seed"`
	SLO       string   `json:"slo"`
	Notes     []string `json:"notes,omitempty"`
	*capacity.Result
	Verified []verified `json:"verified,omitempty"`

	load        float64 // the one that decides
	interrupted bool
}

func (r *report) write(stdout io.Writer, o *options) (err error) {
	if o.json {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		err = r.writeText(stdout)
	}
	if o.html == "" {
		return err
	}
	f, errHTML := os.Create(o.html)
	if errHTML == nil {
		errHTML = errors.Join(r.writeHTML(f), f.Close())
	}
	if errHTML != nil {
		errHTML = fmt.Errorf("-html: %w", errHTML)
	}
	return errors.Join(err, errHTML)
}

// progress says twice a second where the search stands.
func progress(w io.Writer) func(capacity.Progress) {
	var last time.Time
	return func(p capacity.Progress) {
		if time.Since(last) < 500*time.Millisecond {
			return
		}
		last = time.Now()
		if p.Of > 0 {
			fmt.Fprintf(w, "\r\033[Kthe whole trace on the chosen arrangement: %d of %d requests", p.Whole, p.Of)
			return
		}
		fmt.Fprintf(w, "\r\033[Kload %g: %s on %d %s, simulation %d", p.Load, p.Kind, p.GPUs, p.GPU, p.Plays)
	}
}
