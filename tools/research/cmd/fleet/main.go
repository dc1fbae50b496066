// SPDX-License-Identifier: Apache-2.0

// Command fleet replays a trace of tasks on a cluster of shared GPUs and shows
// how much of the cluster each placement policy gets allocated. Without files it
// uses a small synthetic trace; all figures are simulated, and it needs no GPU.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/tools/research/internal/cli"
	"github.com/cotenant/cotenant/tools/research/replay"
)

const usage = `Usage: fleet [flags]

Replays a trace on a cluster of shared GPUs. All figures are simulated.
Without -nodes and -tasks it uses a small synthetic trace.

exit: 0 done; 2 bad input; 5 could not be done; 130 interrupted, with the figures until then

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

type options struct {
	nodes, tasks, policy string
	seed                 int64
	ratio                float64
	json, bound          bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, "fleet", stderr, func() error { return replayTrace(ctx, args, stdout) })
}

func replayTrace(ctx context.Context, args []string, stdout io.Writer) error {
	var o options
	fs := cli.FlagSet("fleet")
	fs.StringVar(&o.nodes, "nodes", "", "CSV `file` of nodes: sn, cpu_milli, memory_mib, gpu, model")
	fs.StringVar(&o.tasks, "tasks", "", "CSV `file` of tasks: name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec")
	fs.Int64Var(&o.seed, "seed", 42, "draws the arrival order; with no -policy the first of ten")
	fs.Float64Var(&o.ratio, "ratio", 1.3, "how much arrives, by the cluster's GPU capacity")
	policies := strings.Join(replay.Policies(), ", ")
	fs.StringVar(&o.policy, "policy", "", policies+"; without it all are compared over ten seeds")
	fs.BoolVar(&o.bound, "bound", false,
		"with no -policy: solve for what moving tasks freely would allocate; takes minutes")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	if err := cli.Parse(fs, args, usage, stdout); err != nil {
		return err
	}
	if err := o.check(fs.Args()); err != nil {
		return cli.BadInput(err)
	}
	c, err := replay.Load(o.nodes, o.tasks)
	if err != nil {
		return cli.BadInput(err)
	}
	if o.policy != "" {
		err = o.one(ctx, c, stdout)
	} else {
		err = o.compare(ctx, c, stdout)
	}
	if errors.Is(err, context.Canceled) {
		return cli.Cut(errors.New("interrupted; the figures are of what was finished"))
	}
	return err
}

func (o *options) check(rest []string) error {
	var errs []error
	if len(rest) > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q: files are named with -nodes and -tasks", rest[0]))
	}
	if (o.nodes == "") != (o.tasks == "") {
		errs = append(errs, errors.New("-nodes and -tasks belong together: give both, or neither for the synthetic trace"))
	}
	if !(o.ratio > 0 && o.ratio <= 10) {
		errs = append(errs, fmt.Errorf("-ratio: %v: use more than 0, at most 10; 1.3 is the published protocol", o.ratio))
	}
	if all := replay.Policies(); o.policy != "" && !slices.Contains(all, o.policy) {
		errs = append(errs, fmt.Errorf("-policy: there is no policy %q: use %s", o.policy, strings.Join(all, ", ")))
	}
	return errors.Join(errs...)
}

// one replays one seed under one policy.
func (o *options) one(ctx context.Context, c *replay.Cluster, w io.Writer) error {
	r, err := c.Replay(ctx, o.policy, o.seed, o.ratio)
	if o.json {
		return errors.Join(json.NewEncoder(w).Encode(r), err)
	}
	fmt.Fprintf(w, "allocated  %.2f %% of the cluster's GPUs (simulated)\narrived    %.2f %%\n"+
		"placed     %d\nfailed     %d\nseconds    %.2f\n", r.Allocated, r.Arrived, r.Placed, r.Failed, r.Seconds)
	return err
}

// compare replays ten seeds under every policy.
func (o *options) compare(ctx context.Context, c *replay.Cluster, w io.Writer) error {
	all, err := c.Compare(ctx, o.seed, o.ratio)
	if all == nil {
		return err
	}
	if o.bound && err == nil {
		all.Bound, err = c.Bound(ctx, o.ratio)
	}
	if o.json {
		err = errors.Join(cli.JSON(w, all), err)
	} else {
		writeTable(w, all)
	}
	return err
}

func writeTable(w io.Writer, c *replay.Comparison) {
	fmt.Fprintf(w, "Trace: %s. Simulated. GPU allocation in percent of the cluster\n"+
		"when %g times its GPUs have been asked for.\n\n", c.Trace, c.Ratio)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(label, format string, value func(p *replay.PolicyResult) any) {
		fmt.Fprintf(tw, "%s\t", label)
		for i := range c.Policies {
			fmt.Fprintf(tw, format+"\t", value(&c.Policies[i]))
		}
		fmt.Fprintln(tw)
	}
	row("seed", "%s", func(p *replay.PolicyResult) any { return p.Name })
	for s, seed := range c.Seeds {
		row(fmt.Sprint(seed), "%.2f", func(p *replay.PolicyResult) any { return p.Allocated[s] })
	}
	if len(c.Seeds) > 0 {
		row("mean", "%.2f", func(p *replay.PolicyResult) any { return p.Mean })
		row("placed", "%.1f", func(p *replay.PolicyResult) any { return p.Placed })
		row("GPUs of one", "%.2f", func(p *replay.PolicyResult) any { return p.PlacedGPUs })
		row("refused", "%.1f", func(p *replay.PolicyResult) any { return p.Failed })
		row("GPUs of one", "%.2f", func(p *replay.PolicyResult) any { return p.FailedGPUs })
		row("seconds", "%.2f", func(p *replay.PolicyResult) any { return p.Seconds })
	}
	if c.Bound > 0 {
		fmt.Fprintf(tw, "bound\t%.2f\t  with tasks moved freely\n", c.Bound)
	}
	_ = tw.Flush()
	fmt.Fprintln(w, "\nMore tasks placed are not more GPUs used: a policy that leaves pieces of many GPUs\n"+
		"refuses the large tasks, and has room for more of the small ones.")
}
