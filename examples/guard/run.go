package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	printed "github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

type config struct {
	real, json, apply, evict bool
	path, audit, kill        string
	record                   string
	span, window             time.Duration
	policy                   string
	slow, budget             int
	cooldown                 time.Duration
	seed                     uint64
}

const usage = `Watches tenants that share GPUs, compares what they see with what was
predicted, and proposes: keep, notice, cap, move, split or reap, each with its
evidence and the effect to expect. It acts only with -apply, and then only
through the hooks of the configuration (and -evict), never on stale or
contradictory readings, and writes everything to the audit log first.

  go run ./examples/guard                          a simulated cluster of 200 GPUs through a day
  go run ./examples/guard -real -config guard.yaml this machine's GPUs, until Ctrl-C
  go run ./examples/guard -real -config guard.yaml -apply -audit guard.jsonl -kill /run/guard.stop

The configuration (see examples/guard/README.md):

  gpus: [{index: 0, mechanism: time-slicing}]
  profiles: rows.json            # of examples/measure; without, what is usual is learnt
  tenants:
    - {name: team-a/chat, kind: online-inference, gpu: 0, command: "--port 8001",
       metrics: "http://localhost:8001/metrics", tpot_ms: 30}
    - {name: team-b/book, kind: notebook, gpu: 0, command: jupyter, may_be_reaped: true}
  hooks: {notice: [./mail.sh], cap: [./cap.sh], reap: [./reap.sh]}

Exit codes: 0 done, also after Ctrl-C; 1 it cannot watch, or not record what it
does; 2 bad input.

Flags:
`

func parse(args []string, stdout io.Writer) (*config, error) {
	c := &config{}
	flags := flag.NewFlagSet("guard", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&c.real, "real", false, "watch this machine's GPUs through NVML")
	flags.StringVar(&c.path, "config", "", "who the tenants are; needed with -real")
	flags.DurationVar(&c.span, "duration", 0, "how long (default: until Ctrl-C)")
	flags.DurationVar(&c.window, "window", 2*time.Second, "length of one observation of the real node")
	flags.BoolVar(&c.apply, "apply", false, "act; without it everything is only proposed")
	flags.BoolVar(&c.evict, "evict", false, "reap by the eviction API, with this pod's service account")
	flags.StringVar(&c.kill, "kill", "", "while this file exists, nothing is done")
	flags.StringVar(&c.audit, "audit", "", "append every proposal and action to this file, as JSON lines; a simulated day is written to a new one")
	flags.StringVar(&c.record, "record", "", "append what was seen in each window to this file, as JSON lines")
	flags.StringVar(&c.policy, "policy", "", "reaping: idlebot, princeton, kubeflow or a duration\n(default: the configuration's, else idlebot)")
	flags.IntVar(&c.slow, "slow", 3, "windows in a row above what is expected that raise an alarm")
	flags.IntVar(&c.budget, "budget", 100, "actions in an hour at most")
	flags.DurationVar(&c.cooldown, "cooldown", 0, "time between two actions on a GPU (default: 30 windows)")
	flags.Uint64Var(&c.seed, "seed", 1, "of the simulated day")
	flags.BoolVar(&c.json, "json", false, "print JSON: of the real node a line for each proposal")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stdout, usage)
			fmt.Fprint(stdout, printed.Flags(flags))
			return nil, err
		}
		return nil, fmt.Errorf("%w (see -h)", err)
	}
	var probs []error
	bad := func(format string, args ...any) { probs = append(probs, fmt.Errorf(format, args...)) }
	if flags.NArg() > 0 {
		bad("unexpected %q (use flags only; see -h)", flags.Args())
	}
	if c.real && c.path == "" {
		bad("-real: nobody says who the tenants are (add -config FILE)")
	}
	if !c.real {
		flags.Visit(func(f *flag.Flag) {
			if slices.Contains([]string{"config", "apply", "evict", "kill", "record", "duration", "window"}, f.Name) {
				bad("-%s: means nothing to the simulated day (add -real)", f.Name)
			}
		})
	}
	if c.apply && c.audit == "" {
		bad("-apply: nothing is done unrecorded (add -audit FILE)")
	}
	if c.evict && !c.apply {
		bad("-evict: add -apply")
	}
	if c.window < 500*time.Millisecond || c.window > 10*time.Minute {
		bad("-window: %v (use 500ms to 10m)", c.window)
	}
	if c.span < 0 || c.cooldown < 0 {
		bad("-duration and -cooldown must not be negative")
	}
	if c.slow < 1 || c.slow > 30 {
		bad("-slow: %d (use 1 to 30)", c.slow)
	}
	if c.budget < 0 {
		bad("-budget: %d (use 0 or more)", c.budget)
	}
	if c.policy != "" {
		if _, err := telemetry.ParseReapPolicy(c.policy); err != nil {
			bad("-policy: %w", err)
		}
	}
	return c, errors.Join(probs...)
}

// rules are the thresholds that the flags leave.
func (c *config) rules(window time.Duration, policy telemetry.ReapPolicy) rules {
	r := defaultRules(window)
	r.Slow, r.Budget, r.Policy = c.slow, c.budget, policy
	if c.cooldown > 0 {
		r.Cooldown = c.cooldown
	}
	if c.policy != "" {
		r.Policy, _ = telemetry.ParseReapPolicy(c.policy) // parse has read it
	}
	return r
}

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (exit int) {
	stdout, done := printed.Check("guard", stdout, stderr)
	defer done(&exit)
	c, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return fail(stderr, err, exitUsage)
	}
	out := bufio.NewWriter(stdout)
	code := exitFailed
	if c.real {
		code, err = c.watch(ctx, out, stderr)
	} else if code, err = c.simulate(ctx, out, stderr); err == nil {
		code = exitOK
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return fail(stderr, err, max(code, exitFailed))
	}
	return exitOK
}

func fail(stderr io.Writer, err error, code int) int {
	printed.Fail("guard", stderr, err)
	return code
}

// simulate plays the day.
func (c *config) simulate(ctx context.Context, out *bufio.Writer, stderr io.Writer) (int, error) {
	var audit *os.File
	if c.audit != "" {
		var err error
		audit, err = os.OpenFile(c.audit, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%s is there already (a simulated day goes to a new file, never to a log of what was done)", c.audit)
		}
		if err != nil {
			return exitUsage, fmt.Errorf("-audit: %w", err)
		}
		defer audit.Close()
	}
	rep, err := playDay(ctx, c.seed, c.rules(dayWindow, telemetry.ReapPolicies()[0]), true, func(w int) {
		if w%360 == 0 && w > 0 {
			fmt.Fprintf(stderr, "%02d:00\n", w/60)
		}
	})
	if err != nil {
		return exitFailed, err
	}
	if audit != nil {
		if err := errors.Join(writeAudit(audit, rep.Proposals), audit.Close()); err != nil {
			return exitFailed, fmt.Errorf("-audit: %w", err)
		}
	}
	if c.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return exitFailed, enc.Encode(rep)
	}
	printDay(out, &rep)
	return exitOK, nil
}

// watch guards this machine's GPUs.
func (c *config) watch(ctx context.Context, out *bufio.Writer, stderr io.Writer) (int, error) {
	s, err := load(c.path)
	if err != nil {
		return exitUsage, err
	}
	a := &actor{apply: c.apply, kill: c.kill, hooks: s.hooks, now: time.Now}
	if c.evict {
		if a.evict, err = inCluster("/var/run/secrets/kubernetes.io/serviceaccount"); err != nil {
			return exitUsage, err
		}
	}
	if c.audit != "" {
		if a.audit, err = os.OpenFile(c.audit, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
			return exitUsage, fmt.Errorf("-audit: %w", err)
		}
		defer a.audit.Close()
	}
	record := json.NewEncoder(io.Discard)
	if c.record != "" {
		f, err := os.OpenFile(c.record, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return exitUsage, fmt.Errorf("-record: %w", err)
		}
		defer f.Close()
		record = json.NewEncoder(f)
	}
	driver, err := telemetrynvml.Open(telemetrynvml.Options{LoadOnly: true})
	if err != nil {
		return exitFailed, fmt.Errorf("%w\nwithout -real a simulated cluster is shown", err)
	}
	defer driver.Close()
	reader := chosen{driver, s.gpus}
	devices, err := reader.Devices(ctx)
	if err != nil {
		return exitUsage, err
	}
	for i, d := range devices {
		s.gpus[i].Name = d.Name
	}
	if c.span > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.span)
		defer cancel()
	}
	r := c.rules(c.window, s.policy)
	g := newGuard(r, s.gpus, s.tenants, s.profiles, s.predictor)
	fmt.Fprintf(stderr, "watching %d tenants on %d GPUs; %s\n", len(s.tenants), len(s.gpus), map[bool]string{true: "acting", false: "dry run"}[c.apply])
	w := &watch{setup: s, rules: r, procs: commandLine}
	enc := json.NewEncoder(out)
	windows, said := 0, 0
	err = w.run(ctx, reader, func(o observation) error {
		windows++
		if err := record.Encode(o); err != nil {
			return fmt.Errorf("-record: %w", err)
		}
		for _, p := range g.step(o) {
			told := s.outside(p)
			done, err := a.act(context.WithoutCancel(ctx), &told)
			if err != nil {
				return err
			}
			if done {
				g.done(&p)
			}
			said++
			if c.json {
				if err := enc.Encode(told); err != nil {
					return err
				}
			} else {
				printProposal(out, &told)
			}
		}
		return out.Flush()
	})
	fmt.Fprintf(stderr, "%d windows of %v, %d proposals; %s\n", windows, r.Window, said, g.health())
	return exitFailed, err
}
