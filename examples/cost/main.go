// Command cost runs the arithmetic of sharing a GPU on the inputs of widely read
// calculators, or on yours, and shows what each source printed beside it.
//
// Without arguments it runs all five calculators with the sources' inputs. It
// needs no GPU.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// result holds the figures of a calculator; JSON shows its exported fields.
type result interface {
	text(w io.Writer)
	citations() []sharing.SourceID
}

// cited lists the sources of a result.
type cited struct {
	Sources sharing.Citations `json:"sources,omitzero"`
}

func (c cited) citations() []sharing.SourceID { return c.Sources.IDs }

type calculator struct {
	name, about string
	// prepare adds the calculator's flags and returns what to do when they are
	// parsed.
	prepare func(fs *flag.FlagSet) func(stdin io.Reader) (result, error)
}

var calculators = []calculator{
	{"tenants", "cost per workload and GPU-hours recovered when tenants share a GPU (asleekgeek-sharing)", prepareTenants},
	{"nodes", "node composition before and after sharing, like for like (myitbasics-eks-sharing)", prepareNodes},
	{"sla", "what added latency costs in revenue, and from which revenue on sharing loses (myitbasics-eks-sharing)",
		prepareSLA},
	{"compare", "two mechanisms side by side", prepareCompare},
	{"attribute", "who pays for which part of a shared hour, by allocation, by use and by both", prepareAttribute},
}

const (
	eksArticle        = sharing.SourceID("myitbasics-eks-sharing")
	asleekgeekArticle = sharing.SourceID("asleekgeek-sharing")
	bertonArticle     = sharing.SourceID("lucaberton-sharing")
)

// sources writes where to find what results name.
func sources(w io.Writer, ids []sharing.SourceID) {
	c := sharing.Citations{Rest: "-json has all"}
	c.Add(ids...)
	_ = c.WriteText(w)
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	stdout, done := page.Check("cost", stdout, stderr)
	defer done(&code)
	out, err := execute(args, stdin)
	var help helpError
	switch {
	case errors.As(err, &help):
		fmt.Fprint(stdout, string(help))
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "cost: %s\nRun with -h for help.\n", strings.TrimPrefix(err.Error(), "cost: "))
		return 2
	}
	_, _ = stdout.Write(out)
	return 0
}

// helpError asks for the help that it holds.
type helpError string

func (h helpError) Error() string { return "help" }

func execute(args []string, stdin io.Reader) ([]byte, error) {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		for _, c := range calculators {
			if c.name == args[0] {
				return c.execute(args[1:], stdin)
			}
		}
		return nil, fmt.Errorf("there is no calculator %.40q; there are %s", args[0], strings.Join(names(), ", "))
	}
	fs := flag.NewFlagSet("cost", flag.ContinueOnError)
	asJSON := jsonFlag(fs)
	if err := parse(fs, args, overview); err != nil {
		return nil, err
	}
	var results []result
	for _, c := range calculators {
		r, err := c.prepare(flag.NewFlagSet(c.name, flag.ContinueOnError))(nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		results = append(results, r)
	}
	if *asJSON {
		all := map[string]result{}
		for i, c := range calculators {
			all[c.name] = results[i]
		}
		return encode(all)
	}
	var b strings.Builder
	var ids []sharing.SourceID
	for _, r := range results {
		r.text(&b)
		b.WriteString("\n")
		ids = append(ids, r.citations()...)
	}
	sources(&b, ids)
	return []byte(page.Fold(b.String())), nil
}

func (c calculator) execute(args []string, stdin io.Reader) ([]byte, error) {
	fs := flag.NewFlagSet(c.name, flag.ContinueOnError)
	asJSON := jsonFlag(fs)
	calculate := c.prepare(fs)
	usage := func(fs *flag.FlagSet) string {
		return page.Fold(fmt.Sprintf("Usage: cost %s [flags]\n\nComputes %s.\n\n%s", c.name, c.about, defaults(fs)))
	}
	if err := parse(fs, args, usage); err != nil {
		return nil, err
	}
	r, err := calculate(stdin)
	if err != nil {
		return nil, err
	}
	if *asJSON {
		return encode(r)
	}
	var b strings.Builder
	r.text(&b)
	if ids := r.citations(); len(ids) > 0 {
		b.WriteString("\n")
		sources(&b, ids)
	}
	return []byte(page.Fold(b.String())), nil
}

func parse(fs *flag.FlagSet, args []string, usage func(*flag.FlagSet) string) error {
	fs.SetOutput(io.Discard)
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return helpError(usage(fs))
	case err != nil:
		return err
	case fs.NArg() > 0:
		return fmt.Errorf("unexpected argument %.40q (put the calculator's name first, then flags)", fs.Arg(0))
	}
	return nil
}

func overview(fs *flag.FlagSet) string {
	var b strings.Builder
	b.WriteString("Usage: cost [calculator] [flags]\n\nRuns the arithmetic of sharing a GPU. Without a calculator all " +
		"run, with the\nsources' inputs, and show what each source printed. No GPU is needed.\n\nCalculators (cost " +
		"CALCULATOR -h lists its flags):\n")
	for _, c := range calculators {
		fmt.Fprintf(&b, "  %-10s %s\n", c.name, c.about)
	}
	fmt.Fprintf(&b, "\n%s\n", defaults(fs))
	sources(&b, []sharing.SourceID{eksArticle, asleekgeekArticle, bertonArticle})
	return page.Fold(b.String())
}

func defaults(fs *flag.FlagSet) string {
	return "Flags:\n" + page.Flags(fs)
}

func names() []string {
	var ns []string
	for _, c := range calculators {
		ns = append(ns, c.name)
	}
	return ns
}

func encode(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
}

func jsonFlag(fs *flag.FlagSet) *bool { return fs.Bool("json", false, "print JSON") }

// moneyFlag adds a flag whose default value must be an amount.
func moneyFlag(fs *flag.FlagSet, name, value, usage string) *cost.Money {
	m := new(cost.Money)
	initial, _ := cost.ParseMoney(value) // the golden files show every default
	fs.TextVar(m, name, initial, usage)
	return m
}

func ppmFlag(fs *flag.FlagSet, name string, value cost.PPM, usage string) *cost.PPM {
	p := new(cost.PPM)
	fs.TextVar(p, name, value, usage)
	return p
}

// given says whether any of the named flags, or any flag but -json if none
// is named, was set.
func given(fs *flag.FlagSet, names ...string) bool {
	found := false
	fs.Visit(func(f *flag.Flag) {
		if len(names) == 0 && f.Name != "json" {
			found = true
		}
		for _, n := range names {
			found = found || n == f.Name
		}
	})
	return found
}
