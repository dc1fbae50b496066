package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
	"github.com/cotenant/cotenant/telemetry/telemetrytest"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

type config struct {
	real            bool
	library         string
	duration, every time.Duration
	opts            telemetry.SamplerOptions
	idle            telemetry.IdleOptions
	csv, prom       string
	json            bool
	price           cost.Money // zero without -price
	policies        []telemetry.ReapPolicy
	seed            uint64
}

const usage = `Shows what GPUs do, and who wastes them.

  go run ./examples/monitor                       a simulated node through a day, in no time
  go run ./examples/monitor -real                 the GPUs of this machine, until Ctrl-C
  go run ./examples/monitor -real -duration 8s -json -csv gpu.csv

The table's columns: NVML's utilization (a kernel ran: not capacity), GPM's SM
and memory bandwidth utilization (Hopper and later), memory, power, SM clock,
temperature, processes, what holds the clocks down, and the state so far.
A figure that the device does not give is "-".

Exit codes: 0 done, also after Ctrl-C; 1 the GPUs cannot be read; 2 bad input.

Flags:
`

// parse reads the flags, naming every problem.
func parse(args []string, stdout io.Writer) (*config, error) {
	c := &config{}
	fs := flag.NewFlagSet("monitor", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run reports the error, once
	fs.BoolVar(&c.real, "real", false, "read this machine's GPUs through NVML instead of the simulated node")
	fs.StringVar(&c.library, "nvml", "", "path of libnvidia-ml.so.1 (default: as the linker finds it)")
	fs.DurationVar(&c.duration, "duration", 0, "how long (default: simulated 24h, real until Ctrl-C)")
	fs.DurationVar(&c.every, "every", 0, "time between tables (default: simulated 6h, real 1s)")
	fs.DurationVar(&c.opts.Period, "period", 0, "time between cheap readings (default: simulated 10s, real 100ms)")
	fs.DurationVar(&c.opts.SlowPeriod, "slow-period", 0, "time between costly readings (default: simulated 10s, real 1s)")
	fs.DurationVar(&c.idle.Sustain, "sustain", 0, "how long idleness must last to count (default: simulated 1m, real 10s)")
	fs.Float64Var(&c.idle.DeepIdleWatts, "idle-watts", 0, "power in watts of a GPU with nothing resident (default: learnt)")
	fs.StringVar(&c.csv, "csv", "", "write every reading to this new file")
	fs.StringVar(&c.prom, "prom", "", "keep this file up to date in Prometheus' text format")
	fs.BoolVar(&c.json, "json", false, "print one JSON report at the end instead of tables")
	price := fs.Float64("price", 0, "price of a GPU hour (default: no money is shown)")
	currency := fs.String("currency", "USD", "currency of the price")
	policies := fs.String("policy", "idlebot,princeton,kubeflow", "reaping policies: names (idlebot, princeton, kubeflow) or durations such as 45m")
	fs.Uint64Var(&c.seed, "seed", 1, "source of the simulated noise")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stdout, usage)
			fmt.Fprint(stdout, page.Flags(fs))
			return nil, err
		}
		return nil, fmt.Errorf("%w (see -h)", err)
	}
	stated := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { stated["-"+f.Name] = true })
	var probs []error
	bad := func(format string, args ...any) { probs = append(probs, fmt.Errorf(format, args...)) }
	if fs.NArg() > 0 {
		bad("unexpected %q (use flags only; see -h)", fs.Args())
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"-duration", c.duration}, {"-every", c.every}, {"-period", c.opts.Period}, {"-slow-period", c.opts.SlowPeriod}, {"-sustain", c.idle.Sustain}} {
		if f.d < 0 || f.d == 0 && stated[f.name] {
			bad("%s: %v (use a duration above 0, or leave it out)", f.name, f.d)
		}
	}
	if w := c.idle.DeepIdleWatts; !(w >= 0) || w > 1e9 {
		bad("-idle-watts: %v (use 0 or more)", w)
	}
	if *price != 0 {
		var err error
		if c.price, err = cost.ParsePrice(strconv.FormatFloat(*price, 'f', -1, 64) + " " + *currency); err != nil {
			bad("-price: %w", err)
		}
	}
	for _, name := range strings.Split(*policies, ",") {
		p, err := telemetry.ParseReapPolicy(strings.TrimSpace(name))
		if err != nil {
			bad("-policy: %w", err)
		}
		c.policies = append(c.policies, p)
	}
	or := func(d *time.Duration, real, simulated time.Duration) {
		if *d == 0 && c.real {
			*d = real
		} else if *d == 0 {
			*d = simulated
		}
	}
	or(&c.duration, 0, 24*time.Hour)
	or(&c.every, time.Second, 6*time.Hour)
	or(&c.opts.Period, telemetry.DefaultPeriod, 10*time.Second)
	or(&c.opts.SlowPeriod, max(telemetry.DefaultSlowPeriod, c.opts.Period), max(10*time.Second, c.opts.Period))
	or(&c.idle.Sustain, telemetry.DefaultSustain, time.Minute)
	return c, errors.Join(probs...)
}

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) (code int) {
	stdout, done := page.Check("monitor", stdout, stderr)
	defer done(&code)
	c, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return fail(stderr, err, exitUsage)
	}
	src, closeSource, err := c.open()
	if err != nil {
		return fail(stderr, err, exitFailed)
	}
	defer closeSource()
	sampler, err := telemetry.NewSampler(src, c.opts)
	if err != nil {
		return fail(stderr, err, exitUsage)
	}
	m := newMonitor(c, stdout)
	sinks := m.sinks()
	if c.csv != "" {
		f, err := os.OpenFile(c.csv, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			if errors.Is(err, fs.ErrExist) {
				err = fmt.Errorf("-csv: %s exists; name a new file", c.csv)
			}
			return fail(stderr, err, exitUsage)
		}
		defer f.Close()
		m.csv = telemetry.NewCSVWriter(f)
		sinks = append(sinks, m.csv)
	}
	if c.prom != "" {
		if _, err := os.Stat(filepath.Dir(c.prom)); err != nil {
			return fail(stderr, fmt.Errorf("-prom: %w (name a file in a folder that is there)", err), exitUsage)
		}
		failed := false // told once: the sampling ends with it, and the report tries again
		m.expose = func() error {
			if failed {
				return nil
			}
			err := m.latest.SavePrometheus(c.prom)
			failed = err != nil
			return err
		}
	}
	// The figures are kept whatever ends the sampling.
	err = c.sample(ctx, sampler, append(sinks, m))
	if m.csv != nil {
		err = errors.Join(err, m.csv.Flush())
	}
	if m.started() {
		err = errors.Join(err, m.finish())
	}
	if err != nil {
		return fail(stderr, err, exitFailed)
	}
	return exitOK
}

func fail(stderr io.Writer, err error, code int) int {
	page.Fail("monitor", stderr, err)
	return code
}

// open opens NVML or the simulated node.
func (c *config) open() (telemetry.Reader, func(), error) {
	if !c.real {
		src, err := telemetrytest.New(node(c.seed))
		return src, func() {}, err
	}
	src, err := telemetrynvml.Open(telemetrynvml.Options{LibraryPath: c.library})
	if err != nil {
		return nil, nil, fmt.Errorf("%w\nwithout -real a simulated node is shown", err)
	}
	return src, func() { _ = src.Close() }, nil // the process ends
}

// simulatedStart is when the simulated day begins.
var simulatedStart = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

func (c *config) sample(ctx context.Context, s *telemetry.Sampler, sinks []telemetry.Sink) error {
	if !c.real {
		return s.Simulate(ctx, simulatedStart, c.duration, sinks...)
	}
	if c.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.duration)
		defer cancel()
	}
	return s.Stream(ctx, sinks...)
}
