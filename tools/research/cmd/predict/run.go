// SPDX-License-Identifier: Apache-2.0

// Command predict says how well predictions of workloads that share a GPU are met by measurements, beside simpler
// rules, and asks them yes-or-no questions. cotenant predict shows the predictions themselves.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/tools/research/internal/cli"
	"github.com/cotenant/cotenant/tools/research/judge"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

const usage = `predict compares predictions of co-location with what was measured.

  predict -profiles rows.json                     predict with the built-in constants, and compare
  predict -profiles rows.json -fit other.json     calibrate on other measurements first
  predict -fit a.json -fit b.json -out p.json     calibrate and keep the predictor
  predict -profiles rows.json -predictor p.json   use a kept one
  predict -profiles a.json -profiles b.json       predict each series by the others as well
  predict -questions -data a.json b.json          is each limit kept? By the others, and by decide
  predict -benchmark benchmark                    the open benchmark: questions and leaderboard
  predict -regret -data a.json b.json             what deciding the mixes comes to, by measurement

exit: 0 done, 2 bad input, 5 could not be done

A file is a list of rows, as cotenant measure writes (rows.json). Rows with one tenant
are profiles; all others are predicted. Errors are absolute, in percent.

Flags:
`

// options are the command's flags.
type options struct {
	data, fit   []string
	use, save   string
	gpu, fitGPU string
	json        bool
	splits      bool
	questions   bool
	regret      bool
	benchmark   string
	submission  []string
	method      predict.Method

	fitted  []profile.Rows // of -fit
	assumed []string
	named   map[string]string // by path, the series of its rows where the file's name would not tell
}

// openBenchmark adds the files of rows that a benchmark's folder names in rows.txt, and its submissions.
func (o *options) openBenchmark() error {
	list, err := os.ReadFile(filepath.Join(o.benchmark, "rows.txt"))
	for name := range strings.FieldsSeq(string(list)) {
		o.data = append(o.data, filepath.Join(o.benchmark, name))
	}
	submissions, globErr := filepath.Glob(filepath.Join(o.benchmark, "submissions", "*.json"))
	o.submission = append(submissions, o.submission...)
	return errors.Join(err, globErr)
}

// run is the command: 0 is success, 2 bad input, 5 a failure.
func run(args []string, stdout, stderr io.Writer) int {
	return cli.Run(context.Background(), "predict", stderr, func() error { return answer(args, stdout) })
}

func answer(args []string, stdout io.Writer) error {
	fs := cli.FlagSet("predict")
	var o options
	list := func(name, usage string, to *[]string) {
		fs.Func(name, usage+"; may be repeated", func(s string) error { *to = append(*to, s); return nil })
	}
	list("profiles", "`FILE` of rows to predict", &o.data)
	list("data", "the same as -profiles; of -questions, which take further files as arguments, and -regret", &o.data)
	fs.BoolVar(&o.questions, "questions", false,
		"ask of every measured mix whether it keeps limits of 1.1 to 4 times alone")
	fs.BoolVar(&o.regret, "regret", false,
		"decide the mixes measured under both mechanisms, and count by measurement what comes of it")
	fs.StringVar(&o.benchmark, "benchmark", "",
		"the open benchmark of co-location in `FOLDER`: its questions (-json) and its leaderboard")
	list("submission", "further answers to the benchmark's questions in `FILE`", &o.submission)
	fs.StringVar(&o.gpu, "gpu", "",
		"`NAME` of the GPU of rows of -profiles that name none (default: that of the calibration)")
	fs.StringVar(&o.fitGPU, "fit-gpu", "",
		"`NAME` of the GPU of rows of -fit that name none (default: that of the predictor calibrated)")
	list("fit", "calibrate on the measured rows of `FILE`", &o.fit)
	fs.StringVar(&o.use, "predictor", "", "start from the predictor in `FILE`")
	fs.StringVar(&o.save, "out", "", "write the predictor to `FILE`")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	fs.BoolVar(&o.splits, "splits", true, "also predict the measured rows of -profiles by its other cases, its other "+
		"models,\nor of several files its other series")
	fs.Func("method", "`simulated` or closed-form", func(s string) error {
		o.method = predict.Method(s)
		if o.method != predict.MethodSimulated && o.method != predict.MethodClosedForm {
			return errors.New("use simulated or closed-form")
		}
		return nil
	})
	o.method = predict.MethodSimulated
	if err := cli.Parse(fs, args, usage, stdout); err != nil {
		return err
	}
	asks := o.questions || o.regret || o.benchmark != ""
	if asks {
		o.data = append(o.data, fs.Args()...)
	}
	if o.benchmark != "" {
		if err := o.openBenchmark(); err != nil {
			return cli.BadInput(err)
		}
	}
	switch {
	case fs.NArg() > 0 && !asks:
		return cli.BadInput(fmt.Errorf("unknown argument %q; a file of rows is given with -profiles", fs.Arg(0)))
	case len(o.data) == 0 && (o.save == "" || len(o.fit) == 0):
		return cli.BadInput(errors.New("nothing to do: give -profiles, or -fit and -out"))
	case o.gpu != "" && len(o.data) == 0:
		return cli.BadInput(errors.New("-gpu is the GPU of rows of -profiles, and there are none; -fit-gpu is that " +
			"of rows of -fit"))
	case o.fitGPU != "" && len(o.fit) == 0:
		return cli.BadInput(errors.New("-fit-gpu is the GPU of rows of -fit, and there are none; -gpu is that of rows of " +
			"-profiles"))
	}
	if err := o.nameSeries(); err != nil {
		return cli.BadInput(err)
	}
	predictor, others, err := o.predictor()
	if err != nil {
		return cli.BadInput(err)
	}
	if asks {
		return o.ask(predictor, others, stdout)
	}
	var rep *report
	if len(o.data) > 0 {
		if rep, err = o.report(predictor, others); err != nil {
			return cli.BadInput(err)
		}
	}
	if o.save != "" {
		data, err := json.MarshalIndent(predictor, "", "  ")
		if err == nil {
			err = os.WriteFile(o.save, append(data, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case rep == nil:
		return o.writeParameters(stdout, predictor)
	case o.json:
		return cli.JSON(stdout, rep)
	}
	return rep.write(stdout)
}

// ask answers yes-or-no questions about the measured mixes of -data, or decides them.
func (o *options) ask(p *predict.Predictor, others *profile.Profiles, stdout io.Writer) error {
	files := slices.Clone(o.fitted)
	for _, name := range o.data {
		rows, err := o.readRows(name, o.gpu, others)
		if err != nil {
			return cli.BadInput(err)
		}
		files = append(files, rows)
	}
	mixes, err := p.Mixes(o.method, files...)
	if err != nil {
		return cli.BadInput(err)
	}
	var answers interface{ WriteText(io.Writer) error }
	switch {
	case o.regret:
		answers, err = judge.Regret(context.Background(), mixes)
	case o.benchmark != "":
		b, err := judge.NewBenchmark(context.Background(), mixes)
		for _, name := range o.submission {
			data, readErr := os.ReadFile(name)
			if err = cmp.Or(err, readErr); err == nil {
				err = b.Submit(data)
			}
			if err != nil {
				return cli.BadInput(fmt.Errorf("%s: %w", name, err))
			}
		}
		if err != nil {
			return err
		}
		answers = b
	default:
		answers, err = judge.Ask(context.Background(), mixes)
	}
	if err != nil {
		return err
	}
	if o.json {
		return cli.JSON(stdout, answers)
	}
	return answers.WriteText(stdout)
}

// predictor returns the predictor to use, and the profiles in the files that it was calibrated on.
func (o *options) predictor() (*predict.Predictor, *profile.Profiles, error) {
	p := predict.NewPredictor()
	if o.use != "" {
		kept, err := predict.LoadPredictor(o.use)
		if err != nil {
			return nil, nil, err
		}
		p = *kept
	}
	var others profile.Profiles
	if len(o.fit) == 0 {
		return &p, &others, nil
	}
	for _, name := range o.fit {
		rows, err := o.readRows(name, o.fitGPU, &others)
		if err != nil {
			return nil, nil, err
		}
		o.fitted = append(o.fitted, rows)
	}
	fitted, err := o.place(p).Fit(o.method, o.fitted...)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", strings.Join(o.fit, ", "), err)
	}
	return fitted, &others, nil
}

// place returns the predictor of the GPU that most tenants to calibrate on are of. Rows of another do not count.
func (o *options) place(p predict.Predictor) predict.Predictor {
	most := plainGPU(p.GPU)
	names, tenants := map[string]string{most: p.GPU}, map[string]int{}
	for _, r := range slices.Concat(o.fitted...) {
		if r.Tenants == 1 {
			continue
		}
		if r.GPUName == "" {
			o.assume(unnamed, p.GPU)
			r.GPUName = p.GPU
		}
		gpu := plainGPU(r.GPUName)
		names[gpu] = cmp.Or(names[gpu], r.GPUName)
		tenants[gpu]++
	}
	sorted := slices.Sorted(maps.Keys(tenants))
	for _, gpu := range sorted {
		if tenants[gpu] > tenants[most] {
			most = gpu
		}
	}
	for _, gpu := range sorted {
		if gpu != most {
			o.assume("%d rows of -fit are of the %s, and do not calibrate a predictor of the %s", tenants[gpu], names[gpu],
				names[most])
		}
	}
	if most == plainGPU(p.GPU) {
		return p
	}
	return p.On(names[most], "")
}

// plainGPU returns one name for each GPU, however tools write it.
func plainGPU(name string) string {
	if gpu, err := sharing.LookupGPU(name); err == nil {
		return gpu.Name
	}
	return strings.TrimPrefix(strings.ToLower(name), "nvidia ")
}

const unnamed = "rows that name no GPU are of the %s, as the predictor is (-gpu NAME and -fit-gpu NAME say otherwise)"

// assume records an assumption, once.
func (o *options) assume(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(o.assumed, text) {
		o.assumed = append(o.assumed, text)
	}
}

// nameSeries tells files of one name in several folders apart, as those of several measure runs are, by their
// folders. A file may be given once: beside itself it would be predicted by itself.
func (o *options) nameSeries() error {
	given := map[string]bool{}
	for _, files := range [][]string{o.data, o.fit} {
		var seen []string
		for _, f := range files {
			full, err := filepath.Abs(f)
			if err != nil {
				return err
			}
			if slices.Contains(seen, full) {
				return fmt.Errorf("%s is given twice (-profiles and -fit take a file once; what was measured again is "+
					"another file)", f)
			}
			seen = append(seen, full)
			given[full] = true
		}
	}
	folder := func(f string) string { return filepath.Base(filepath.Dir(f)) }
	bases, folders := map[string]int{}, map[string]int{}
	for f := range given {
		bases[baseName(f)]++
		folders[folder(f)]++
	}
	o.named = map[string]string{}
	for f := range given {
		switch {
		case bases[baseName(f)] == 1:
		case folders[folder(f)] == 1 && bases[folder(f)] == 0:
			o.named[f] = folder(f)
		default:
			o.named[f] = f
		}
	}
	return nil
}

// baseName returns the name that profile.LoadRows gives a file's series.
func baseName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	return name
}

// readRows reads a file, names the GPU of rows that name none, and adds its profiles.
func (o *options) readRows(name, gpu string, profiles *profile.Profiles) (profile.Rows, error) {
	rows, err := profile.LoadRows(name)
	if err != nil {
		return nil, err
	}
	full, _ := filepath.Abs(name) // nameSeries checked it
	for i := range rows {
		if series := o.named[full]; series != "" && rows[i].Series == baseName(name) {
			rows[i].Series = series
		}
		rows[i].GPUName = cmp.Or(rows[i].GPUName, gpu)
	}
	if err := profiles.Add(rows.Profiles()...); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return rows, nil
}
