package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/timeslice"
)

const usage = `timeslice simulates tenants that share a GPU by time-slicing.

  timeslice                                    four built-in tenants
  timeslice -f tenants.yaml -plot latency.svg   your own, with a chart
  timeslice -probe probe.txt -tenants 2        with a scheduler calibrated from the quantum probe

A file of tenants, YAML or JSON, in the order in which they join:

  tenants:
    - {name: chat, step: 1.8ms, think: 150us, steps: 64, pause: 8ms, pause_cv: 1}
    - {name: api, step: 900us, steps: 4, rate_per_second: 20}
    - {name: training, step: 120ms}

step is the GPU time of one step, think the host's time after it, steps their
number in a request; requests come in a closed loop with a pause between them,
or at a rate. *_cv is standard deviation over mean (0 constant, 1 exponential).

Flags:
`

// run is the command; it returns 0 when done, 2 for bad input, 5 for what could not be
// written, 130 when interrupted.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	stdout, done := page.Check("timeslice", stdout, stderr)
	defer done(&code)
	fs := flag.NewFlagSet("timeslice", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are reported below
	file := fs.String("f", "", "`file` of tenants; - is standard input")
	asJSON := fs.Bool("json", false, "print JSON")
	plot := fs.String("plot", "", "write a chart of latency against tenants to `file`.svg")
	length := fs.Duration("for", time.Minute, "time to simulate")
	seed := fs.Uint64("seed", 1, "seed of the random draws")
	var quantum, change *time.Duration
	fs.Func("quantum", "`duration` of a turn (default: measured on an H200, 2.09ms)", given(&quantum))
	fs.Func("switch", "`duration` lost to a switch (default: measured on an H200, 0.153ms)", given(&change))
	probe := fs.String("probe", "", "calibrate from the `file` that quantum probes printed, all run at once")
	beside := fs.Int("tenants", 0, "number of probes that ran at once (default: lines in the file)")
	fail := func(code int, err error) int {
		fmt.Fprintf(stderr, "timeslice: %v\n", err)
		return code
	}
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		fmt.Fprint(stdout, page.Flags(fs))
		return 0
	case err != nil:
		return fail(2, fmt.Errorf("%w (see -h)", err))
	case fs.NArg() > 0:
		return fail(2, fmt.Errorf("unknown argument %.60q; a file of tenants is given with -f", fs.Arg(0)))
	case *length <= 0:
		return fail(2, fmt.Errorf("-for: must be over 0, is %v", *length))
	case *beside < 0:
		return fail(2, fmt.Errorf("-tenants: must be over 0, is %d", *beside))
	case *beside > 0 && *probe == "":
		return fail(2, errors.New("-tenants says how many probes ran at once: it needs -probe"))
	}
	tenants, err := readTenants(*file, stdin)
	if err != nil {
		return fail(2, fmt.Errorf("%s: %w", nameOf(*file), err))
	}
	sched, err := scheduler(quantum, change, *probe, *beside)
	if err != nil {
		return fail(2, err)
	}
	s, err := explore(ctx, timeslice.Simulation{Scheduler: sched, Tenants: tenants, For: *length, Warmup: *length / 20,
		Seed: *seed})
	if err != nil {
		return fail(2, err)
	}
	if *asJSON {
		err = writeJSON(stdout, s)
	} else {
		err = writeTable(stdout, s)
	}
	if err != nil {
		return fail(5, err)
	}
	if *plot != "" {
		var chart bytes.Buffer
		if err := writeSVG(&chart, s); err != nil {
			return fail(5, err)
		}
		if err := page.WriteFile(*plot, chart.Bytes()); err != nil {
			return fail(5, err)
		}
	}
	if s.Interrupted {
		return fail(130, errors.New("interrupted; what was done is above"))
	}
	return 0
}

func nameOf(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// given keeps a duration that is given, 0 and below included.
func given(to **time.Duration) func(string) error {
	return func(s string) error {
		d, err := time.ParseDuration(s)
		*to = &d
		return err
	}
}

func scheduler(quantum, change *time.Duration, probe string, beside int) (timeslice.Scheduler, error) {
	s := timeslice.H200()
	if probe != "" {
		f, err := os.Open(probe)
		if err != nil {
			return s, err
		}
		defer func() { _ = f.Close() }() // only read from
		readings, err := timeslice.ParseProbe(f)
		if err != nil {
			return s, fmt.Errorf("%s: %w", probe, err)
		}
		if beside == 0 {
			beside = len(readings)
		}
		c, err := timeslice.CalibrateProbe(timeslice.ProbeRun{Tenants: beside, Readings: readings})
		if err != nil {
			return s, fmt.Errorf("%s: %w", probe, err)
		}
		s = c.Scheduler
	}
	if quantum != nil || change != nil {
		given := timeslice.Assumed()
		given.Quantum, given.Switch, given.Source = s.Quantum, s.Switch, "given on the command line"
		if quantum != nil {
			given.Quantum = *quantum
		}
		if change != nil {
			given.Switch = *change
		}
		s = given
	}
	return s, s.Validate()
}

func writeJSON(w io.Writer, s *study) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(s)
}

func writeTable(out io.Writer, s *study) error {
	w := &bytes.Buffer{}
	fmt.Fprintf(w, "Simulated for %gs with seed %d: quantum %gms, switch %gms (%s: %s)\n\n", s.SimulatedS, s.Seed,
		s.QuantumMS, s.SwitchMS, s.Scheduler, s.Source)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "TENANTS\tTENANT\tP50\tP99\tSLOWER\tSTEP\tCLOSED FORM\tGPU\tWAITS ON")
	for _, r := range s.Rows {
		form, slow, waits := "-", "-", "-"
		if r.FormStepMS != nil {
			form = fmt.Sprintf("%.2fms %s", *r.FormStepMS, r.Form)
		}
		if r.Slowdown != nil {
			slow = fmt.Sprintf("%.2fx", *r.Slowdown)
		}
		if r.WaitsOn != "" {
			waits = fmt.Sprintf("%s %.0f%%", r.WaitsOn, 100*r.WaitsOnShare)
		}
		if r.Unfinished > 2 {
			waits += fmt.Sprintf(", %d requests queue", r.Unfinished)
		}
		fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f%%\t%s\n", r.Tenants, r.Tenant,
			show(r.Request.Quantile(0.5)), show(p99(r.Request)), slow, show(r.Step.Mean()), form, 100*r.GPUFraction, waits)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(s.Rows) > 0 {
		last := s.Rows[len(s.Rows)-1]
		fmt.Fprintf(w, "\nWith all %d tenants %.1f%% of the GPU's time goes to switching.\n", last.Tenants,
			100*last.SwitchFraction)
	}
	if h := s.Hurt; h != nil {
		fmt.Fprintf(w, "\n%s is hurt most: its P99 is %.2fx what it is alone, because\n", h.Tenant, h.P99Slowdown)
		for _, y := range h.Why {
			fmt.Fprintf(w, "  - %s\n", y)
		}
		fmt.Fprintf(w, "Its P99 by quantum:")
		for _, q := range h.ByQuantum {
			p99 := "-"
			if q.P99MS != nil {
				p99 = fmt.Sprintf("%.1fms", *q.P99MS)
			}
			fmt.Fprintf(w, "  %gms %s", q.QuantumMS, p99)
		}
		fmt.Fprintln(w)
	}
	if !s.Sources.IsZero() {
		w.WriteByte('\n')
		_ = s.Sources.WriteText(w) // into a buffer
	}
	_, err := w.WriteTo(out)
	return err
}

func show(d time.Duration, ok bool) string {
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.2fms", ms(d))
}
