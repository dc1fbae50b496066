package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/internal/strictyaml"
)

//go:embed testdata/hour.yaml
var sampleHour []byte

// hourInput is the file that -input reads.
type hourInput struct {
	Price       cost.Money    `yaml:"price,required"`
	Capacity    float64       `yaml:"capacity"`
	UseCapacity float64       `yaml:"use_capacity"`
	Tenants     []tenantInput `yaml:"tenants,required"`
}

type tenantInput struct {
	Tenant    string   `yaml:"tenant,required"`
	Allocated float64  `yaml:"allocated,required"`
	Used      *float64 `yaml:"used"`
}

type attributeResult struct {
	UseWeight    cost.PPM     `json:"use_weight"`
	Attributions []cost.Split `json:"by_basis"`
	Note         string       `json:"note,omitempty"`
}

func prepareAttribute(fs *flag.FlagSet) func(io.Reader) (result, error) {
	input := fs.String("input", "", "YAML or JSON `file` with price, capacity, use_capacity and tenants (tenant, allocated, used); - is standard input; without it an invented hour is used")
	weight := ppmFlag(fs, "use-weight", 50*cost.Percent, "how much use counts in the blend, in `percent`")
	spread := fs.Bool("spread-idle", false, "charge idle capacity to the tenants in proportion to their parts")
	return func(stdin io.Reader) (result, error) {
		in, err := readHour(*input, stdin)
		if err != nil {
			return nil, err
		}
		tenants := make([]cost.TenantUse, len(in.Tenants))
		for i, t := range in.Tenants {
			tenants[i] = cost.TenantUse(t)
		}
		r := attributeResult{UseWeight: *weight}
		bases := []cost.SplitBy{cost.SplitByAllocation, cost.SplitByUse, cost.SplitByBlend}
		if slices.ContainsFunc(tenants, func(t cost.TenantUse) bool { return t.Used == nil }) {
			bases, r.Note = bases[:1], "Not every tenant's use was measured, so use and blend are left out."
		}
		for _, b := range bases {
			opts := cost.SplitOptions{Basis: b, Capacity: in.Capacity, UseCapacity: in.UseCapacity, SpreadIdle: *spread}
			if b == cost.SplitByBlend {
				opts.UseWeight = *weight
			}
			a, err := cost.Attribute(in.Price, tenants, opts)
			if err != nil {
				return nil, err
			}
			r.Attributions = append(r.Attributions, a)
		}
		if *input == "" {
			r.Note = "The hour is invented; give your own with -input."
		}
		return r, nil
	}
}

func readHour(path string, stdin io.Reader) (hourInput, error) {
	var in hourInput
	data, name := sampleHour, "the sample"
	var err error
	switch path {
	case "":
	case "-":
		name = "standard input"
		data, err = strictyaml.Read(stdin, strictyaml.Options{})
	default:
		name = path
		data, err = readFile(path)
	}
	if err == nil {
		err = strictyaml.Decode(data, &in, strictyaml.Options{})
	}
	if err != nil {
		return in, fmt.Errorf("%s: %w", name, err)
	}
	return in, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			return nil, pe.Err // the caller names the path
		}
		return nil, err
	}
	defer f.Close()
	return strictyaml.Read(f, strictyaml.Options{})
}

func (r attributeResult) text(w io.Writer) {
	price := r.Attributions[0].Price
	fmt.Fprintf(w, "ATTRIBUTE: who pays for %s of a shared GPU\n\n", price)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name string, value func(cost.Split) string) {
		fmt.Fprintf(t, "  %s", name)
		for _, a := range r.Attributions {
			fmt.Fprintf(t, "\t%s", value(a))
		}
		fmt.Fprintln(t)
	}
	line("tenant", func(a cost.Split) string {
		switch a.Basis {
		case cost.SplitByUse:
			return "by use"
		case cost.SplitByBlend:
			return "blend, use " + r.UseWeight.String()
		}
		return "by allocation"
	})
	for i, c := range r.Attributions[0].Charges {
		line(c.Tenant, func(a cost.Split) string { return a.Charges[i].Amount.Decimal() })
	}
	line("(idle)", func(a cost.Split) string { return a.Idle.Decimal() })
	line("sum", func(a cost.Split) string { return a.Price.Decimal() })
	_ = t.Flush()
	for _, a := range r.Attributions {
		if a.Oversubscribed {
			fmt.Fprintf(w, "  By %s the parts came to more than the GPU and were scaled down.\n", a.Basis)
		}
	}
	if r.Note != "" {
		fmt.Fprintf(w, "  %s\n", r.Note)
	}
}
