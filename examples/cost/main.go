// Command cost runs the arithmetic of sharing a GPU on the inputs of widely read
// calculators, or on yours, and shows what each source printed beside it.
//
// Without arguments it runs all five calculators with the sources' inputs. It needs no GPU.
package main

import (
	"encoding/json"
	"errors"
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

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

type object = map[string]any

// answer holds the figures of a calculator, as text and for JSON, and their sources.
type answer struct {
	text    strings.Builder
	json    object
	sources sharing.Citations
}

func (a *answer) printf(format string, args ...any) { fmt.Fprintf(&a.text, format, args...) }

// note adds a remark unless it is empty.
func (a *answer) note(text string) {
	if text != "" {
		a.json["note"] = text
		a.printf("  %s\n", text)
	}
}

func (a *answer) table(indent string, rows [][]string) {
	t := tabwriter.NewWriter(&a.text, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintln(t, indent+strings.Join(cells, "\t"))
	}
	_ = t.Flush()
}

type calculator struct {
	name, about string
	// prepare adds the calculator's flags and returns what to do when they are parsed.
	prepare func(fs *flag.FlagSet) func(a *answer, stdin io.Reader) error
}

var calculators = []calculator{
	{"tenants", "cost per workload and GPU-hours recovered when tenants share a GPU (asleekgeek-sharing)", tenants},
	{"nodes", "node composition before and after sharing, like for like (myitbasics-eks-sharing)", nodes},
	{"sla", "what added latency costs in revenue, and from which revenue on sharing loses (myitbasics-eks-sharing)", sla},
	{"compare", "two mechanisms side by side", compare},
	{"attribute", "who pays for which part of a shared hour, by allocation, by use and by both", attribute},
}

const (
	eksArticle        = sharing.SourceID("myitbasics-eks-sharing")
	asleekgeekArticle = sharing.SourceID("asleekgeek-sharing")
	bertonArticle     = sharing.SourceID("lucaberton-sharing")
)

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	stdout, done := page.Check("cost", stdout, stderr)
	defer done(&code)
	out, err := execute(args, stdin)
	if err != nil {
		fmt.Fprintf(stderr, "cost: %s\nRun with -h for help.\n", strings.TrimPrefix(err.Error(), "cost: "))
		return 2
	}
	_, _ = io.WriteString(stdout, out)
	return 0
}

// execute runs one calculator with its flags, or all with their defaults.
func execute(args []string, stdin io.Reader) (string, error) {
	asked, one := calculators, len(args) > 0 && !strings.HasPrefix(args[0], "-")
	fs := flag.NewFlagSet("cost", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	asJSON := fs.Bool("json", false, "print JSON")
	if one {
		i := slices.IndexFunc(asked, func(c calculator) bool { return c.name == args[0] })
		if i < 0 {
			return "", fmt.Errorf("there is no calculator %.40q; there are tenants, nodes, sla, compare, attribute", args[0])
		}
		asked, args = asked[i:i+1], args[1:]
	}
	var calculate []func(*answer, io.Reader) error
	for _, c := range asked {
		own := fs
		if !one {
			own = flag.NewFlagSet(c.name, flag.ContinueOnError)
		}
		calculate = append(calculate, c.prepare(own))
	}
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return page.Fold(help(asked, fs)), nil
	case err != nil:
		return "", err
	case fs.NArg() > 0:
		return "", fmt.Errorf("unexpected argument %.40q (put the calculator's name first, then flags)", fs.Arg(0))
	}
	cites := sharing.Citations{Rest: "-json has all"}
	all := object{}
	var pages []string
	for i, f := range calculate {
		a := &answer{json: object{}}
		if err := f(a, stdin); err != nil {
			return "", err
		}
		if !a.sources.IsZero() {
			a.json["sources"] = a.sources
		}
		all[asked[i].name] = a.json
		pages = append(pages, a.text.String())
		cites.Add(a.sources.IDs...)
	}
	if *asJSON {
		var v any = all
		if one {
			v = all[asked[0].name]
		}
		b, err := json.MarshalIndent(v, "", "  ")
		return string(b) + "\n", err
	}
	var list strings.Builder
	if _ = cites.WriteText(&list); list.Len() > 0 {
		pages = append(pages, list.String())
	}
	return page.Fold(strings.Join(pages, "\n")), nil
}

func help(asked []calculator, fs *flag.FlagSet) string {
	flags := "Flags:\n" + page.Flags(fs)
	if len(asked) == 1 {
		return fmt.Sprintf("Usage: cost %s [flags]\n\nComputes %s.\n\n%s", asked[0].name, asked[0].about, flags)
	}
	var b strings.Builder
	b.WriteString("Usage: cost [calculator] [flags]\n\nRuns the arithmetic of sharing a GPU. Without a calculator all " +
		"run, with the\nsources' inputs, and show what each source printed. No GPU is needed.\n\nCalculators (cost " +
		"CALCULATOR -h lists its flags):\n")
	for _, c := range asked {
		fmt.Fprintf(&b, "  %-10s %s\n", c.name, c.about)
	}
	fmt.Fprintf(&b, "\n%s\n", flags)
	_ = sharing.Citations{IDs: []sharing.SourceID{eksArticle, asleekgeekArticle, bertonArticle}}.WriteText(&b)
	return b.String()
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

// given says whether any of the named flags, or any flag but -json if none is named, was set.
func given(fs *flag.FlagSet, names ...string) (found bool) {
	fs.Visit(func(f *flag.Flag) {
		found = found || slices.Contains(names, f.Name) || len(names) == 0 && f.Name != "json"
	})
	return found
}
