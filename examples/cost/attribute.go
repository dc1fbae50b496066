package main

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/cotenant/cotenant/cost"
)

//go:embed testdata/hour.yaml
var sampleHour []byte

type attributeResult struct {
	UseWeight cost.PPM     `json:"use_weight"`
	Splits    []cost.Split `json:"by_basis"`
	Note      string       `json:"note,omitempty"`
	cited
}

func prepareAttribute(fs *flag.FlagSet) func(io.Reader) (result, error) {
	input := fs.String("input", "", "YAML or JSON `file` with price, capacity, use_capacity and tenants (tenant, "+
		"allocated, used); - is standard input; without it an invented hour is used")
	weight := ppmFlag(fs, "use-weight", 50*cost.Percent, "how much use counts in the blend, in `percent`")
	spread := fs.Bool("spread-idle", false, "charge idle capacity to the tenants in proportion to their parts")
	return func(stdin io.Reader) (result, error) {
		gpu, err := readGPU(*input, stdin)
		if err != nil {
			return nil, err
		}
		r := attributeResult{UseWeight: *weight}
		ways := []cost.SplitBy{cost.SplitByAllocation, cost.SplitByUse, cost.SplitByBlend}
		if slices.ContainsFunc(gpu.Tenants, func(t cost.TenantUse) bool { return t.Used.IsZero() }) {
			ways, r.Note = ways[:1], "Not every tenant's use was measured, so use and blend are left out."
		}
		for _, by := range ways {
			opts := cost.SplitOptions{By: by, SpreadIdle: *spread}
			if by == cost.SplitByBlend {
				opts.UseWeight = *weight
			}
			s, err := gpu.Split(opts)
			if err != nil {
				return nil, err
			}
			r.Splits = append(r.Splits, s)
		}
		if *input == "" {
			r.Note = "The hour is invented; give your own with -input."
		}
		return r, nil
	}
}

func readGPU(path string, stdin io.Reader) (cost.SharedGPU, error) {
	in, name := io.Reader(bytes.NewReader(sampleHour)), "the sample"
	switch path {
	case "":
	case "-":
		in, name = stdin, "standard input"
	default:
		f, err := os.Open(path)
		if err != nil {
			return cost.SharedGPU{}, err
		}
		defer f.Close()
		in, name = f, path
	}
	gpu, err := cost.ReadSharedGPU(in)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return gpu, err
}

func (r attributeResult) text(w io.Writer) {
	price := r.Splits[0].Price
	fmt.Fprintf(w, "ATTRIBUTE: who pays for %s of a shared GPU\n\n", price)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name string, value func(cost.Split) string) {
		fmt.Fprintf(t, "  %s", name)
		for _, a := range r.Splits {
			fmt.Fprintf(t, "\t%s", value(a))
		}
		fmt.Fprintln(t)
	}
	line("tenant", func(a cost.Split) string {
		switch a.By {
		case cost.SplitByUse:
			return "by use"
		case cost.SplitByBlend:
			return "blend, use " + r.UseWeight.String()
		}
		return "by allocation"
	})
	for i, c := range r.Splits[0].Charges {
		line(c.Tenant, func(a cost.Split) string { return a.Charges[i].Amount.Decimal() })
	}
	line("(idle)", func(a cost.Split) string { return a.Idle.Decimal() })
	line("sum", func(a cost.Split) string { return a.Price.Decimal() })
	_ = t.Flush()
	for _, a := range r.Splits {
		if a.Oversubscribed {
			fmt.Fprintf(w, "  By %s the parts came to more than the GPU and were scaled down.\n", a.By)
		}
	}
	if r.Note != "" {
		fmt.Fprintf(w, "  %s\n", r.Note)
	}
}
