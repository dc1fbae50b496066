package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/capacity/study"
	"github.com/cotenant/cotenant/examples/internal/page"
)

const capacityUsage = `Finds the fewest GPUs for a trace of requests and its objectives, arrangement by arrangement,
and what a million good tokens then cost. It needs no GPU: every candidate is simulated.

  cotenant capacity                          two models, a real trace's shape, three GPUs
  cotenant capacity -trace requests.jsonl -slo ttft_p99=2s,tpot_p99=50ms -gpu L40S=0.90
  cotenant capacity -load 0.25,1,4 -report curves.html    where the cheapest arrangement changes
  cotenant capacity -verify                  the three best as load on simulated servers
  cotenant capacity -verify -endpoint llama-8b=http://host:8000   the best one on your servers

A trace is a file of Mooncake, Bailian, Azure or BurstGPT, or ShareGPT's
conversations (JSON, at one a second); "rate=4,in=500,out=120" is a Poisson stream.
Traces that name several models, and those of one when the profiles are of several,
are divided among the profiles' models. Models are known by the size in their names
(llama-8b); a cost that no profile holds is a prior and widens the answer.

Exit code 1: nothing is known to keep the objectives. Ctrl-C prints what was found.
`

func runCapacity(ctx context.Context, args []string, std stdio) error {
	fl := flagSet("capacity")
	opts := study.Options{Loads: []float64{0.5, 1, 2}}
	var verify study.VerifyOptions
	fl.StringVar(&opts.Trace, "trace", "", "`FILE` of a trace, or rate=R,in=N,out=N (default built-in)")
	fl.StringVar(&opts.SLO, "slo", study.BuiltinSLO, "`objectives`")
	fl.StringVar(&opts.Profiles, "profiles", "", "`FILE` of profiles or rows, as predict reads them (default built-in)")
	fl.Func("gpu", "`NAME=PRICE` an hour in USD, or as 0.90 EUR; repeatable", appendTo(&opts.GPUs))
	load := func(text string) (err error) {
		opts.Loads, err = capacityLoads(text)
		return err
	}
	fl.Func("load", "`multiples` of the trace's rate; the largest decides (default 0.5,1,2)", load)
	fl.Uint64Var(&opts.Seed, "seed", 1, "of every draw")
	asJSON := fl.Bool("json", false, "print JSON")
	html := fl.String("report", "", "write a page with curves to `FILE.html`")
	out := fl.String("out", "", "write the chosen arrangement's routers (inference extension, llm-d) to a new `DIR`")
	run := fl.Bool("verify", false, "run the three best as load and print predicted beside measured")
	fl.DurationVar(&verify.For, "verify-for", 20*time.Second, "how much of the trace each run of -verify replays")
	fl.Func("endpoint", "`MODEL=URL[,URL]` of servers for -verify instead of simulated ones; repeatable",
		appendTo(&verify.Endpoints))
	if err := parse(fl, args, capacityUsage, 0, std); err != nil {
		return err
	}
	s, err := study.Read(opts)
	if err == nil {
		_, err = s.Endpoints(verify.Endpoints)
	}
	if verify.For <= 0 {
		err = errors.Join(err, fmt.Errorf("-verify-for: %v is not above 0", verify.For))
	}
	if len(verify.Endpoints) > 0 && !*run {
		err = errors.Join(err, errors.New("-endpoint: is for -verify: ask for that too"))
	}
	if err != nil {
		return badInput(err)
	}
	live := io.Discard // progress is for a terminal
	if file, ok := std.err.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(file.Fd())) {
		live = std.err
	}
	s.Plan.Progress = capacityProgress(live)
	report, searchErr := s.Search(ctx)
	fmt.Fprint(live, "\r\033[K")
	if errors.Is(searchErr, capacity.ErrInvalid) { // of a request, which are read as they are played
		return badInput(searchErr)
	}
	if report == nil {
		return searchErr
	}
	if *run && searchErr == nil {
		verify.Progress = func(a *capacity.Arrangement) {
			fmt.Fprintf(live, "\r\033[Kverifying %s on %d %s for %v", a.Kind, a.GPUs, a.GPU, verify.For)
		}
		searchErr = s.Verify(ctx, report, verify)
		fmt.Fprint(live, "\r\033[K")
	}
	err = errors.Join(capacityRouters(report, *out), capacityPrint(report, *asJSON, *html, std.out))
	switch {
	case err != nil:
		return errors.Join(err, searchErr)
	case searchErr != nil:
		return fmt.Errorf("%w; what was found is printed", searchErr)
	case report.Chosen == nil:
		return silently(exitNo)
	}
	return nil
}

// appendTo is a repeatable flag's function.
func appendTo(list *[]string) func(string) error {
	return func(s string) error { *list = append(*list, s); return nil }
}

func capacityLoads(text string) (out []float64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return nil, fmt.Errorf("%q: use multiples such as 0.5,1,2", part)
		}
		out = append(out, v)
	}
	return out, nil
}

func capacityRouters(r *study.Report, dir string) error {
	if dir == "" {
		return nil
	}
	folder, err := r.Routers()
	if err != nil || folder == nil {
		return err
	}
	for _, w := range folder.Warnings {
		r.Notes = append(r.Notes, w.Message)
	}
	return folder.Write(dir)
}

func capacityPrint(r *study.Report, asJSON bool, html string, out io.Writer) error {
	var err error
	if asJSON {
		err = r.WriteJSON(out)
	} else {
		var text bytes.Buffer
		err = r.WriteText(&text)
		fmt.Fprint(out, page.Fold(text.String()))
	}
	if html != "" {
		var text bytes.Buffer
		err = errors.Join(err, r.WriteHTML(&text), page.WriteFile(html, text.Bytes()))
	}
	return err
}

// capacityProgress reports twice a second how far the search is.
func capacityProgress(w io.Writer) func(capacity.Progress) {
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
