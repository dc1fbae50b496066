package main

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cotenant/cotenant/cost"
)

//go:embed testdata/hour.yaml
var sampleHour []byte

func attribute(fs *flag.FlagSet) func(*answer, io.Reader) error {
	input := fs.String("input", "", "YAML or JSON `file` with price, capacity, use_capacity and tenants (tenant, "+
		"allocated, used); - is standard input; without it an invented hour is used")
	weight := ppmFlag(fs, "use-weight", 50*cost.Percent, "how much use counts in the blend, in `percent`")
	spread := fs.Bool("spread-idle", false, "charge idle capacity to the tenants in proportion to their parts")
	return func(a *answer, stdin io.Reader) error {
		gpu, err := readGPU(*input, stdin)
		if err != nil {
			return err
		}
		ways := []cost.SplitBy{cost.SplitByAllocation, cost.SplitByUse, cost.SplitByBlend}
		note := ""
		if slices.ContainsFunc(gpu.Tenants, func(t cost.TenantUse) bool { return t.Used.IsZero() }) {
			ways, note = ways[:1], "Not every tenant's use was measured, so use and blend are left out."
		}
		if *input == "" {
			note = "The hour is invented; give your own with -input."
		}
		rows := [][]string{{"tenant"}}
		for _, t := range gpu.Tenants {
			rows = append(rows, []string{t.Tenant})
		}
		rows = append(rows, []string{"(idle)"}, []string{"sum"})
		var splits []cost.Split
		for i, by := range ways {
			opts := cost.SplitOptions{By: by, SpreadIdle: *spread}
			if by == cost.SplitByBlend {
				opts.UseWeight = *weight
			}
			s, err := gpu.Split(opts)
			if err != nil {
				return err
			}
			splits = append(splits, s)
			cells := []string{[]string{"by allocation", "by use", "blend, use " + weight.String()}[i]}
			for _, c := range s.Charges {
				cells = append(cells, c.Amount.Decimal())
			}
			for row, cell := range append(cells, s.Idle.Decimal(), s.Price.Decimal()) {
				rows[row] = append(rows[row], cell)
			}
		}
		a.json["use_weight"], a.json["by_basis"] = weight, splits
		a.printf("ATTRIBUTE: who pays for %s of a shared GPU\n\n", splits[0].Price)
		a.table("  ", rows)
		for _, s := range splits {
			if s.Oversubscribed {
				a.printf("  By %s the parts came to more than the GPU and were scaled down.\n", s.By)
			}
		}
		a.note(note)
		return nil
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
