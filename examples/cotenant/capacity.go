package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cotenant/cotenant/decision/capacity"
	"github.com/cotenant/cotenant/decision/capacity/study"
	"github.com/cotenant/cotenant/examples/internal/page"
)

//go:embed usage/capacity.txt
var capacityUsage string

func runCapacity(ctx context.Context, args []string, std stdio) error {
	fl := flagSet("capacity")
	opts, verify, html := study.Options{}, study.VerifyOptions{}, ""
	fl.StringVar(&opts.Trace, "trace", "", "`FILE` of a trace, or rate=R,in=N,out=N (default built-in)")
	fl.StringVar(&opts.SLO, "slo", study.BuiltinSLO, "`objectives`")
	fl.Func("model", "`NAME=config.json` of Hugging Face, or NAME=params:7e9,fp8; repeatable", appendTo(&opts.Models))
	fl.StringVar(&opts.Fleet, "fleet", "", "`FILE` of a fleet whose workloads state their models")
	fl.StringVar(&opts.Profiles, "profiles", "", "`FILE` of profiles or rows, as predict reads them (default built-in)")
	fl.StringVar(&opts.Predictor, "predictor", "", "`FILE` of a predictor, for the constants of sharing")
	fl.StringVar(&opts.Scheduling.Engine, "engine", "vllm", "`ENGINE`: vllm or sglang, an older one as vllm@0.8")
	fl.IntVar(&opts.Scheduling.ChunkTokens, "max-batched-tokens", 0, "of a step (default the engine's)")
	fl.IntVar(&opts.Scheduling.Sequences, "max-seqs", 0, "at once (default the engine's)")
	fl.BoolVar(&opts.ProfiledLimits, "profiled-limits", false, "hold servers to the profiled ones' sequences")
	fl.StringVar(&opts.Timestamps, "timestamps", "", "the trace's `unit`, s or ms (default its format's)")
	fl.Func("gpu", "`NAME=PRICE` an hour in USD, or as 0.90 EUR; repeatable", appendTo(&opts.GPUs))
	fl.Func("load", "`multiples` of the trace's rate; the largest decides (default 1)", opts.SetLoads)
	fl.Uint64Var(&opts.Seed, "seed", 1, "of every draw")
	asJSON := fl.Bool("json", false, "print JSON")
	page.Report(fl, &html, "write a page with money and objectives against load")
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
	if there, _ := os.ReadDir(*out); len(there) > 0 {
		err = errors.Join(err, fmt.Errorf("-out: %s is not empty (name a new folder)", *out))
	}
	if err != nil {
		return badInput(err)
	}
	live := io.Discard // progress is for a terminal
	if tty, _ := terminal(std.err); tty {
		live = std.err
	}
	var last time.Time
	s.Plan.Progress = func(p capacity.Progress) {
		if time.Since(last) > time.Second/2 {
			last = time.Now()
			fmt.Fprintf(live, "\r\033[K%s", p)
		}
	}
	report, searchErr := s.Search(ctx)
	fmt.Fprint(live, "\r\033[K")
	if errors.Is(searchErr, capacity.ErrInvalid) { // of a request, which are read as they are played
		return badInput(searchErr)
	}
	if report == nil {
		return searchErr
	}
	if (*run || len(verify.Endpoints) > 0) && searchErr == nil {
		verify.Progress = func(a *capacity.Arrangement) {
			fmt.Fprintf(live, "\r\033[Kverifying %s on %d %s for %v", a.Kind, a.GPUs, a.GPU, verify.For)
		}
		searchErr = s.Verify(ctx, report, verify)
		fmt.Fprint(live, "\r\033[K")
	}
	if *out != "" {
		err = report.WriteRouters(*out)
	}
	var text bytes.Buffer
	if *asJSON {
		err = errors.Join(err, report.WriteJSON(std.out))
	} else {
		err = errors.Join(err, report.WriteText(&text), printText(std.out, page.Fold(text.String())))
	}
	err = errors.Join(err, page.WriteHTML(html, report.Page()))
	switch {
	case err != nil:
		return errors.Join(err, searchErr)
	case searchErr != nil:
		return fmt.Errorf("%w; what was found is printed", searchErr)
	case report.Chosen == nil:
		return &exitError{Code: exitNo}
	}
	return nil
}

// appendTo is a repeatable flag's function.
func appendTo(list *[]string) func(string) error {
	return func(s string) error { *list = append(*list, s); return nil }
}
