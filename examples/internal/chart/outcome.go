package chart

import (
	"bytes"
	"fmt"
	"io"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/loadgen/study"
)

// Outcome shows a study's outcome beside what its runs cost.
type Outcome struct {
	*study.Outcome
	Price cost.Money // of what serves for an hour, in the demonstration of one GPU; 0 is not known
	Demo  bool
	Dir   string // that holds the artifacts; empty without
	Page  bool   // write figures and report.html into Dir
}

// Write writes tables, or the runs as JSON, and the page if asked for. Nothing is shown where the page fails.
func (o Outcome) Write(w io.Writer, asJSON bool) error {
	hourly := func(scenario string) (cost.Money, error) {
		if o.Demo {
			return o.Price.Mul(int64(study.DemoGPUs(scenario)))
		}
		return o.Price, nil
	}
	runs, err := CostsOf(o.Results, hourly)
	if err != nil {
		return err
	}
	if asJSON {
		return page.JSON(w, runs)
	}
	var b bytes.Buffer
	if err := o.WriteText(&b); err != nil {
		return err
	}
	if o.Price.Sign() > 0 {
		if err := runs.WriteText(&b); err != nil {
			return err
		}
	}
	if o.Dir != "" {
		fmt.Fprintf(&b, "\nartifacts: %s\n", o.Dir)
	}
	if o.Page {
		at, err := WriteReport(o.Dir, o.Results)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "report:    %s\n", at)
	}
	_, err = w.Write(b.Bytes())
	return err
}
