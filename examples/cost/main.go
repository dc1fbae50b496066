// Command cost runs the arithmetic of sharing a GPU on the inputs of widely read
// calculators, or on yours, and shows what each source printed beside it.
//
// Without arguments it runs all four calculators with the sources' inputs. It needs no GPU.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// answer holds the figures of a calculator as text, and their sources.
type answer struct {
	text    strings.Builder
	sources sharing.Citations
}

func (a *answer) printf(format string, args ...any) { fmt.Fprintf(&a.text, format, args...) }

func (a *answer) table(rows [][]string) {
	t := tabwriter.NewWriter(&a.text, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintln(t, "  "+strings.Join(cells, "\t"))
	}
	_ = t.Flush()
}

type calculator struct {
	name, about string
	// prepare adds the calculator's flags and returns what to do when they are parsed.
	prepare func(fs *flag.FlagSet) func(a *answer) error
}

var calculators = []calculator{
	{"tenants", "cost per workload and GPU-hours recovered when tenants share a GPU (asleekgeek-sharing)", tenants},
	{"nodes", "node composition before and after sharing, like for like (myitbasics-eks-sharing)", nodes},
	{"sla", "what added latency costs in revenue, and from which revenue on sharing loses (myitbasics-eks-sharing)", sla},
	{"compare", "two mechanisms side by side (lucaberton-sharing)", compare},
}

const (
	eksArticle        = sharing.SourceID("myitbasics-eks-sharing")
	asleekgeekArticle = sharing.SourceID("asleekgeek-sharing")
	bertonArticle     = sharing.SourceID("lucaberton-sharing")
)

func run(args []string, stdout, stderr io.Writer) int {
	return page.Run(context.Background(), "cost", stdout, stderr, func(stdout io.Writer) error {
		out, err := execute(args, stdout)
		if err == nil {
			_, err = io.WriteString(stdout, out)
		}
		return err
	})
}

// execute runs one calculator with its flags, or all with their defaults.
func execute(args []string, stdout io.Writer) (string, error) {
	fs, asked := page.FlagSet("cost"), calculators
	var calculate []func(*answer) error
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		i := slices.IndexFunc(asked, func(c calculator) bool { return c.name == args[0] })
		if i < 0 {
			return "", page.BadInput(fmt.Errorf("there is no calculator %.40q (see -h)", args[0]))
		}
		asked, args = asked[i:i+1], args[1:]
		calculate = append(calculate, asked[0].prepare(fs))
	} else {
		for _, c := range asked {
			calculate = append(calculate, c.prepare(page.FlagSet(c.name)))
		}
	}
	if err := page.Parse(fs, args, usage(asked), 0, stdout); err != nil {
		return "", err
	}
	cites := sharing.Citations{}
	var pages []string
	for _, f := range calculate {
		var a answer
		if err := f(&a); err != nil {
			return "", page.BadInput(err)
		}
		pages = append(pages, a.text.String())
		cites.Add(a.sources.IDs...)
	}
	var list strings.Builder
	if _ = cites.WriteText(&list); list.Len() > 0 {
		pages = append(pages, list.String())
	}
	return page.Fold(strings.Join(pages, "\n")), nil
}

func usage(asked []calculator) string {
	if len(asked) == 1 {
		return page.Fold(fmt.Sprintf("Usage: cost %s [flags]\n\nComputes %s.\n\n", asked[0].name, asked[0].about))
	}
	var b strings.Builder
	b.WriteString("Usage: cost [calculator] [flags]\n\nRuns the arithmetic of sharing a GPU. Without a calculator all " +
		"run, with the\nsources' inputs, and show what each source printed. No GPU is needed.\n\nCalculators (cost " +
		"CALCULATOR -h lists its flags):\n")
	for _, c := range asked {
		fmt.Fprintf(&b, "  %-10s %s\n", c.name, c.about)
	}
	return page.Fold(b.String())
}

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

// given says whether any of the named flags, or any flag if none is named, was set.
func given(fs *flag.FlagSet, names ...string) (found bool) {
	fs.Visit(func(f *flag.Flag) { found = found || len(names) == 0 || slices.Contains(names, f.Name) })
	return found
}
