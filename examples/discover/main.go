// Discover makes a fleet file of what a cluster says of itself: which GPUs there
// are, what shares them today, what each workload asks for, and what nobody
// knows. It needs no GPU and no access to a cluster.
//
//	go run ./examples/discover
//	go run ./examples/discover -kube -decide
//	kubectl get nodes,pods,deployments,hpa -A -o json | go run ./examples/discover -out fleet.yaml -
//	go run ./examples/quickstart -input fleet.yaml
//
// With -decide it decides the fleet, writes the configuration and plans the way
// from what runs today:
//
//	go run ./examples/discover -decide
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

// The built-in cluster and what it costs.
var (
	//go:embed cluster.json
	cluster []byte
	//go:embed prices.yaml
	clusterPrices []byte
)

const (
	exitOK       = 0
	exitInPart   = 1 // files were unreadable in part, the rest was printed; or it could not be
	exitBadInput = 2
)

const usage = `Makes a fleet file of what a cluster says of its GPUs and workloads.

usage: discover [flags] [FILE...]

Each FILE's kind is found from its content; - is standard input. Read are Kubernetes
objects as kubectl writes them with -o json: Nodes, Pods, ResourceSlices, ResourceClaims,
ConfigMaps, HorizontalPodAutoscalers and owners of Pods, in Lists or alone; what nvidia-smi
prints with -q -x, --query-gpu=... --format=csv, mig -lgi, topo -m and -L, in files named
after the node (gpu-1.xml); samples of dcgm-exporter as Prometheus text or as the JSON of a
range query, and this SDK's telemetry CSV; metrics pages of vLLM and SGLang, in files named
after the pod (chat-0.txt). For example:

  kubectl get nodes,pods,replicasets,deployments,statefulsets,jobs,hpa,cm -A -o json | discover -

Secrets and environment variables are never read, and of ConfigMaps only those of the device plugin
and mig-parted. Without files a built-in cluster is shown.

exit: 0 done; 1 files were unreadable in part and the rest is printed, or it could not be written;
2 bad input

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type options struct {
	json, decide, real, kube bool
	out, prices, hints       string
	all                      bool
	files                    []string
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	stdout, done := page.Check("discover", stdout, stderr)
	defer done(&code)
	fs := flag.NewFlagSet("discover", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are reported below
	var o options
	fs.BoolVar(&o.json, "json", false, "print JSON: fleet, provenance, findings, unknown, today and rightsize")
	fs.BoolVar(&o.decide, "decide", false, "decide the fleet, with its configuration and the way from what runs today; with -out the\nconfiguration goes into a folder beside the fleet file")
	fs.BoolVar(&o.kube, "kube", false, "read the live cluster of $KUBECONFIG, ~/.kube/config or this pod, with get and list alone\n(certificate or token; where a plugin signs in, pipe kubectl's output)")
	fs.BoolVar(&o.real, "real", false, "ask this machine's driver (NVML) for its GPUs, MIG instances and processes")
	fs.BoolVar(&o.all, "all", false, "text: list everything, however long")
	fs.StringVar(&o.out, "out", "", "`FILE` to write the fleet to, for quickstart -input; a comment beside each field says\nwhere it comes from")
	fs.StringVar(&o.prices, "prices", "", "`FILE` of prices an hour: GPU models (for one GPU) and instance types (for the\nmachine), such as \"A100-SXM4-80GB: 3.25 USD\" or \"p4d.24xlarge: 32.77 USD\"")
	fs.StringVar(&o.hints, "hints", "", "`FILE` of what you know better: {workloads: {team/chat: {kind: online-inference,\nslo: {ttft_p99: 500ms}}, \"lab/*\": {kind: notebook}}, nodes: {gpu-7: {gpu: L40S}}}")
	err := fs.Parse(args)
	o.files = fs.Args()
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		fmt.Fprint(stdout, page.Flags(fs))
		fmt.Fprint(stdout, "\nKinds of workloads are guessed by the first of these rules that fits; -hints override them:\n")
		for _, r := range discover.KindRules() {
			fmt.Fprintf(stdout, "  %-17s %-20s %s\n", r.Name, r.Kind, r.What)
		}
		return exitOK
	case err == nil:
		var part error
		part, err = o.run(ctx, stdin, stdout, stderr)
		if err == nil && part != nil {
			report(stderr, part)
			return exitInPart
		}
	}
	if err != nil {
		report(stderr, err)
		return exitBadInput
	}
	return exitOK
}

// report writes an error, a line for each problem.
func report(stderr io.Writer, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(stderr, "discover: %s\n", strings.TrimPrefix(line, "discover: "))
	}
}

// run does what was asked for. part is what could not be read beside the rest.
func (o *options) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (part, err error) {
	var opts discover.Options
	prices := clusterPrices
	builtIn := len(o.files) == 0 && !o.real && !o.kube
	if o.prices != "" || !builtIn {
		prices = nil
	}
	if o.prices != "" {
		if prices, err = os.ReadFile(o.prices); err != nil {
			return nil, err
		}
	}
	if prices != nil {
		if opts.Prices, err = discover.ParsePrices(prices); err != nil {
			return nil, err
		}
	}
	if o.hints != "" {
		hints, err := os.ReadFile(o.hints)
		if err != nil {
			return nil, err
		}
		if opts.Hints, err = discover.ParseHints(hints); err != nil {
			return nil, err
		}
	}
	c := discover.New(opts)
	if o.real {
		if err := askDriver(ctx, c); err != nil {
			return nil, err
		}
	}
	if o.kube {
		if part, err = readKube(ctx, c); err != nil {
			return nil, err
		}
	}
	if builtIn {
		part = c.Read("the built-in cluster", bytes.NewReader(cluster))
	}
	for _, file := range o.files {
		if err := readFile(c, file, stdin); err != nil {
			var path *os.PathError
			if errors.As(err, &path) {
				return nil, err
			}
			part = errors.Join(part, err)
		}
	}
	d := c.Discover()
	// A node whose GPU is not known is in no pool, and still something.
	nothing := len(d.Fleet.Pools) == 0 && len(d.Fleet.Workloads) == 0 && len(d.Findings) == 0 &&
		!slices.ContainsFunc(d.Unknown, func(u discover.Unknown) bool { return strings.HasPrefix(u.Path, "nodes.") })
	if part != nil && nothing {
		return nil, part
	}
	if o.out != "" {
		if err := writeFleet(d, o.out, stderr); err != nil {
			return nil, err
		}
	}
	var decided *decided
	if o.decide {
		if decided, err = decide(d, o.out, stderr); err != nil {
			return nil, err
		}
	}
	if o.json && o.decide {
		return part, decided.writeJSON(stdout)
	}
	if o.json {
		return part, d.WriteJSON(stdout)
	}
	show := discover.TextOptions{Width: width(stdout)}
	if o.all {
		show.Most = -1
	}
	if err := d.WriteText(stdout, show); err != nil || !o.decide {
		return part, err
	}
	return part, decided.writeText(stdout, show)
}

// askDriver adds this machine, by its host's name, which is its node's where it
// is one.
func askDriver(ctx context.Context, c *discover.Collector) error {
	r, err := telemetrynvml.Open(telemetrynvml.Options{})
	if err != nil {
		return err
	}
	defer r.Close()
	inv, err := r.Inventory(ctx)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	c.AddInventory(host, inv)
	return nil
}

func readFile(c *discover.Collector, file string, stdin io.Reader) error {
	if file == "-" {
		return c.Read("standard input", stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.Read(file, f)
}

// writeFleet writes the fleet file, whole or not at all.
func writeFleet(d *discover.Discovery, path string, stderr io.Writer) error {
	var fleet bytes.Buffer
	if err := d.WriteFleet(&fleet); err != nil {
		return err
	}
	if err := page.WriteFile(path, fleet.Bytes()); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "discover: wrote %s\n", path)
	if err := d.Valid(); err != nil {
		fmt.Fprintf(stderr, "discover: note: it can't be decided yet: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// width is how many columns the output has.
func width(stdout io.Writer) int {
	n, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err == nil && n > 0 {
		return n
	}
	if file, ok := stdout.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(file.Fd())) {
		n, _, _ = term.GetSize(int(file.Fd())) // 0 where it cannot be told
	}
	return n
}
