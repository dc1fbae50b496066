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

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

const usage = `predict predicts co-location from what workloads do alone.

  predict -data rows.json                       predict with the built-in constants, and compare
  predict -data rows.json -fit other.json       calibrate on other measurements first
  predict -fit a.json -fit b.json -save p.json  calibrate and keep the predictor
  predict -data rows.json -use p.json -json     use a kept one

A file is a list of rows {mechanism, case, load, server, tenants, tokens_per_s,
ttft_ms, tpot_ms, itl_ms, e2e_ms, gpm, ...}. Rows with one tenant are profiles;
all others are predicted from their server and load alone, and compared with
their outcome where the file holds it. Errors are absolute, in percent.

Flags:
`

// options are the command's flags.
type options struct {
	data, use, save string
	fit             []string
	json, rows      bool
	splits          bool
	turnsOnly       bool
	method          predict.Method
}

// run is the command: 0 is success, 1 a failure, 2 bad input.
func run(args []string, stdout, stderr io.Writer) (code int) {
	stdout, done := page.Check("predict", stdout, stderr)
	defer done(&code)
	fs := flag.NewFlagSet("predict", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are reported below
	var o options
	fs.StringVar(&o.data, "data", "", "`file` of rows to predict")
	fs.Func("fit", "calibrate on the measured rows of `file`; may be repeated", func(s string) error { o.fit = append(o.fit, s); return nil })
	fs.StringVar(&o.use, "use", "", "start from the predictor in `file`")
	fs.StringVar(&o.save, "save", "", "write the predictor to `file`")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	fs.BoolVar(&o.rows, "rows", false, "print every row, and not only those that are missed most")
	fs.BoolVar(&o.splits, "splits", true, "also predict the measured rows of -data with predictors calibrated on its other cases, and on its other models")
	fs.BoolVar(&o.turnsOnly, "time-slicing-profiles", false, "leave profiles under MPS out, and predict MPS from those without")
	fs.TextVar(&o.method, "method", predict.MethodSimulated, "simulated or closed-form")
	fail := func(code int, err error) int {
		fmt.Fprintf(stderr, "predict: %v\n", err)
		return code
	}
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		fmt.Fprint(stdout, page.Flags(fs))
		return 0
	case err != nil:
		return fail(2, err)
	case fs.NArg() > 0:
		return fail(2, fmt.Errorf("unknown argument %q; a file of rows is given with -data", fs.Arg(0)))
	case o.data == "" && (o.save == "" || len(o.fit) == 0):
		return fail(2, errors.New("nothing to do: give -data, or -fit and -save"))
	}
	predictor, others, err := o.predictor()
	if err != nil {
		return fail(2, err)
	}
	var rep *report
	if o.data != "" {
		if rep, err = o.report(predictor, others); err != nil {
			return fail(2, err)
		}
	}
	if o.save != "" {
		data, err := json.MarshalIndent(predictor, "", "  ")
		if err == nil {
			err = os.WriteFile(o.save, append(data, '\n'), 0o644)
		}
		if err != nil {
			return fail(1, err)
		}
	}
	switch {
	case rep == nil:
		err = writeParameters(stdout, predictor)
	case o.json:
		err = writeJSON(stdout, rep)
	default:
		err = rep.write(stdout, o.rows)
	}
	if err != nil {
		return fail(1, err)
	}
	return 0
}

// predictor returns the predictor to use, and the profiles in the files that it
// was calibrated on.
func (o *options) predictor() (*predict.Predictor, *predict.Profiles, error) {
	p := predict.NewPredictor()
	if o.use != "" {
		kept, err := predict.LoadPredictor(o.use)
		if err != nil {
			return nil, nil, err
		}
		p = *kept
	}
	var others predict.Profiles
	if len(o.fit) == 0 {
		return &p, &others, nil
	}
	var measured []predict.Rows
	for _, name := range o.fit {
		rows, err := o.readRows(name)
		if err != nil {
			return nil, nil, err
		}
		if err := others.Add(rows.Profiles()...); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		measured = append(measured, rows)
	}
	fitted, err := p.Fit(o.method, measured...)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", strings.Join(o.fit, ", "), err)
	}
	return fitted, &others, nil
}

func (o *options) readRows(name string) (predict.Rows, error) {
	rows, err := predict.LoadRows(name)
	if o.turnsOnly {
		rows = slices.DeleteFunc(rows, func(r predict.Row) bool { return r.Tenants == 1 && r.Mechanism == sharing.MechanismMPS })
	}
	return rows, err
}
