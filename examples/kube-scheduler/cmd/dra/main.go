// Command dra decides which pods share which GPUs and writes it as dynamic resource allocation: DeviceClasses,
// ResourceClaims, ResourceClaimTemplates and the pods that use them, for the NVIDIA DRA driver.
//
// Without arguments it shows a small embedded cluster. It needs no GPU and no cluster.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/examples/kube-scheduler/dra"
	"github.com/cotenant/cotenant/examples/kube-scheduler/plugin"
)

//go:embed testdata/nodes.yaml
var sampleNodes []byte

//go:embed testdata/pods.yaml
var samplePods []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

const usage = `usage: dra [-nodes file -pods file] [flags]

Writes who shares which GPU as DRA claims. Without files it shows an embedded example.

exit: 0 every pod has a place; 1 some are refused; 2 bad input; 5 it could not be written

`

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return page.Run(ctx, "dra", stdout, stderr, func(stdout io.Writer) error {
		return plan(ctx, args, stdin, stdout, stderr)
	})
}

func plan(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	fs := page.FlagSet("dra")
	nodesFile := fs.String("nodes", "",
		"`file` of nodes, as kubectl get nodes -o yaml or -o json prints them; - is standard input")
	podsFile := fs.String("pods", "", "`file` of pods, likewise, in the order in which they are placed")
	slicesFile := fs.String("slices", "",
		"`file` of the driver's ResourceSlices, as kubectl get resourceslices -o yaml prints them: claims name GPUs by UUID")
	argsFile := fs.String("args", "",
		"`file` with the plugin's arguments (policy, mix, ...), as in the scheduler's configuration; default: best-fit")
	table := fs.Bool("table", false, "write a table of who shares what in place of documents")
	if err := page.Parse(fs, args, usage, 0, stdout); err != nil {
		return err
	}
	if (*nodesFile == "") != (*podsFile == "") {
		return page.BadInput(errors.New("give both -nodes and -pods, or neither"))
	}
	if *nodesFile == "-" && *podsFile == "-" {
		return page.BadInput(errors.New("standard input is either the nodes or the pods"))
	}
	nodes, err1 := load(*nodesFile, sampleNodes, stdin, dra.DecodeNodes)
	pods, err2 := load(*podsFile, samplePods, stdin, dra.DecodePods)
	var opt dra.Options
	var pluginArgs plugin.Args
	var err3, err4 error
	if *slicesFile != "" {
		opt.Slices, err3 = load(*slicesFile, nil, stdin, dra.DecodeSlices)
	}
	if *argsFile != "" {
		pluginArgs, err4 = load(*argsFile, nil, stdin, plugin.ParseArgs)
	}
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return page.BadInput(err)
	}
	scorer, err := pluginArgs.Scorer()
	if err != nil {
		return page.BadInput(err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	out, err := dra.Plan(nodes, pods, scorer, opt)
	if err != nil {
		return page.BadInput(err)
	}
	for _, w := range out.Warnings {
		fmt.Fprintf(stderr, "warning: %s\n", w)
	}
	for _, name := range slices.Sorted(maps.Keys(out.Refused)) {
		fmt.Fprintf(stderr, "no node takes %s: %s\n", name, out.Refused[name])
	}
	if *table {
		err = writeTable(stdout, out)
	} else {
		var documents []byte
		if documents, err = out.YAML(); err == nil {
			_, err = stdout.Write(documents)
		}
	}
	if err == nil && len(out.Refused) > 0 {
		err = &page.ExitError{Code: page.ExitNo} // which pods stands above
	}
	return err
}

// load decodes a file, standard input, or without a name what is built in, and puts the name before each problem.
func load[T any](name string, builtIn []byte, stdin io.Reader, decode func([]byte) (T, error)) (out T, err error) {
	data := builtIn
	switch name {
	case "":
	case "-":
		data, err = io.ReadAll(io.LimitReader(stdin, maxInput))
	default:
		data, err = os.ReadFile(name)
	}
	if err == nil {
		out, err = decode(data)
	}
	if err == nil {
		return out, nil
	}
	var errs []error
	text := strings.TrimPrefix(err.Error(), dra.ErrInvalid.Error()+":")
	for problem := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		errs = append(errs, fmt.Errorf("%s: %s", name, problem))
	}
	return out, errors.Join(errs...)
}

const maxInput = 256 << 20

// writeTable writes which pods have which claims.
func writeTable(w io.Writer, out *dra.Output) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "POD\tCLAIM\tSHARED BY")
	sharers := map[string]int{}
	for _, p := range out.Pods {
		for _, c := range p.Spec.ResourceClaims {
			if c.ResourceClaimName != nil {
				sharers[p.Namespace+"/"+*c.ResourceClaimName]++
			}
		}
	}
	for _, p := range out.Pods {
		for _, c := range p.Spec.ResourceClaims {
			name, by := c.ResourceClaimTemplateName, "its own"
			if c.ResourceClaimName != nil {
				name, by = c.ResourceClaimName, fmt.Sprint(sharers[p.Namespace+"/"+*c.ResourceClaimName])
			}
			fmt.Fprintf(tw, "%s/%s\t%s\t%s\n", p.Namespace, p.Name, *name, by)
		}
	}
	return tw.Flush()
}
