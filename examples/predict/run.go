package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/sharing"
)

const usage = `predict predicts co-location from what workloads do alone.

  predict -profiles rows.json                     predict with the built-in constants, and compare
  predict -profiles rows.json -fit other.json     calibrate on other measurements first
  predict -fit a.json -fit b.json -out p.json     calibrate and keep the predictor
  predict -profiles rows.json -predictor p.json   use a kept one
  predict -profiles a.json -profiles b.json       predict each series by the others as well

exit: 0 done, 2 bad input, 5 could not be written

A file is a list of rows {mechanism, case, load, server, tenants, tokens_per_s,
ttft_ms, tpot_ms, itl_ms, e2e_ms, gpm, ...}. Rows with one tenant are profiles;
all others are predicted from their server and load alone, and compared with
their outcome where the file holds it. Errors are absolute, in percent.

What was measured in one go on one machine is a series: a file, unless its rows
name their own ("series"). Series differ by more than two runs in one do, so the
intervals hold what the others predict of each. A row may name its GPU
("gpu_name"); what is calibrated on one GPU carries over to others, more widely.

Flags:
`

// options are the command's flags.
type options struct {
	data, fit   []string
	use, save   string
	gpu, fitGPU string
	json, rows  bool
	splits      bool
	turnsOnly   bool
	method      predict.Method

	fitted  []predict.Rows // of -fit
	assumed []string
	named   map[string]string // by file, the series of its rows where the file's name would not tell
}

// run is the command: 0 is success, 2 bad input, 5 a failure.
func run(args []string, stdout, stderr io.Writer) (code int) {
	stdout, done := page.Check("predict", stdout, stderr)
	defer done(&code)
	fs := flag.NewFlagSet("predict", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are reported below
	var o options
	list := func(name, usage string, to *[]string) {
		fs.Func(name, usage+"; may be repeated", func(s string) error { *to = append(*to, s); return nil })
	}
	list("profiles", "`FILE` of rows to predict", &o.data)
	fs.StringVar(&o.gpu, "gpu", "",
		"`NAME` of the GPU of rows of -profiles that name none (default: that of the calibration)")
	fs.StringVar(&o.fitGPU, "fit-gpu", "",
		"`NAME` of the GPU of rows of -fit that name none (default: that of the predictor calibrated)")
	list("fit", "calibrate on the measured rows of `FILE`", &o.fit)
	fs.StringVar(&o.use, "predictor", "", "start from the predictor in `FILE`")
	fs.StringVar(&o.save, "out", "", "write the predictor to `FILE`")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	fs.BoolVar(&o.rows, "rows", false, "print every row, and not only those that are missed most")
	fs.BoolVar(&o.splits, "splits", true, "also predict the measured rows of -profiles by its other cases, its other "+
		"models,\nor of several files its other series")
	fs.BoolVar(&o.turnsOnly, "time-slicing-profiles", false,
		"leave profiles under MPS out, and predict MPS from those without")
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
		return fail(2, fmt.Errorf("unknown argument %q; a file of rows is given with -profiles", fs.Arg(0)))
	case len(o.data) == 0 && (o.save == "" || len(o.fit) == 0):
		return fail(2, errors.New("nothing to do: give -profiles, or -fit and -out"))
	case o.gpu != "" && len(o.data) == 0:
		return fail(2, errors.New("-gpu is the GPU of rows of -profiles, and there are none; -fit-gpu is that of rows "+
			"of -fit"))
	case o.fitGPU != "" && len(o.fit) == 0:
		return fail(2, errors.New("-fit-gpu is the GPU of rows of -fit, and there are none; -gpu is that of rows of "+
			"-profiles"))
	}
	if o.save != "" {
		err = page.CanWrite(o.save)
	}
	if err := errors.Join(err, o.nameSeries()); err != nil {
		return fail(2, err)
	}
	predictor, others, err := o.predictor()
	if err != nil {
		return fail(2, err)
	}
	var rep *report
	if len(o.data) > 0 {
		if rep, err = o.report(predictor, others); err != nil {
			return fail(2, err)
		}
	}
	if o.save != "" {
		data, err := json.MarshalIndent(predictor, "", "  ")
		if err == nil {
			err = page.WriteFile(o.save, append(data, '\n'))
		}
		if err != nil {
			return fail(5, err)
		}
	}
	switch {
	case rep == nil:
		err = o.writeParameters(stdout, predictor)
	case o.json:
		err = writeJSON(stdout, rep)
	default:
		err = rep.write(stdout, o.rows)
	}
	if err != nil {
		return fail(5, err)
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
	for _, name := range o.fit {
		rows, err := o.readRows(name)
		if err != nil {
			return nil, nil, err
		}
		if err := others.Add(rows.Profiles()...); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		o.fitted = append(o.fitted, rows)
	}
	p = o.place(p)
	fitted, err := p.Fit(o.method, o.fitted...)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", strings.Join(o.fit, ", "), err)
	}
	return fitted, &others, nil
}

// place names the GPU of the rows to calibrate on that name none, and returns the
// predictor of the GPU that they are of. Rows of another than most tenants' do
// not count.
func (o *options) place(p predict.Predictor) predict.Predictor {
	tenants := map[string]int{}
	for _, rows := range o.fitted {
		for i := range rows {
			if rows[i].GPUName == "" {
				rows[i].GPUName = o.fitGPU
			}
			if rows[i].Tenants > 1 {
				tenants[rows[i].GPUName]++
			}
		}
	}
	if n := tenants[""]; n > 0 {
		o.assume(unnamed, p.GPU)
		delete(tenants, "")
		tenants[p.GPU] += n
	}
	names := slices.Sorted(maps.Keys(tenants))
	most, count := p.GPU, 0
	for _, name := range names {
		n := 0
		for other, m := range tenants {
			if sameGPU(name, other) {
				n += m
			}
		}
		if n > count {
			most, count = name, n
		}
	}
	for _, name := range names {
		if !sameGPU(name, most) {
			o.assume("%d rows of -fit are of the %s, and do not calibrate a predictor of the %s", tenants[name], name, most)
		}
	}
	if sameGPU(most, p.GPU) {
		return p
	}
	return p.On(most, "")
}

// sameGPU reports whether two names are of the same GPU.
func sameGPU(a, b string) bool {
	x, err := sharing.LookupGPU(a)
	y, err2 := sharing.LookupGPU(b)
	// as not every tool writes it
	bare := func(s string) string { return strings.TrimPrefix(strings.ToLower(s), "nvidia ") }
	return bare(a) == bare(b) || err == nil && err2 == nil && x == y
}

// onGPU names the GPU of the rows to predict that name none.
func (o *options) onGPU(rows predict.Rows, p *predict.Predictor) error {
	if o.gpu != "" && !sameGPU(o.gpu, p.GPU) {
		if _, err := sharing.LookupGPU(o.gpu); err != nil {
			return fmt.Errorf("-gpu: %w", err)
		}
	}
	for i := range rows {
		if rows[i].GPUName == "" && o.gpu == "" {
			o.assume(unnamed, p.GPU)
		}
		if rows[i].GPUName == "" {
			rows[i].GPUName = o.gpu
		}
	}
	return nil
}

const unnamed = "rows that name no GPU are of the %s, as the predictor is (-gpu NAME and -fit-gpu NAME say otherwise)"

// assume records an assumption, once.
func (o *options) assume(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(o.assumed, text) {
		o.assumed = append(o.assumed, text)
	}
}

// nameSeries tells files of one name in several folders apart, as those of several
// measure runs are, by their folders. A file may be given once: beside itself it
// would be predicted by itself.
func (o *options) nameSeries() error {
	var files []string
	given := map[string]string{}
	for _, list := range []struct {
		flag  string
		files []string
	}{{"-profiles", o.data}, {"-fit", o.fit}} {
		var seen []string
		for _, f := range list.files {
			full, err := filepath.Abs(f)
			if err != nil {
				return err
			}
			if slices.Contains(seen, full) {
				return fmt.Errorf("%s: %s is given twice (leave one out; what was measured again is another file)", list.flag, f)
			}
			seen = append(seen, full)
			if !slices.Contains(files, full) {
				files, given[full] = append(files, full), f
			}
		}
	}
	count := func(name func(string) string) map[string]int {
		n := map[string]int{}
		for _, f := range files {
			n[name(f)]++
		}
		return n
	}
	folder := func(f string) string { return filepath.Base(filepath.Dir(f)) }
	bases, folders := count(baseName), count(folder)
	o.named = map[string]string{}
	for _, f := range files {
		switch {
		case bases[baseName(f)] == 1:
		case folders[folder(f)] == 1 && bases[folder(f)] == 0:
			o.named[f] = folder(f)
		default:
			o.named[f] = given[f]
		}
	}
	return nil
}

// baseName returns the name that predict.LoadRows gives a file's series.
func baseName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	return name
}

func (o *options) readRows(name string) (predict.Rows, error) {
	rows, err := predict.LoadRows(name)
	if full, ferr := filepath.Abs(name); ferr == nil && o.named[full] != "" {
		for i := range rows {
			if rows[i].Series == baseName(name) {
				rows[i].Series = o.named[full]
			}
		}
	}
	if o.turnsOnly {
		rows = slices.DeleteFunc(rows, func(r predict.Row) bool {
			return r.Tenants == 1 &&
				r.Mechanism == sharing.MechanismMPS
		})
	}
	return rows, err
}
