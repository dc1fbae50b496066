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
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

const usage = `Usage: cost [calculator] [flags]

Runs the arithmetic of sharing a GPU; without a calculator all run, with the sources' inputs. No GPU is needed.

  tenants    cost per workload and GPU-hours recovered when tenants share a GPU (asleekgeek-sharing)
  nodes      node composition before and after sharing, like for like (myitbasics-eks-sharing)
  sla        what added latency costs in revenue, and from which revenue on sharing loses (myitbasics-eks-sharing)
  compare    two mechanisms side by side (lucaberton-sharing)

`

// calculators add their flags and return what to do when they are parsed; all is the order in which they run.
var (
	calculators = map[string]func(*flag.FlagSet) func(*answer) error{"tenants": tenants, "nodes": nodes, "sla": sla,
		"compare": compare}
	all = []string{"tenants", "nodes", "sla", "compare"}
)

func run(args []string, stdout, stderr io.Writer) int {
	return page.Run(context.Background(), "cost", stdout, stderr, func(stdout io.Writer) error {
		return calculate(args, stdout)
	})
}

// calculate runs one calculator with its flags, or all with their defaults.
func calculate(args []string, stdout io.Writer) error {
	fs, asked := page.FlagSet("cost"), all
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		asked, args = args[:1], args[1:]
	}
	var run []func(*answer) error
	for _, name := range asked {
		prepare := calculators[name]
		if prepare == nil {
			return page.BadInput(fmt.Errorf("there is no calculator %.40q (see -h)", name))
		}
		run = append(run, prepare(fs))
		if len(asked) > 1 {
			fs = page.FlagSet("cost") // the flags are those of one calculator
		}
	}
	if err := page.Parse(fs, args, page.Fold(usage), 0, stdout); err != nil {
		return err
	}
	var a answer
	for _, f := range run {
		if err := f(&a); err != nil {
			return page.BadInput(err)
		}
		a.printf("\n")
	}
	_ = a.sources.WriteText(&a.text)
	_, err := io.WriteString(stdout, page.Fold(a.text.String()))
	return err
}

// answer holds the figures of calculators as text, and their sources.
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

// published says what a source printed for the inputs that are the flags' defaults.
func (a *answer) published(fs *flag.FlagSet, source sharing.SourceID, what string) {
	if fs.NFlag() == 0 {
		a.sources.Add(source)
		a.printf("  %s %s.\n", source, what)
	}
}

// moneyFlag adds a flag whose default value must be an amount.
func moneyFlag(fs *flag.FlagSet, name, value, usage string) *cost.Money {
	m, _ := cost.ParseMoney(value) // the golden files show every default
	fs.TextVar(&m, name, m, usage)
	return &m
}
