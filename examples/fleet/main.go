// Command fleet replays a trace of tasks on a cluster of shared GPUs and shows
// how much of the cluster each placement policy gets allocated.
//
// Without arguments it compares the policies on a small synthetic trace. With
// -nodes and -tasks it reads a trace in the columns of the openb trace (Alibaba;
// hkust-adsl/kubernetes-scheduler-simulator), whose published protocol it
// follows: tasks arrive in an order that the seed draws until -ratio times the
// cluster's GPU capacity was asked for, are placed at once or never, and stay.
// All figures are simulated. It needs no GPU.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/examples/internal/page"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type options struct {
	nodes, tasks, policy, svg string
	seed                      int64
	ratio                     float64
	json                      bool
}

// Exit codes: 1 a replay failed or was interrupted, 2 bad input.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	stdout, done := page.Check("fleet", stdout, stderr)
	defer done(&code)
	var o options
	var usage strings.Builder
	fs := flag.NewFlagSet("fleet", flag.ContinueOnError)
	fs.SetOutput(&usage)
	fs.StringVar(&o.nodes, "nodes", "", "CSV `file` of nodes: sn, cpu_milli, memory_mib, gpu, model")
	fs.StringVar(&o.tasks, "tasks", "", "CSV `file` of tasks: name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec")
	fs.Int64Var(&o.seed, "seed", 42, "draws the arrival order; with no -policy the first of ten")
	fs.Float64Var(&o.ratio, "ratio", 1.3, "how much arrives, by the cluster's GPU capacity")
	fs.StringVar(&o.policy, "policy", "", strings.Join(policyNames, "|")+"; none compares all of them over ten seeds")
	fs.StringVar(&o.svg, "svg", "", "with no -policy: write allocation against arrivals to this `file`")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	fs.Usage = func() {
		fmt.Fprint(&usage, "Usage: fleet [flags]\n\nReplays a trace on a cluster of shared GPUs. All figures are simulated.\nWithout -nodes and -tasks it uses a small synthetic trace.\n\n")
		fmt.Fprint(&usage, page.Flags(fs))
	}
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage.String())
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "fleet: %v (-h shows the flags)\n", err)
		return 2
	}
	if err := o.check(fs.Args()); err != nil {
		fmt.Fprintf(stderr, "fleet: %v\n", err)
		return 2
	}
	c, err := load(o.nodes, o.tasks)
	if err != nil {
		fmt.Fprintf(stderr, "fleet: %v\n", err)
		return 2
	}
	if o.policy != "" {
		err = one(ctx, c, &o, stdout)
	} else {
		err = compare(ctx, c, &o, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "fleet: %v\n", err)
		return 1
	}
	return 0
}

func (o *options) check(rest []string) error {
	var l problems
	if len(rest) > 0 {
		l.Addf("", "files are named with -nodes and -tasks", "unexpected argument %q", rest[0])
	}
	if (o.nodes == "") != (o.tasks == "") {
		l.Addf("", "give both, or neither for the synthetic trace", "-nodes and -tasks belong together")
	}
	if !(o.ratio > 0 && o.ratio <= 10) || math.IsNaN(o.ratio) {
		l.Addf("-ratio", "use more than 0, at most 10; 1.3 is the published protocol", "%v is out of range", o.ratio)
	}
	if o.policy != "" && !slices.Contains(policyNames, o.policy) {
		remedy := "use " + strings.Join(policyNames, ", ")
		if n := nearest(o.policy, policyNames); n != "" {
			remedy = fmt.Sprintf("did you mean %q?", n)
		}
		l.Addf("-policy", remedy, "there is no policy %q", o.policy)
	}
	if o.policy != "" && o.svg != "" {
		l.Addf("-svg", "leave -policy out to compare", "the drawing compares all policies")
	}
	return l.Err()
}

// one replays one seed under one policy.
func one(ctx context.Context, c *cluster, o *options, stdout io.Writer) error {
	p, err := policyOf(o.policy, c.mix, o.seed)
	if err != nil {
		return err
	}
	res, err := replay(ctx, c.empty, c.capacity, arrivals(c.tasks, o.seed, o.ratio, c.capacity), p)
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if e := res.print(stdout, o.json); e != nil {
		return e
	}
	if err != nil {
		return fmt.Errorf("interrupted; the figures are of what arrived until then: %w", err)
	}
	return nil
}

func (r *result) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	_, err := fmt.Fprintf(w, "allocated  %.2f %% of the cluster's GPUs (simulated)\narrived    %.2f %%\nplaced     %d\nfailed     %d\nseconds    %.2f\n",
		r.Allocated, r.Arrived, r.Placed, r.Failed, r.Seconds)
	return err
}

// compare replays ten seeds under every policy.
func compare(ctx context.Context, c *cluster, o *options, stdout io.Writer) error {
	cmp, err := compareAll(ctx, c, o.seed, o.ratio)
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if e := cmp.print(stdout, o.json); e != nil {
		return e
	}
	if o.svg != "" {
		if e := page.WriteFile(o.svg, cmp.svg()); e != nil {
			return e
		}
	}
	if err != nil {
		return fmt.Errorf("interrupted; the figures are of the seeds that were finished: %w", err)
	}
	return nil
}
